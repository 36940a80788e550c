"""Runs programs, each in its own process group, which is killed when the `async with` block ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from windlass.base import kernel
from windlass.base.child_process import ChildProcess
from windlass.base.cleanup import on_failure
from windlass.base.marks import kill_fast_forkers, mark_of, read_mark

T = TypeVar("T")

CHUNK_BYTES: Final = 64 * 1024
_CALM_LOOKS: Final = 2
_KILLED_WITHIN: Final = 10.0
"""The time limit of `end_all_of`, in seconds. A process that waits for a disk may end later."""


@asynccontextmanager
async def running(
    argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: int = subprocess.DEVNULL
) -> AsyncIterator[ChildProcess]:
    """Runs a program for the duration of the block. `stdin` is the descriptor of its input; without it, the
    program has none. May raise an OSError."""
    (read_output, output), (read_errors, errors) = os.pipe(), os.pipe()
    try:
        with on_failure(partial(close_all, read_output, read_errors)):
            process = ChildProcess.start(argv, output, errors, cwd=cwd, env=env, stdin=stdin)
    finally:
        close_all(output, errors)
    try:
        process.listen(read_output, read_errors)
        yield process
    finally:
        await process.end()


def close_all(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


async def pump(stream: asyncio.StreamReader | None, receive_data: Callable[[bytes], None]) -> None:
    """Passes a program's output to `receive_data` in chunks. Keeps only one chunk in memory."""
    while stream and (piece := await stream.read(CHUNK_BYTES)):
        receive_data(piece)


async def run_together(
    *jobs: Coroutine[Any, Any, Any], guard: Coroutine[Any, Any, None] | None = None
) -> list[Any]:
    """Runs jobs concurrently and returns their results. Raises the first failure and cancels the other jobs.

    The guard runs beside the jobs. Only its failure has an effect.
    """
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


async def run_some(limit: int, jobs: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Runs jobs like `run_together`, at most `limit` at once."""
    free = asyncio.Semaphore(limit)

    async def run(job: Coroutine[Any, Any, T]) -> T:
        async with free:
            return await job

    return await run_together(*(run(job) for job in jobs))


async def in_thread(function: Callable[..., T], *args: object) -> T:
    """Runs a blocking function in a thread. If cancelled, waits for the function to end and then raises."""
    task = asyncio.ensure_future(asyncio.to_thread(function, *args))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def end_all_of(home: Path, *, in_cells: bool = True) -> None:
    """Kills all processes whose variable HOME is this folder, and all processes with its mark; see marks.py.

    Stops after two listings without such a process, because a process that starts a child and ends may be
    missed once. `in_cells`: whether the processes may have run in cells, which set the mark.
    """
    variable, mark = b"HOME=" + os.fsencode(home), mark_of(home)
    calm, until = 0, time.monotonic() + _KILLED_WITHIN
    while calm < _CALM_LOOKS and time.monotonic() < until:
        calm += 1
        for process in kernel.new_processes(set()):
            if not process.dead and (read_mark(process.pid) == mark or _has_variable(process.pid, variable)):
                calm = 0
                with suppress(OSError):
                    os.kill(process.pid, signal.SIGKILL)
    if in_cells:
        kill_fast_forkers(mark)


def _has_variable(pid: int, variable: bytes) -> bool:
    with suppress(OSError):
        return variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False
