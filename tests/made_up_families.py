"""Made-up families, to see how long tests take with more operations: `make test-grown`. A pytest plugin.

In every round come three families of resources and a kind of service, until there are so many times as many
operations as the product has: `GROWTH=3`. Only tests that run inside the test process know them.
"""

from __future__ import annotations

import os
import tempfile
from itertools import count
from pathlib import Path

import pytest

import windlass.control.kinds
import windlass.families
from windlass.families import find_declarations, registry_of

GROWTH = float(os.environ.get("GROWTH", "3"))
WRITTEN_DOWN = {
    "test_the_committed_access_matrix_matches_the_registry",
    "test_every_operation_has_a_row_in_the_matrix",
}
PARENTS = ("organization", "project", "environment")
FAMILY = '''"""A thing {number}: made up."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from windlass.core.declare.fields import Description, Maybe, Name, Port, Text, Url, absent
from windlass.core.declare.resource import Family, Owner, Shown, Spec
from windlass.families.{parent} import {parent}


class Part{number}(Struct, forbid_unknown_fields=True):
    port: Port
    colours: Annotated[list[Literal["GREY", "RED"]], Meta(min_length=1, max_length=3)]
    text: Text = "text"


class Thing{number}(Spec):
    name: Name
    description: Description = ""
    kind: Literal["ROSE", "ROCK"] = "ROSE"
    size: Annotated[int, Meta(ge=1, le=1_000_000)] = 500
    least: Annotated[int, Meta(ge=0, le=100)] = 1
    open: bool = False
    link: Maybe[Url] = absent
    parts: Annotated[list[Part{number}], Meta(max_length=20)] = []
    words: Annotated[list[Text], Meta(max_length=10)] = []


class Thing{number}Shown(Shown):
    {parent}: Owner


thing_{number} = Family(
    "thing{number}",
    Thing{number},
    parent={parent},
    shown=Thing{number}Shown,
    title="Thing{number}",
    group="Things",
    param="thing{number}_id",
)
'''
SERVICE = '''"""A unit {number}, which is deployed: made up."""

from windlass.core.declare.fields import Mebibytes, Millicores, Name
from windlass.core.declare.program import Arguments
from windlass.core.declare.resource import Family, Owner, Shown, Spec
from windlass.core.declare.traits import deployable, has_deployments, has_links, has_logs, has_variables
from windlass.families.container import ImageName, Tag
from windlass.families.environment import environment


class Unit{number}(Spec):
    name: Name
    image_name: ImageName
    tag: Tag
    arguments: Arguments = []
    cpu: Millicores = 100
    memory: Mebibytes = 64


class Unit{number}Shown(Shown):
    environment: Owner
    service_type: str = "UNIT{number}"


unit_{number} = Family(
    "unit{number}",
    Unit{number},
    parent=environment,
    shown=Unit{number}Shown,
    title="Unit{number}",
    param="unit{number}_id",
    traits=(deployable(runs_once={runs_once}), has_deployments, has_links, has_logs, has_variables),
)
'''
KIND = '''"""Units {number}: an image as it is."""

from msgspec.structs import replace

from windlass.control.context.context import Context
from windlass.control.kinds.service_kind import BuildInput, ServiceKind
from windlass.core.deploy.progress import BuildResult, BuiltArtifact
from windlass.engines.workload import Artifact, Workload
from windlass.families.unit_{number} import Unit{number}, unit_{number}
from windlass.store import Row


class Unit{number}Kind(ServiceKind[Unit{number}]):
    family = unit_{number}
    image_field = "image_name"

    async def make(self, ctx: Context, making: BuildInput) -> BuiltArtifact:
        spec = making.service.read(Unit{number})
        ref = f"{{spec.image_name}}:{{spec.tag}}"
        artifact = Artifact(kind="image", ref=ref, key=ref)
        place = await ctx.places.of(making.service.id)
        await place.engine.prepare(artifact, making.say)
        return BuiltArtifact(BuildResult(artifact), image_tag=spec.tag)

    async def workload(self, ctx: Context, service: Row, usual: Workload) -> Workload:
        return replace(usual, command=tuple(service.read(Unit{number}).arguments))


kind = Unit{number}Kind()
'''


def grow(families: Path, kinds: Path) -> None:
    """Adds rounds of families until there are enough operations."""
    enough = GROWTH * _operations()
    windlass.families.__path__.append(str(families))
    windlass.control.kinds.__path__.append(str(kinds))
    rounds = count()
    while _operations() < enough:
        _write(next(rounds), families, kinds)


def _operations() -> int:
    return len(registry_of(*find_declarations()).operations)


def _write(round_: int, families: Path, kinds: Path) -> None:
    for number, parent in enumerate(PARENTS, start=len(PARENTS) * round_):
        (families / f"thing_{number}.py").write_text(FAMILY.format(number=number, parent=parent))
    unit = {"number": round_, "runs_once": round_ % 2 == 1}
    (families / f"unit_{round_}.py").write_text(SERVICE.format(**unit))
    (kinds / f"unit_{round_}.py").write_text(KIND.format(**unit))


# The plugin


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before anything asks which families there are."""
    folder = tempfile.TemporaryDirectory(prefix="windlass-families-")
    early_config.add_cleanup(folder.cleanup)
    places = [Path(folder.name, name) for name in ("families", "kinds")]
    for place in places:
        place.mkdir()
    grow(*places)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out tests that compare with files: they know only the families of the product."""
    left_out = [item for item in items if item.name in WRITTEN_DOWN]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def pytest_report_header() -> str:
    return f"operations, with those made up: {_operations()}"
