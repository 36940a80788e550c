"""Ends a pull or a build when the disk of a local Docker engine runs short of space.

Both can be repeated. A full disk would stop the services on the engine, and perhaps Windlass.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from windlass.base.disk_reserve import is_short
from windlass.base.subprocesses import in_thread
from windlass.docker.client.answers import EngineRefused
from windlass.docker.client.client import Docker

NO_SPACE: Final = "no space left: less than the reserve of the disk (disk_reserve_bytes) is free"
CHECK_INTERVAL: Final = 1.0


@asynccontextmanager
async def keeping_reserve(docker: Docker) -> AsyncIterator[None]:
    """Raises EngineRefused, before the block or in it, while the engine's disk is short of space."""
    if not docker.disk_reserve or not docker.is_on_this_machine:
        yield
        return
    if (folder := await data_root(docker)) is None:
        yield
        return
    if await in_thread(is_short, folder, docker.disk_reserve):
        raise EngineRefused(507, NO_SPACE)
    try:
        async with asyncio.timeout(None) as limit:
            watching = asyncio.create_task(_end_when_short(folder, docker.disk_reserve, limit))
            try:
                yield
            finally:
                watching.cancel()
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise EngineRefused(507, NO_SPACE) from error


async def data_root(docker: Docker) -> Path | None:
    """Returns the folder of the engine's data; None if it is not visible here, as with a virtual machine."""
    folder = Path(str((await docker.json("GET", "/info")).get("DockerRootDir", "")))
    return folder if folder.is_absolute() and await in_thread(folder.is_dir) else None


async def _end_when_short(folder: Path, reserve: int, limit: asyncio.Timeout) -> None:
    while not await in_thread(is_short, folder, reserve):  # noqa: ASYNC110 (another process writes)
        await asyncio.sleep(CHECK_INTERVAL)
    limit.reschedule(0)
