"""Finds the processes of each instance by the process namespace of its cell (sandbox). Without a process
namespace, uses the mark (marks.py), session, environment or control group.

The processes of an instance are all descendants of its program, including descendants that have left its
process group or session. Each one inherits the variables `WINDLASS_INSTANCE` and `WINDLASS_FILES`. The latter
contains a folder of this engine, so processes of another Windlass installation are not included.

A program controls its own environment. It could pretend to belong to another service, whose memory use would
then be too high, or to be a command of Windlass. Information from the kernel therefore has priority.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct, structs

from windlass.base import kernel
from windlass.base.kernel import Process, Stat
from windlass.base.marks import mark_of, read_mark
from windlass.process.records import InstanceKey, Record, RecordStore

INSTANCE_VARIABLE: Final = "WINDLASS_INSTANCE"
FILES_VARIABLE: Final = "WINDLASS_FILES"
EXECUTED_BY: Final = "WINDLASS_EXECUTED_BY"
MARK_VARIABLES: Final = (INSTANCE_VARIABLE, FILES_VARIABLE)
_GET_PARENT: Final = 0xB702
"""The ioctl request for the parent of a namespace."""
_PARTS_OF_HOME: Final = 2
"""The path of an instance's folder has two parts: the service and the instance."""


class OwnedProcess(Struct, frozen=True, gc=False):
    """A living process of this machine, with the instance to which it claims to belong."""

    stat: Stat
    home: str
    """The folder of the process's instance. Empty if the process does not belong to an instance of this
    engine."""
    space: int = 0
    """The number of the process namespace that is a child of Windlass's namespace and contains the process. 0
    if there is none."""
    is_told: bool = False
    """Whether the environment could be read. It is not readable while the process executes another
    program."""
    mark: int = 0
    """The mark of the instance that the process carries; see `marks`. 0 if it has none."""


class ProcessTable:
    """All living processes, indexed by process id, instance, session and process namespace."""

    def __init__(
        self, everyone: Iterable[OwnedProcess], dead: Iterable[Stat] = (), seen: Iterable[int] = ()
    ) -> None:
        self.seen = frozenset(seen)
        """The ids of all processes that were read, including kernel threads."""
        self.by_pid = {process.stat.pid: process for process in everyone}
        self.dead_children = Counter(stat.parent for stat in dead)
        """The number of ended child processes that each process has not reaped."""
        self.by_home: dict[str, list[OwnedProcess]] = {}
        self.by_session: dict[int, list[OwnedProcess]] = {}
        self.by_space: dict[int, list[OwnedProcess]] = {}
        self.by_mark: dict[int, list[OwnedProcess]] = {}
        for process in self.by_pid.values():
            self.by_session.setdefault(process.stat.session, []).append(process)
            if process.home:
                self.by_home.setdefault(process.home, []).append(process)
            if process.space:
                self.by_space.setdefault(process.space, []).append(process)
            if process.mark:
                self.by_mark.setdefault(process.mark, []).append(process)

    def contains(self, process: Process | None) -> bool:
        """Returns whether a process was running when the processes were listed."""
        return bool(process and self.find(process))

    def find(self, process: Process) -> OwnedProcess | None:
        """Returns the listed process, unless another process has its id now."""
        found = self.by_pid.get(process.pid) if process.boot == kernel.boot() else None
        return found if found and found.stat.start == process.start else None


def count(folder: Path, previous_table: ProcessTable | None = None) -> ProcessTable:
    """Lists all processes. Reuses entries of `previous_table` for processes of instances and cells, because
    these entries no longer change."""
    reader, processes = _ProcessReader(folder), previous_table.by_pid if previous_table else {}
    seen: set[int] = set()
    known: dict[int, OwnedProcess] = {}
    others: dict[int, _ProcessIdentity] = {}
    stats = []
    for stat in kernel.new_processes(seen):
        stats.append(stat)
        if process := _reuse(processes, stat):
            known[stat.pid] = process
        elif not stat.dead:  # a very short-lived process has ended by the end of the list
            others[stat.pid] = reader.identify(stat)
    stats.reverse()
    homes = _find_homes(known.values())
    living = (
        known.get(stat.pid) or reader.read(stat, others[stat.pid], homes) for stat in stats if not stat.dead
    )
    return ProcessTable(living, [stat for stat in stats if stat.dead], seen)


def _find_homes(known: Iterable[OwnedProcess]) -> dict[int, str]:
    """Returns the instance folder of each process namespace. Reads it from the oldest process in the
    namespace, which Windlass started, so that the environments of the other processes need not be read."""
    inside = [process for process in known if process.space and process.home]
    inside.sort(key=lambda process: -process.stat.start)
    return {process.space: process.home for process in inside}


def _reuse(processes: Mapping[int, OwnedProcess], stat: Stat) -> OwnedProcess | None:
    before = None if stat.dead else processes.get(stat.pid)
    if before is None or not before.is_told or not (before.home or before.space):
        return None
    if before.stat.start != stat.start:
        return None
    return OwnedProcess(stat, before.home, before.space, is_told=True, mark=before.mark)


class _ProcessIdentity(NamedTuple):
    space: int
    mark: int


class _ProcessReader:
    """Reads information about processes that an earlier table does not contain."""

    def __init__(self, folder: Path) -> None:
        self._prefix = os.fsencode(folder) + b"/"
        self._spaces = _ProcessNamespaces(folder)

    def identify(self, stat: Stat) -> _ProcessIdentity:
        space = self._spaces.of(stat.thread)
        return _ProcessIdentity(space, 0 if space else read_mark(stat.thread))

    def read(self, stat: Stat, identity: _ProcessIdentity, homes: Mapping[int, str]) -> OwnedProcess:
        space, mark = identity
        if space in homes:
            return OwnedProcess(stat, homes[space], space, is_told=True)
        marks = kernel.marks(stat.thread, MARK_VARIABLES)
        files = marks.get(FILES_VARIABLE, b"") if marks else b""
        ours = marks is not None and INSTANCE_VARIABLE in marks and files.startswith(self._prefix)
        home = os.fsdecode(files.rpartition(b"/")[0]) if ours else self._spaces.home(space, stat.thread)
        return OwnedProcess(stat, home, space, is_told=marks is not None, mark=mark)


class _ProcessNamespaces:
    """Process namespaces that are children of Windlass's namespace. Each cell has one. A namespace that a
    program creates inside a cell counts as the cell's namespace."""

    def __init__(self, folder: Path) -> None:
        self._services = folder / "services"
        self._ours = kernel.process_namespace(os.getpid())
        self._known = {0: 0, self._ours: 0}
        self._homes = {0: ""}

    def of(self, pid: int) -> int:
        number = kernel.process_namespace(pid)
        if number not in self._known:
            self._known[number] = self._top(pid)
        return self._known[number]

    def home(self, space: int, pid: int) -> str:
        """Returns the instance folder that is mounted for the processes of a namespace. A program can remove
        its marks, but cannot change the mounts."""
        if space not in self._homes:
            self._homes[space] = next(map(str, self._mounted(pid)), "")
        return self._homes[space]

    def _mounted(self, pid: int) -> Iterable[Path]:
        for point in kernel.mount_points(pid):
            if point.is_relative_to(self._services):
                below = point.relative_to(self._services).parts
                if len(below) > _PARTS_OF_HOME:
                    yield self._services.joinpath(*below[:_PARTS_OF_HOME])

    def _top(self, pid: int) -> int:
        with suppress(OSError):
            at = os.open(f"/proc/{pid}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
            try:
                while (number := os.fstat(at).st_ino) != self._ours:
                    top, above = number, fcntl.ioctl(at, _GET_PARENT)
                    os.close(at)
                    at = above
                return top
            finally:
                os.close(at)
        return 0


def members(
    table: ProcessTable, home: Path, group_leader: Process | None, record: Record
) -> list[OwnedProcess]:
    """Returns the processes of an instance. `home` is its folder and `group_leader` is its program."""
    if record.space:
        inside = table.by_space.get(record.space, [])
        if _is_inside(table, record.first, record.space) or _is_inside(table, group_leader, record.space):
            return inside
        # The namespace's number may have been reused by the kernel.
        return [process for process in inside if process.home == str(home)]
    marked = table.by_mark.get(mark_of(home), [])
    named = [process for process in table.by_home.get(str(home), []) if _is_of(process, record)]
    others = [process for process in _session_members(table, home, group_leader) if process.home != str(home)]
    return [*marked, *(process for process in (*named, *others) if not process.mark)]


class InstanceProcesses:
    """Lists the processes of an instance repeatedly. It is fast, because only new processes are
    identified."""

    def __init__(self, table: ProcessTable, records: RecordStore, key: InstanceKey, record: Record) -> None:
        self._home, self._record = records.home(key), record
        self._reader, self._seen = _ProcessReader(records.folder), {*table.seen}
        self._known = members(table, self._home, record.process, record)[::-1]
        numbers = [process.pid for process in (record.first, record.process) if process]
        self._leaders = [found for pid in numbers if (found := table.by_pid.get(pid))]

    def find(self) -> dict[int, OwnedProcess]:
        """Returns the living processes by process id, the newest first."""
        born = [
            self._reader.read(stat, self._reader.identify(stat), {})
            for stat in kernel.new_processes(self._seen)
            if not stat.dead
        ]
        born = [process for process in born if self._is_member(process)]
        older = [present for process in self._known if (present := _reread(process))]
        self._known = [*born, *older]
        return {process.stat.pid: process for process in self._known}

    def _is_member(self, process: OwnedProcess) -> bool:
        table = ProcessTable([*self._leaders, process])
        return process in members(table, self._home, self._record.process, self._record)


def _reread(process: OwnedProcess) -> OwnedProcess | None:
    """Returns a process with its current data, or None if it has ended."""
    stat = kernel.stat(process.stat.pid)
    if stat is None or stat.dead or stat.start != process.stat.start:
        return None
    return structs.replace(process, stat=stat)


def _is_inside(table: ProcessTable, process: Process | None, space: int) -> bool:
    """Returns whether a known process of the instance is in the namespace. Then all processes in the
    namespace belong to the instance."""
    found = table.find(process) if process else None
    return found is not None and found.space == space


def _is_of(process: OwnedProcess, record: Record) -> bool:
    """Returns whether the process may belong to the record's service. It does not if the service has a user
    of its own and another user runs the process."""
    cell = record.cell
    return cell is None or cell["identity"] != "user" or kernel.user(process.stat.pid) in (None, cell["uid"])


def _session_members(table: ProcessTable, home: Path, group_leader: Process | None) -> list[OwnedProcess]:
    """Returns the processes of the leader's session. A session's id may be reused, as a process id may."""
    if group_leader is None or group_leader.boot != kernel.boot():
        return []
    session = table.by_session.get(group_leader.pid, [])
    first = table.by_pid.get(group_leader.pid)
    if first is None:
        return [process for process in session if kernel.touches(process.stat.thread, home)]
    return session if first.stat.start == group_leader.start else []


class ProcessCounter:
    """Lists processes in a thread. Concurrent callers share the next list."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._one = asyncio.Lock()
        self._coming: asyncio.Future[ProcessTable] | None = None
        self._last: ProcessTable | None = None

    async def now(self) -> ProcessTable:
        """Returns a table whose scan starts after this call, so that it contains all processes of this
        moment."""
        if self._coming is None:
            self._coming = asyncio.ensure_future(self._count())
        return await asyncio.shield(self._coming)

    async def _count(self) -> ProcessTable:
        async with self._one:
            self._coming = None
            self._last = await asyncio.to_thread(count, self._folder, self._last)
            return self._last
