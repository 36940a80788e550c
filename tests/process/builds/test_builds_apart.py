"""Builds of two services, also of one organization: no step writes what a step of the other reads or runs."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.needs import needs_root
from tests.process.builds.native_sites import PYPROJECT, Site
from windlass.base.isolation.isolation import Isolation
from windlass.builders.builder import BuildError, Order
from windlass.process.builds.builder import NativeBuilder
from windlass.process.builds.caches import CacheStore

BACKEND = """
import zipfile
def build_wheel(folder, config=None, metadata=None):
    name, info = "tiny-1-py3-none-any.whl", "tiny-1.dist-info"
    with zipfile.ZipFile(folder + "/" + name, "w") as made:
        made.writestr("tiny.py", "VALUE = 'genuine'")
        made.writestr(info + "/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\n")
        made.writestr(info + "/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        made.writestr(info + "/RECORD", "")
    return name
"""
TINY = {
    "tiny-1/backend.py": BACKEND,
    "tiny-1/PKG-INFO": "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n",
    "tiny-1/pyproject.toml": (
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    ),
}
"""A dependency that pip builds: it keeps the wheel, and does not check it when it takes it again."""
REWRITES = """
import os, pathlib, zipfile
for wheel in pathlib.Path(os.environ["PIP_CACHE_DIR"]).rglob("*.whl"):
    with zipfile.ZipFile(wheel) as read:
        files = {name: read.read(name) for name in read.namelist()}
    files["tiny.py"] = b"VALUE = 'of the attacker'"
    wheel.unlink()
    with zipfile.ZipFile(wheel, "w") as made:
        for name, text in files.items():
            made.writestr(name, text)
raise SystemExit("done")
"""


def shop(site: Site, option: str = "", **owner: str) -> Order:
    """An application with the dependency. Another `option` of pip has it installed again."""
    lines = f"--no-index\n--find-links vendor\n{option}\ntiny==1\n"
    order: Order = site.order(
        {"requirements.txt": lines, "main.py": "import tiny; print(tiny.VALUE)"}, **owner
    )
    (order.source / "vendor").mkdir()
    with tarfile.open(order.source / "vendor" / "tiny-1.tar.gz", "w:gz") as archive:
        for name, text in TINY.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return order


async def attack(site: Site) -> str:
    """Returns the code that `shop` runs after a build step of `play` had its way."""
    assert site.run(await site.build(order=shop(site, service="shop"))) == "genuine"
    with pytest.raises(BuildError, match="done"):
        await site.build({"pyproject.toml": PYPROJECT, "backend.py": REWRITES, "shop.py": ""}, service="play")
    return str(site.run(await site.build(order=shop(site, "--prefer-binary", service="shop"))))


@pytest.mark.nightly
async def test_a_build_step_cannot_replace_a_wheel_used_by_another_service(site):
    assert await attack(site) == "genuine"


@pytest.mark.nightly
async def test_with_a_shared_cache_a_build_runs_code_of_the_attacker(site, monkeypatch):
    using = CacheStore.using
    monkeypatch.setattr(CacheStore, "using", lambda self, org, _, *more: using(self, org, "everybody", *more))
    assert await attack(site) == "of the attacker"


class Cells(Isolation):
    """Notes what each step may read and write, and as which user."""

    def __init__(self, folder: Path) -> None:
        super().__init__("auto", folder)
        self.made: list[Mapping[str, object]] = []

    def cell(self, name, **given):
        made = super().cell(name, **given)
        self.made.append(made or {})
        return made


async def cells_of(site, option="", **owner) -> list[Mapping[str, object]]:
    """Returns the cells of all steps of a build of one owner."""
    isolation = Cells(site.kept)
    site.builder = NativeBuilder(site.kept, {}, isolation, fetches=False)
    await site.build(order=shop(site, option, **owner))
    return isolation.made


def crossings(one, other) -> set[str]:
    """Returns folders that steps of `one` may write to and steps of `other` may see."""
    writable = {Path(path) for cell in one for path in cell["writable"]}
    seen = {
        Path(path) for cell in other for path in (*cell["writable"], *cell["readable"], cell["temporary"])
    }
    return {
        str(path) for path in writable for far in seen if path.is_relative_to(far) or far.is_relative_to(path)
    }


@pytest.mark.slow
@needs_root
async def test_build_steps_of_two_services_share_no_writable_folder_and_no_user(site):
    """Not even where both are of one organization, one repository and one commit."""
    web, worker = await cells_of(site, service="web"), await cells_of(site, service="worker")
    assert crossings(web, worker) | crossings(worker, web) == set()
    users = [{cell["uid"] for cell in cells} for cells in (web, worker)]
    assert [len(each) for each in users] == [1, 1]
    assert users[0] != users[1]
    # Negative control: later builds of one service share its caches.
    again = await cells_of(site, "--prefer-binary", service="web")
    assert any("/cache/" in path for path in crossings(web, again))
