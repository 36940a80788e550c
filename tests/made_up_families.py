"""Writes made-up families into a copy of the repository, to see how long its tests take with more operations.

    git clone . /tmp/more && python -m tests.made_up_families 66 /tmp/more
    cd /tmp/more && make test

Each family has six operations, fields of several types and depths, and hangs below an organization, a project
or an environment. So 66 families bring what is there today to more than 500 operations.
"""

from __future__ import annotations

import sys
from pathlib import Path

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


def write(count: int, copy: Path) -> None:
    folder = copy / "src/windlass/families"
    for number in range(count):
        parent = PARENTS[number % len(PARENTS)]
        text = FAMILY.format(number=number, parent=parent)
        (folder / f"thing_{number}.py").write_text(text)


if __name__ == "__main__":
    write(int(sys.argv[1]), Path(sys.argv[2]))
