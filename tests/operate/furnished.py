"""Installations with services that run."""

from __future__ import annotations

import shutil
from pathlib import Path

from msgspec.structs import replace

from windlass.base.clock import SystemClock
from windlass.config import Settings
from windlass.install import mark
from windlass.install.composition import open_store
from windlass.install.installation import install

UNKNOWN = "99999999-aaaa-4aaa-8aaa-000000000009"


async def deployed(world) -> str:
    app = await world.application()
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    return str(app)


def furnished(folder: Path) -> None:
    """A data directory with something of a service in it."""
    for part in ("run/volumes", "builds"):
        (folder / part / UNKNOWN / "data").mkdir(parents=True)
        (folder / part / UNKNOWN / "data/file").write_text("precious")


async def started(folder: Path, **given) -> Settings:
    settings = Settings(data_dir=str(folder), engine="process", gateway_port=0)
    installation = await install(settings, **given)
    await installation.stop()
    return settings


def precious(folder: Path) -> list[str]:
    found = [path for path in folder.rglob("file") if path.read_text() == "precious"]
    return sorted(path.relative_to(folder).parts[0] for path in found)


async def known(settings: Settings) -> None:
    """The database has the service from now on."""
    store = await open_store(settings, SystemClock())
    await store.write(lambda tx: tx.statuses.add(UNKNOWN, "org", "READY"))
    await store.close()


def _of(folder: Path) -> Settings:
    return Settings(data_dir=str(folder), engine="process", gateway_port=0)


def copied(template: Path, folder: Path) -> Path:
    """Copies an installation as if it had always been there: a copy beside its original is refused."""
    shutil.copytree(template, folder)
    seen = mark.read(_of(folder))
    assert seen is not None
    mark.write(_of(folder), replace(seen, folder=str(folder)))
    return folder
