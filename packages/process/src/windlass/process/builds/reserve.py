"""Prevents builds from filling the disk. No build starts if the free space is below the reserve, and a build
that uses up the reserve is ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from windlass.base.disk_reserve import (
    Amount,
    DiskShare,
    DiskWatch,
    heaviest,
    is_short,
    measure,
    unlinked,
)
from windlass.base.process_memory import with_descendants
from windlass.base.subprocesses import in_thread
from windlass.builders.builder import BuildError

T = TypeVar("T")

_CHECK_INTERVAL: Final = 1.0
_DISK_SHORTAGE_ERROR: Final = (
    "Ask the operator to free disk space, or to lower disk_reserve_bytes: the machine that runs Windlass has "
    "less free than that reserve, so nothing is built."
)
_DISK_FILLED_ERROR: Final = (
    "Make the build write less, or ask the operator to free disk space: the build was ended because it "
    "used up the reserve of the disk (disk_reserve_bytes)."
)


async def check_room(folder: Path, reserve: int) -> None:
    """Raises a BuildError if the free space of the disk is below the reserve."""
    if await in_thread(is_short, folder.parent, reserve):
        raise BuildError(_DISK_SHORTAGE_ERROR)


def held_by_build(folder: Path, cache: Path, started_at: float, pids: Collection[int]) -> Amount:
    """Returns the disk space that a build uses: its folder, the files that it added to its cache, and deleted
    files that its steps have open. `pids` are the first processes of its steps."""
    find = partial(with_descendants, tuple(pids))
    return measure([folder]) + measure([cache], started_at, started_at) + unlinked(find, folder)


async def within_reserve(work: Coroutine[Any, Any, T], watch: DiskWatch, measure: Callable[[], Amount]) -> T:
    """Runs a build. Ends it with a BuildError if the free space falls below the reserve and the build uses
    much of the disk."""
    task = asyncio.create_task(work)
    try:
        while not (await asyncio.wait([task], timeout=_CHECK_INTERVAL))[0]:
            space = watch.shortage()
            if space is None or not watch.is_due(space):
                continue
            began = time.monotonic()
            share = DiskShare(await in_thread(measure), Amount())
            if heaviest(space, {"build": share}):
                raise BuildError(_DISK_FILLED_ERROR)
            watch.postpone(space, time.monotonic() - began)
        return task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
