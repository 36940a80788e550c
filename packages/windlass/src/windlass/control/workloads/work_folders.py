"""Folders for the files of a commit, during a build or a detection. Remains of a crash are swept."""

from __future__ import annotations

import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from windlass.base.subprocesses import in_thread
from windlass.control.context.context import Context
from windlass.core.deploy.states import OPEN

DETECTIONS: Final = "detection-"
"""Prefix of folders that belong to no deployment."""
_ABANDONED: Final = 3600.0
"""Seconds after which such a folder was left by a server that was killed."""


@asynccontextmanager
async def work_folder(ctx: Context, name: str) -> AsyncIterator[Path]:
    """Yields a new folder, and removes it afterwards. `name`: the id of a deployment, or a name that
    begins with DETECTIONS."""
    folder = ctx.work / name
    await in_thread(_make_room, folder)
    try:
        yield folder
    finally:
        await in_thread(_remove, folder)


async def sweep_work(ctx: Context) -> None:
    """Removes working copies of builds and detections that are not in progress any more."""
    for folder in await in_thread(_children, ctx.work):
        if folder.name.startswith(DETECTIONS):
            await in_thread(_remove_abandoned, folder)
            continue
        # Asked after it was found there: a deployment is known before it makes its folder.
        deployment = await ctx.store.reads.deployments.get(folder.name)
        if deployment is None or deployment.status not in OPEN:
            await in_thread(shutil.rmtree, folder, True)


def _make_room(path: Path) -> None:
    _remove(path)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)


def _remove(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path, ignore_errors=False)


def _remove_abandoned(folder: Path) -> None:
    with suppress(FileNotFoundError):
        if time.time() - folder.stat().st_mtime > _ABANDONED:
            shutil.rmtree(folder, ignore_errors=True)


def _children(folder: Path) -> list[Path]:
    return [*folder.iterdir()] if folder.is_dir() else []
