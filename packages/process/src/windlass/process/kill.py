"""Ends all processes of an instance, including processes that have left its session."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from windlass.base import cgroups, kernel
from windlass.base.kernel import Process
from windlass.base.marks import kill_fast_forkers
from windlass.process.process_table import ProcessCounter, members
from windlass.process.records import Record

_KILL_INTERVAL: Final = 5.0
"""Seconds after which processes that survive SIGKILL are killed again."""
_FIRST_PAUSE: Final = 0.01


class ProcessKiller:
    def __init__(self, counter: ProcessCounter) -> None:
        self._counting = counter

    async def ask(self, home: Path, record: Record, grace: float) -> None:
        """Sends SIGTERM to all processes and waits until they have ended or the grace period is over.

        The first process of a cell does not get the signal, because its end would make the kernel kill all
        processes of the cell at once.
        """
        living = await self._find_living(home, record.process, record)
        asked = [stat for stat in living if not kernel.leads_namespace(stat.pid)]
        with open_handles(asked) as handles:
            for fd in handles:
                kernel.send(fd, signal.SIGTERM)
            await wait_for_ends(handles, grace, reaping=True)

    async def end(self, home: Path, group_leader: Process | None, record: Record) -> bool:
        """Kills all processes of an instance and returns whether there were any. `group_leader` is the
        program.

        A process that is forked during a scan may be missed if its parent ends meanwhile, so two consecutive
        scans must find none.
        """
        any_at_all, calm = False, 0
        while calm < 2:
            living = await self._find_living(home, group_leader, record)
            if not living:
                calm += 1
                continue
            any_at_all, calm = True, 0
            cgroups.kill(record.groups)
            await end_these([*living, *_find_unreaped(group_leader)])
        if record.cell and "mark" in record.cell:
            await asyncio.to_thread(kill_fast_forkers, record.cell["mark"])
        return any_at_all

    async def _find_living(
        self, home: Path, group_leader: Process | None, record: Record
    ) -> list[kernel.Stat]:
        table = await self._counting.now()
        processes = {process.stat.pid: process.stat for process in members(table, home, group_leader, record)}
        for pid in cgroups.members(record.groups):
            if pid not in processes and (stat := kernel.stat(pid)) and not stat.dead:
                processes[pid] = stat
        return list(processes.values())


def _find_unreaped(group_leader: Process | None) -> list[kernel.Stat]:
    """Returns the program's process if it has ended and has not been reaped."""
    present = kernel.stat(group_leader.pid) if group_leader and group_leader.boot == kernel.boot() else None
    return (
        [present] if present and group_leader and present.start == group_leader.start and present.dead else []
    )


@contextmanager
def open_handles(stats: Iterable[kernel.Stat]) -> Iterator[list[int]]:
    """Yields pidfds of the processes in `stats` that still exist. Afterwards, reaps the processes and closes
    the descriptors."""
    handles = [fd for stat in stats if (fd := kernel.handle(stat.pid, stat.start)) is not None]
    try:
        yield handles
    finally:
        for fd in handles:
            kernel.reap(fd)  # needed in containers without an init process
            os.close(fd)


async def wait_for_ends(handles: Iterable[int], timeout: float, *, reaping: bool = False) -> bool:
    """Waits until all processes have ended or the time is over. Returns whether some are left.

    With `reaping`, each process is reaped as it ends. The first process of a cell only ends after the others
    are reaped.
    """
    loop = asyncio.get_running_loop()
    left = set(handles)
    over = asyncio.Event()

    def ended(fd: int) -> None:
        loop.remove_reader(fd)
        left.discard(fd)
        if reaping:
            kernel.reap(fd)
        if not left:
            over.set()

    for fd in list(left):
        loop.add_reader(fd, ended, fd)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                if left:
                    await over.wait()
    finally:
        for fd in left:
            loop.remove_reader(fd)
    return bool(left)


async def end_these(stats: Collection[kernel.Stat]) -> None:
    with open_handles(stats) as handles:
        for fd in handles:
            kernel.send(fd, signal.SIGKILL)
        until, pause = time.monotonic() + _KILL_INTERVAL, _FIRST_PAUSE
        # The first process of a cell may remain unreaped for long, but no longer runs code.
        while await wait_for_ends(handles, pause, reaping=True) and time.monotonic() < until:
            if not any(_is_alive(stat) for stat in stats):
                break
            pause *= 2
    reap_first_processes(stats)


def reap_first_processes(stats: Iterable[kernel.Stat]) -> None:
    """Arranges that the first process of each cell (sandbox) is reaped when it ends. The first process ends
    after the cell's program has been reaped."""
    loop = asyncio.get_running_loop()

    def reap(fd: int) -> None:
        loop.remove_reader(fd)
        kernel.reap(fd)
        os.close(fd)

    for stat in stats:
        if kernel.leads_namespace(stat.pid) and (fd := kernel.handle(stat.pid, stat.start)) is not None:
            loop.add_reader(fd, reap, fd)


def _is_alive(stat: kernel.Stat) -> bool:
    present = kernel.stat(stat.pid)
    return present is not None and present.start == stat.start and not present.dead
