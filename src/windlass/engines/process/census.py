"""Who belongs to which instance: by session, by what its environment says, by its cgroup.

An instance's processes are all that came of the one that was started, also those which have left its process
group or its session. Each was started with `WINDLASS_INSTANCE` and `WINDLASS_FILES`; the latter names a
folder and thereby the engine, so that the processes of another installation are never mistaken for ours.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from windlass.engines.process import kernel
from windlass.engines.process.kernel import Process, Stat

INSTANCE: Final = "WINDLASS_INSTANCE"
FILES: Final = "WINDLASS_FILES"
EXECUTED_BY: Final = "WINDLASS_EXECUTED_BY"
MARKS: Final = (INSTANCE, FILES)


class Member(Struct, frozen=True, gc=False):
    """A living process of this machine, and what it says of where it belongs."""

    stat: Stat
    home: str
    """The folder of its instance; empty: it is none of ours."""
    executed_by: str
    """It runs beside the program, for the Windlass named."""


class Census:
    """All that live, found by what matters."""

    def __init__(self, everyone: Iterable[Member]) -> None:
        self.by_pid = {each.stat.pid: each for each in everyone}
        self.by_home: dict[str, list[Member]] = {}
        self.by_session: dict[int, list[Member]] = {}
        for each in self.by_pid.values():
            self.by_session.setdefault(each.stat.session, []).append(each)
            if each.home:
                self.by_home.setdefault(each.home, []).append(each)


def count(folder: Path, before: Census | None = None) -> Census:
    """What `before` tells of ours is not asked again: once ours, always ours."""
    prefix, known = os.fsencode(folder) + b"/", before.by_pid if before else {}
    return Census(_known(known, stat) or _member(stat, prefix) for stat in kernel.everyone() if not stat.dead)


def _known(known: Mapping[int, Member], stat: Stat) -> Member | None:
    before = known.get(stat.pid)
    if before is None or not before.home or before.stat.start != stat.start:
        return None
    return Member(stat, before.home, before.executed_by)


def _member(stat: Stat, prefix: bytes) -> Member:
    said = kernel.environment(stat.pid)
    files = said.get(FILES.encode(), b"")
    ours = INSTANCE.encode() in said and files.startswith(prefix)
    return Member(
        stat=stat,
        home=os.fsdecode(files.rpartition(b"/")[0]) if ours else "",
        executed_by=said.get(EXECUTED_BY.encode(), b"").decode("ascii", "replace") if ours else "",
    )


def members(census: Census, home: Path, leader: Process | None) -> list[Member]:
    """All that belongs to the instance of this folder, whose first process was this one."""
    marked = census.by_home.get(str(home), [])
    others = [each for each in _session(census, home, leader) if each.home != str(home)]
    return [*marked, *others]


def _session(census: Census, home: Path, leader: Process | None) -> list[Member]:
    """Of the leader. The number of a session is as good as a pid: it may be somebody else's by now."""
    if leader is None or leader.boot != kernel.boot():
        return []
    session = census.by_session.get(leader.pid, [])
    first = census.by_pid.get(leader.pid)
    if first is None:
        return [each for each in session if kernel.touches(each.stat.pid, home)]
    return session if first.stat.start == leader.start else []


class Counting:
    """Counts off the event loop; who asks while somebody waits for the next count shares it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._one = asyncio.Lock()
        self._coming: asyncio.Future[Census] | None = None
        self._last: Census | None = None

    async def now(self) -> Census:
        """Begun after the question: a process that was there then is in it."""
        if self._coming is None:
            self._coming = asyncio.ensure_future(self._count())
        return await asyncio.shield(self._coming)

    async def _count(self) -> Census:
        async with self._one:
            self._coming = None
            self._last = await asyncio.to_thread(count, self._folder, self._last)
            return self._last
