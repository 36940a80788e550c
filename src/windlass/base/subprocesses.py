"""A program in a process group of its own, which ends with its children, however the block is left."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

T = TypeVar("T")

SOON: Final = 2.0
PIECE: Final = 64 * 1024


@asynccontextmanager
async def running(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> AsyncIterator[Process]:
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *argv, cwd=cwd, env=env, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
        )
    )
    try:
        process = await asyncio.shield(starting)
    except asyncio.CancelledError:
        # Cancelled between its start and our knowing of it: wait for it, to end it.
        with suppress(OSError):
            await end(await starting)
        raise
    try:
        yield process
    finally:
        await end(process)


async def end(process: Process) -> None:
    """The whole group is gone when this returns, also where its leader had left children behind."""
    kill(process)
    # A pipe closes with the last process that holds it. To ask for the group instead would count the dead
    # that nobody has buried, as in a container without an init.
    with suppress(TimeoutError):
        async with asyncio.timeout(SOON):
            await process.communicate()


def kill(process: Process) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def pump(stream: asyncio.StreamReader | None, take: Callable[[bytes], None]) -> None:
    """Hands over what a program says, piece by piece, and never holds more than one."""
    while stream and (piece := await stream.read(PIECE)):
        take(piece)


async def together(
    *deeds: Coroutine[Any, Any, Any], guard: Coroutine[Any, Any, None] | None = None
) -> list[Any]:
    """All of them, or the first failure; nothing goes on afterwards. A guard can only fail."""
    tasks = [asyncio.ensure_future(deed) for deed in deeds]
    whole = asyncio.gather(*tasks)
    watching: list[asyncio.Future[Any]] = [asyncio.ensure_future(guard)] if guard else []
    try:
        done, _ = await asyncio.wait([*watching, whole], return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
        return await whole
    finally:
        for task in (*tasks, *watching):
            task.cancel()
        await asyncio.gather(whole, *tasks, *watching, return_exceptions=True)


async def aside(deed: Callable[..., T], *given: object) -> T:
    """Off the event loop; nothing of it goes on afterwards, also when it was cancelled meanwhile."""
    doing = asyncio.ensure_future(asyncio.to_thread(deed, *given))
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait([doing])
        raise


def end_all_with(name: str, value: str) -> None:
    """Ends every program of ours that has this in its environment, whoever started it."""
    wanted = os.fsencode(f"{name}={value}")
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)
