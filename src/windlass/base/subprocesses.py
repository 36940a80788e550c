"""Runs programs in process groups of their own; each group ends with its block, however the block is left."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

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
        # Cancelled while the process was starting: wait until it is known, then end it.
        with suppress(OSError):
            await end(await starting)
        raise
    try:
        yield process
    finally:
        await end(process)


async def end(process: Process) -> None:
    """Kills the whole process group and waits until it is gone, including children of the leader."""
    kill(process)
    # A pipe closes when the last process that holds it ends. Checking the group instead would count zombies
    # that no parent has reaped, as in a container without an init.
    with suppress(TimeoutError):
        async with asyncio.timeout(SOON):
            await process.communicate()


class GroupLeader(Protocol):
    """A process that leads a process group."""

    @property
    def pid(self) -> int: ...


def kill(process: GroupLeader) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


async def pump(stream: asyncio.StreamReader | None, take: Callable[[bytes], None]) -> None:
    """Passes the output of a program on, chunk by chunk; holds one chunk at a time."""
    while stream and (piece := await stream.read(PIECE)):
        take(piece)


async def run_together(
    *jobs: Coroutine[Any, Any, Any], guard: Coroutine[Any, Any, None] | None = None
) -> list[Any]:
    """Runs all of them and returns their results, or raises the first failure and cancels the rest. A guard
    can only fail."""
    tasks = [asyncio.ensure_future(job) for job in jobs]
    whole = asyncio.gather(*tasks)
    watching: list[asyncio.Future[Any]] = [asyncio.ensure_future(guard)] if guard else []
    try:
        done, _ = await asyncio.wait([*watching, whole], return_when=asyncio.FIRST_COMPLETED)
        for job in done:
            job.result()
        return await whole
    finally:
        for task in (*tasks, *watching):
            task.cancel()
        await asyncio.gather(whole, *tasks, *watching, return_exceptions=True)


async def run_some(most: int, jobs: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Runs all of them, at most so many at once; see `run_together`."""
    free = asyncio.Semaphore(most)

    async def run(job: Coroutine[Any, Any, T]) -> T:
        async with free:
            return await job

    return await run_together(*(run(job) for job in jobs))


async def in_thread(function: Callable[..., T], *args: object) -> T:
    """Runs a function in a thread. If cancelled, waits until the function has ended before it raises."""
    task = asyncio.ensure_future(asyncio.to_thread(function, *args))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def end_all_with(name: str, value: str) -> None:
    """Kills all programs of this installation that have this variable in their environment."""
    variable = os.fsencode(f"{name}={value}")
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if variable in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)
