"""Folders for the files of a commit during a build or a detection. Folders left by a crash are removed."""

from __future__ import annotations

import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from windlass.base.subprocesses import in_thread
from windlass.control.context.context import Context
from windlass.core.deploy.states import OPEN_STATES_OF_DEPLOYMENTS

DETECTION_PREFIX: Final = "detection-"
"""Prefix of the names of folders that belong to no deployment."""
_ABANDONED_SECONDS: Final = 3600.0
"""Age in seconds after which a detection's folder counts as left by a killed server."""


@asynccontextmanager
async def work_folder(ctx: Context, name: str) -> AsyncIterator[Path]:
    """Provides the path for a new folder, and removes the folder afterwards.

    `name`: the id of a deployment, or a name with the prefix `DETECTION_PREFIX`.
    """
    folder = ctx.work / name
    await in_thread(_make_room, folder)
    try:
        yield folder
    finally:
        await in_thread(_remove, folder)


async def sweep_work(ctx: Context) -> None:
    """Removes the folders of builds and detections that are no longer in progress."""
    for folder in await in_thread(_children, ctx.work):
        if folder.name.startswith(DETECTION_PREFIX):
            await in_thread(_remove_abandoned, folder)
            continue
        # The deployment is read after the folder was found, because deployments are stored before their
        # folders are created.
        deployment = await ctx.store.reads.deployments.get(folder.name)
        if deployment is None or deployment.status not in OPEN_STATES_OF_DEPLOYMENTS:
            await in_thread(shutil.rmtree, folder, True)


def _make_room(path: Path) -> None:
    _remove(path)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)


def _remove(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path, ignore_errors=False)


def _remove_abandoned(folder: Path) -> None:
    with suppress(FileNotFoundError):
        if time.time() - folder.stat().st_mtime > _ABANDONED_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def _children(folder: Path) -> list[Path]:
    return [*folder.iterdir()] if folder.is_dir() else []
