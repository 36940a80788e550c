"""Ends everything that belongs to an instance, including processes that have left its session."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from windlass.base import cgroups
from windlass.engines.process import kernel
from windlass.engines.process.kernel import Process
from windlass.engines.process.process_table import ProcessCounter, members
from windlass.engines.process.records import Record

_SOON: Final = 5.0
"""Time that a killed process has before it is killed again."""
_MOMENT: Final = 0.01


class ProcessKiller:
    def __init__(self, counting: ProcessCounter) -> None:
        self._counting = counting

    async def ask(self, home: Path, record: Record, grace: float) -> None:
        """Sends SIGTERM to all processes; returns when they are gone or the time is over. The first process
        of a cell gets none: with it everything in the cell would end at once."""
        living = await self._find_living(home, record.process, record)
        asked = [stat for stat in living if not kernel.leads_namespace(stat.pid)]
        with open_handles(asked) as handles:
            for fd in handles:
                kernel.send(fd, signal.SIGTERM)
            await wait_for_ends(handles, grace, burying=True)

    async def end(self, home: Path, leader: Process | None, record: Record) -> bool:
        """Ends all processes; returns whether there were any. `leader` is the program.

        A process that is born during the count may be missed if its parent ends meanwhile, so two counts in a
        row must find none.
        """
        any_at_all, calm = False, 0
        while calm < 2:
            living = await self._find_living(home, leader, record)
            if not living:
                calm += 1
                continue
            any_at_all, calm = True, 0
            if record.cgroup:
                cgroups.kill(record.cgroup)
            await end_these([*living, *_find_unreaped(leader)])
        return any_at_all

    async def _find_living(self, home: Path, leader: Process | None, record: Record) -> list[kernel.Stat]:
        table = await self._counting.now()
        processes = {process.stat.pid: process.stat for process in members(table, home, leader, record)}
        for pid in cgroups.members(record.cgroup) if record.cgroup else ():
            if pid not in processes and (stat := kernel.stat(pid)) and not stat.dead:
                processes[pid] = stat
        return list(processes.values())


def _find_unreaped(leader: Process | None) -> list[kernel.Stat]:
    """Returns ended processes that no parent has reaped."""
    present = kernel.stat(leader.pid) if leader and leader.boot == kernel.boot() else None
    return [present] if present and leader and present.start == leader.start and present.dead else []


@contextmanager
def open_handles(stats: Iterable[kernel.Stat]) -> Iterator[list[int]]:
    """A handle of each process that is still the one that was seen; buried and closed afterwards."""
    handles = [fd for stat in stats if (fd := kernel.handle(stat.pid, stat.start)) is not None]
    try:
        yield handles
    finally:
        for fd in handles:
            kernel.bury(fd)  # for containers without an init
            os.close(fd)


async def wait_for_ends(handles: Iterable[int], patience: float, *, burying: bool = False) -> bool:
    """Waits until all processes have ended or the time is over; returns True if some are left. `burying`:
    reaps each at once, because the first process of a cell ends only after all others are reaped."""
    loop = asyncio.get_running_loop()
    left = set(handles)
    over = asyncio.Event()

    def ended(fd: int) -> None:
        loop.remove_reader(fd)
        left.discard(fd)
        if burying:
            kernel.bury(fd)
        if not left:
            over.set()

    for fd in list(left):
        loop.add_reader(fd, ended, fd)
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
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
        until, pause = time.monotonic() + _SOON, _MOMENT
        # The first process of a cell may wait for long to be buried itself, and does nothing more.
        while await wait_for_ends(handles, pause, burying=True) and time.monotonic() < until:
            if not any(_lives(stat) for stat in stats):
                return
            pause *= 2


def _lives(stat: kernel.Stat) -> bool:
    present = kernel.stat(stat.pid)
    return present is not None and present.start == stat.start and not present.dead
