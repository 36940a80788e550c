"""Paths that a service names, and links that a step of its build leaves, show it nothing of the machine and
let it write nothing there."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.engines.stations import wanted
from tests.needs import needs
from windlass.base.isolation import mounts
from windlass.base.isolation.isolation import Isolation, programs
from windlass.builders.builder import BuildError, Order
from windlass.builders.node_managers import PackageManager
from windlass.builders.node_packages import Package
from windlass.engines.workload import Artifact
from windlass.process import files
from windlass.process.builds import NativeBuilder, node, python, tree
from windlass.process.builds.artifacts import ArtifactStore as BuildShelf
from windlass.process.builds.build_state import complete
from windlass.process.builds.cells import Cells
from windlass.process.builds.python_versions import Interpreter
from windlass.process.records import InstanceKey, RecordStore
from windlass.process.starting import InstanceStarter

needs_node = needs("node", "npm")
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
    """Builds code with a step that puts links at every place of its result."""
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
async def test_in_a_cell_a_build_writes_nothing_through_symlinks(tmp_path):
    there = outside(tmp_path)
    await build(tmp_path, in_cell=True)
    assert list(there.iterdir()) == []


@pytest.mark.nightly
@needs_node
async def test_without_a_cell_a_build_writes_through_symlinks(tmp_path):
    there = outside(tmp_path)
    await build(tmp_path, in_cell=False)
    assert list(there.iterdir()) != []


class Made:
    """The result of a build so far, in which its steps may have put links."""

    def __init__(self, folder: Path) -> None:
        self.outside, self.made, self.source = folder / "outside", folder / "made", folder / "source"
        for each in (self.outside, self.made, self.source / "node_modules" / "x"):
            each.mkdir(parents=True)
        self.app = self.source
        self.shelf = BuildShelf(folder / "builds", SERVICE)
        self.shelf.folder.mkdir(parents=True)
        (self.source / "node_modules" / "x" / "index.js").touch()


def record(there: Made) -> None:
    (there.made / "app").mkdir()
    there.shelf.complete(there.made, Artifact(kind="native", ref="x", key="key"))


async def modules(there: Made, monkeypatch) -> None:
    nothing: dict[str, str] = {}
    package = Package(
        folder=there.source, scripts=nothing, dependencies=nothing, development=nothing, main=""
    )
    needed = node.NodeDependencies(package=package, root=package, manager=PackageManager(name="npm"))
    await node.move_out(needed, there.made, there.app)


async def requirements(there: Made, monkeypatch) -> None:
    class Stub:
        """A stub of `Tools`."""

        home, say = there.made, staticmethod(lambda line: None)

        async def run(self, argv, **given: object) -> None: ...

        async def ask_once(self, argv, program: object) -> str:
            return "pip 99.0"

    (there.made / "venv" / "bin").mkdir(parents=True)
    (there.made / "venv" / "bin" / "pip").touch()
    needed = python.PythonDependencies(requirements="x", constraints="y", cwd=there.source)
    version = Interpreter(path="python3", version="3.12")
    tools: Any = Stub()
    await python.install(tools, version, needed, there.made / "venv", {})


WRITES = {
    "the record of the artifact": ("artifact.json", lambda there, _: record(there)),
    "the mark of whole dependencies": ("complete", lambda there, _: complete(there.made)),
    "the code that is moved": ("app", lambda there, _: tree.move(there.app, there.made / "app")),
    "the modules that are moved": ("node_modules", modules),
    "the requirements": ("requirements.txt", requirements),
    "the constraints": ("constraints.txt", requirements),
}
"""The writers of files after steps of a build, each with the name of its file."""


async def written_outside(folder: Path, write: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns what a write has put outside of the build, through the link in the place of its file."""
    there = Made(folder)
    name, deed = WRITES[write]
    is_folder = name in {"app", "node_modules"}
    (there.made / name).symlink_to(there.outside if is_folder else there.outside / "new")
    with suppress(OSError):
        done = deed(there, monkeypatch)
        if done is not None:
            await done
    return [path.name for path in there.outside.iterdir()]


@pytest.mark.parametrize("write", WRITES)
async def test_the_builder_writes_through_no_symlink_made_by_a_build_step(tmp_path, write, monkeypatch):
    assert await written_outside(tmp_path, write, monkeypatch) == []


@pytest.mark.nightly
@pytest.mark.parametrize("write", WRITES)
async def test_without_removing_symlinks_first_the_builder_would_write_through_them(
    tmp_path, write, monkeypatch
):
    real = Path.open
    monkeypatch.setattr(tree, "fresh", lambda path: path)
    monkeypatch.setattr(
        Path, "open", lambda path, mode="r", **given: real(path, mode.replace("x", "w"), **given)
    )
    monkeypatch.setattr(Path, "touch", lambda path, **given: real(path, "w").close())
    assert await written_outside(tmp_path, write, monkeypatch) != []


def test_a_symlink_in_installed_dependencies_gives_no_access_to_its_target(tmp_path):
    deps, artifact, there = tmp_path / ".deps" / "x", tmp_path / "key", outside(tmp_path)
    deps.mkdir(parents=True)
    artifact.mkdir()
    (deps / "node_modules").symlink_to(there / "below")
    (artifact / "node_modules").symlink_to("../.deps/x/node_modules")
    assert files.built_folders(artifact) == [artifact, deps]


def test_a_path_in_a_services_command_or_variables_is_not_made_readable(tmp_path):
    named, home = outside(tmp_path), tmp_path / "data"
    home.mkdir()
    starter = InstanceStarter.__new__(InstanceStarter)
    starter._records, starter._isolation = RecordStore(home), Isolation("auto", home)
    artifact = Artifact(kind="native", ref=str(home), command=("x",))
    for given, is_seen in (
        ({"artifact": artifact, "variables": {"PATH": str(named)}, "command": (f"{named}/x",)}, False),
        ({"artifact": structs.replace(artifact, environment={"PATH": str(named)})}, True),
    ):
        cell = starter.cell(InstanceKey(SERVICE, 1, 0), wanted(**given), None)
        assert cell is not None
        assert (str(named) in cell["readable"]) is is_seen


def test_symlinks_among_programs_installed_for_a_service_are_not_followed(tmp_path):
    installed, there = tmp_path / "data" / "bin", outside(tmp_path)
    (there / "bin").mkdir()
    (there / "bin" / "python").touch()
    installed.mkdir(parents=True)
    (installed / "python").symlink_to(there / "bin" / "python")
    assert list(programs(str(installed), (tmp_path / "data",))) == []
    assert str(there) in programs(str(installed), ())  # elsewhere, the operator has put it there


def test_a_symlink_in_the_build_cache_is_not_made_readable_for_the_next_build(tmp_path):
    there, cache = outside(tmp_path), tmp_path / "cache"
    cache.mkdir()
    (tmp_path / "data").mkdir()
    (cache / "pip").symlink_to(there)
    cells = Cells(Isolation("auto", tmp_path / "data"), ORG, tmp_path, cache)
    for named, is_shown in ((cache / "pip", False), (there, True)):
        cell = cells.cell({"PIP_CACHE_DIR": str(named)})
        assert (str(named) in (cell["readable"] if cell else [])) is is_shown


def test_a_symlink_below_the_data_folder_is_not_mounted_into_a_cell(tmp_path):
    data, there = tmp_path / "data", outside(tmp_path)
    (data / "real").mkdir(parents=True)
    (data / "link").symlink_to(there)
    cell = Isolation("auto", data).cell(
        "x", readable=[data / "real", data / "link"], writable=[data / "link" / "below"], temporary=data
    )
    assert cell is not None
    shown = {
        place.path for place in mounts._mount_points(cell)
    }  # the source of a mount, before it is mounted
    assert str(data / "real") in shown
    assert not {str(data / "link"), str(data / "link" / "below")} & shown
