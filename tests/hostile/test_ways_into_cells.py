"""What a service names, and links that a step of its build leaves, show it nothing of the machine and let
nothing be written there."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec import structs

from tests.engines.stations import wanted
from windlass.base.isolation import mounts
from windlass.base.isolation.isolation import Isolation, programs
from windlass.builders.builder import BuildError, Order
from windlass.builders.native import NativeBuilder
from windlass.builders.native.cells import Cells
from windlass.core.runtime import Artifact
from windlass.engines.process import files
from windlass.engines.process.lives import Lives
from windlass.engines.process.shelf import Key, Shelf

needs_node = pytest.mark.skipif(
    not (shutil.which("node") and shutil.which("npm")), reason="Node is not installed"
)
SERVICE, ORG = "11111111-aaaa-4aaa-8aaa-000000000001", "33333333-aaaa-4aaa-8aaa-000000000003"

PLANTS = """
const fs = require('fs'), path = require('path')
const made = path.dirname(process.env.HOME)
for (const place of ['artifact/app', 'artifact/node_modules', 'artifact/artifact.json', 'artifact']) {
  try { fs.rmSync(path.join(made, place), {recursive: true}) } catch (error) {}
  try { fs.symlinkSync(process.argv[2], path.join(made, place)) } catch (error) {}
}
"""


async def build(folder: Path, *, in_cell: bool) -> None:
    """Of code with a step that puts links everywhere into what is made."""
    source = folder / "work" / "commit"
    source.mkdir(parents=True)
    (source / "plants.js").write_text(PLANTS)
    plants = f"node plants.js {folder / 'outside'}"
    package = {"name": "x", "version": "1.0.0", "scripts": {"postinstall": plants, "start": "node plants.js"}}
    (source / "package.json").write_text(json.dumps(package))
    (source / ".npmrc").write_text("offline=true\n")
    apart = Isolation("auto" if in_cell else "off", folder)
    builder = NativeBuilder(folder / "builds", {}, isolation=apart)
    order = Order(
        service=SERVICE,
        org=ORG,
        name="x",
        deployment="44444444-aaaa-4aaa-8aaa-000000000004",
        key="key",
        commit="c" * 40,
        source=source,
    )
    with suppress(BuildError):  # that an attack fails is all that is asked for
        await builder.build(order, lambda line: None)


def outside(folder: Path) -> Path:
    (folder / "outside").mkdir()
    return folder / "outside"


@needs_node
async def test_links_that_a_build_leaves_let_nothing_be_written_elsewhere(tmp_path):
    there = outside(tmp_path)
    await build(tmp_path, in_cell=True)
    assert list(there.iterdir()) == []


@needs_node
async def test_links_that_a_build_leaves_would_be_followed_without_a_cell(tmp_path):
    there = outside(tmp_path)
    await build(tmp_path, in_cell=False)
    assert list(there.iterdir()) != []


def test_a_link_in_installed_dependencies_does_not_show_what_it_leads_to(tmp_path):
    deps, artifact, there = tmp_path / ".deps" / "x", tmp_path / "key", outside(tmp_path)
    deps.mkdir(parents=True)
    artifact.mkdir()
    (deps / "node_modules").symlink_to(there / "below")
    (artifact / "node_modules").symlink_to("../.deps/x/node_modules")
    assert files.built(artifact) == [artifact, deps]


def test_no_command_and_no_variable_of_a_service_names_a_folder_that_it_sees(tmp_path):
    named, home = outside(tmp_path), tmp_path / "data"
    home.mkdir()
    lives = Lives.__new__(Lives)
    lives._shelf, lives._isolation = Shelf(home), Isolation("auto", home)
    artifact = Artifact(kind="native", ref=str(home), command=("x",))
    for given, is_seen in (
        ({"artifact": artifact, "variables": {"PATH": str(named)}, "command": (f"{named}/x",)}, False),
        ({"artifact": structs.replace(artifact, environment={"PATH": str(named)})}, True),
    ):
        cell = lives._cell(Key(SERVICE, 1, 0), wanted(**given))
        assert cell is not None
        assert (str(named) in cell["readable"]) is is_seen


def test_links_among_programs_that_were_installed_for_a_service_are_not_followed(tmp_path):
    installed, there = tmp_path / "data" / "bin", outside(tmp_path)
    (there / "bin").mkdir()
    (there / "bin" / "python").touch()
    installed.mkdir(parents=True)
    (installed / "python").symlink_to(there / "bin" / "python")
    assert list(programs(str(installed), (tmp_path / "data",))) == []
    assert str(there) in programs(str(installed), ())  # elsewhere, the operator has put it there


def test_a_link_in_the_cache_of_builds_is_not_shown_to_the_next_one(tmp_path):
    there, cache = outside(tmp_path), tmp_path / "cache"
    cache.mkdir()
    (tmp_path / "data").mkdir()
    (cache / "pip").symlink_to(there)
    cells = Cells(Isolation("auto", tmp_path / "data"), ORG, tmp_path, cache)
    for named, is_shown in ((cache / "pip", False), (there, True)):
        words = cells.wrapped(["/bin/true"], {"PIP_CACHE_DIR": str(named)})
        shown = [cell for word in words if word.startswith("{") for cell in json.loads(word)["readable"]]
        assert (str(named) in shown) is is_shown


def test_no_link_below_the_data_folder_is_shown_to_a_program(tmp_path):
    data, there = tmp_path / "data", outside(tmp_path)
    (data / "real").mkdir(parents=True)
    (data / "link").symlink_to(there)
    cell = Isolation("auto", data).cell(
        "x", readable=[data / "real", data / "link"], writable=[data / "link" / "below"], temporary=data
    )
    assert cell is not None
    shown = {place.path for place in mounts._places(cell)}  # what is mounted, before it is
    assert str(data / "real") in shown
    assert not {str(data / "link"), str(data / "link" / "below")} & shown
