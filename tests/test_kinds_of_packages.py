"""A package brings a kind of service: no file of the product changes, and nothing there names it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.engine import FakeEngine
from tests.world import make_world
from windlass.base.entry_points import entry_points
from windlass.control.kinds import find_kinds, kinds_of
from windlass.families import find_declarations, registry_of

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "adding-a-service-kind.md"
ENTRY_POINTS = """
[windlass.families]
cache = windlass_cache.family

[windlass.kinds]
cache = windlass_cache.kind
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """An installed package with the cache of the manual, as a folder of the module path."""
    family, kind, *_ = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    modules, metadata = tmp_path / "windlass_cache", tmp_path / "windlass_cache-1.0.dist-info"
    for folder in (modules, metadata):
        folder.mkdir()
    (modules / "__init__.py").touch()
    (modules / "family.py").write_text(family)
    (modules / "kind.py").write_text(kind.replace("windlass.families.cache", "windlass_cache.family"))
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: windlass-cache\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    return tmp_path


@pytest.fixture
def installed(package: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(package))
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "windlass_cache"]:
        del sys.modules[name]


@pytest.mark.usefixtures("installed")
async def test_a_service_of_the_kind_of_a_package_is_deployed():
    families, kinds = registry_of(*find_declarations()), kinds_of(*find_kinds())
    async with make_world(families=families, kinds=kinds, engine=FakeEngine("image")) as world:
        path = f"/environment/{await world.environment()}/cache"
        path = f"/cache/{await world.made(path, {'name': 'sessions'})}"
        assert (await world.post(f"{path}/deploy")).status == 202
        await world.settle()
        assert await world.state(path) == "RUNNING"


@pytest.mark.parametrize("is_installed", [True, False])
def test_the_command_line_has_its_commands(package, is_installed):
    environment = os.environ | ({"PYTHONPATH": str(package)} if is_installed else {})
    command = [sys.executable, "-m", "windlass", "cache", "deploy", "--help"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (ended.returncode == 0) is is_installed, ended.stderr


def test_entry_points_of_a_package_installed_twice_count_once(package, installed, monkeypatch):
    other = package / "other" / "windlass_cache-0.9.dist-info"
    other.mkdir(parents=True)
    (other / "entry_points.txt").write_text("[windlass.kinds]\ncache = older.kind\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(other.parent)])
    found = {point.value for point in entry_points("windlass.kinds") if point.name == "cache"}
    assert found == {"windlass_cache.kind"}


WITHOUT_TERRAFORM = """
import sys
from windlass.base import entry_points as room
if is_left_out := sys.argv[1] == "without":
    sys.modules["windlass.terraform"] = None  # an import of it fails
    found = room.entry_points
    room.entry_points = lambda group: [point for point in found(group) if "terraform" not in point.value]
import windlass.operate.doctor, windlass.operate.serving
from windlass.api.app import App
from windlass.api.openapi import document
from windlass.control.kinds import check_kinds, find_kinds, kinds_of
from windlass.control.request.behaviour import check_behaviours
from windlass.families import registry
kinds = kinds_of(*find_kinds())
check_kinds(registry(), kinds)
check_behaviours(registry())
paths = [path for path in document(registry())["paths"] if "/terraform" in path and "Export" not in path]
assert bool(paths) is ("terraform" in kinds) is not is_left_out, (paths, kinds.keys())
"""


@pytest.mark.parametrize("word", ["with", "without"])
def test_the_product_runs_without_the_terraform_package(word):
    command = [sys.executable, "-c", WITHOUT_TERRAFORM, word]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
