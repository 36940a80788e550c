"""The life cycle of an instance: started, watched, restarted, removed.

Every change of an instance is made under its lock, after reading its record again, because another engine
with the same folder may have changed it. Data that is not in a record, above all the variables, is kept here
in memory.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Collection, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import structs

from windlass.base.clock import Clock
from windlass.base.isolation.cell import Cell
from windlass.base.isolation.isolation import Isolation, programs
from windlass.base.log import log
from windlass.core.deploy.workload import Instance, Phase, Workload
from windlass.engines.engine import EngineError, Notice
from windlass.engines.process import cgroups, files, kernel, listening, recorder
from windlass.engines.process import exit_reason as fate
from windlass.engines.process.environment import InstanceEnvironment, command
from windlass.engines.process.exit_reason import Pauses
from windlass.engines.process.kernel import Process
from windlass.engines.process.kill import ProcessKiller
from windlass.engines.process.output import last_words
from windlass.engines.process.output_reader import OutputReader
from windlass.engines.process.ports import PortClaims
from windlass.engines.process.process_table import Counting, members
from windlass.engines.process.records import InstanceKey, Record, RecordStore, UnknownRecord
from windlass.engines.process.spawn import Birth, Born, Spawner

_log = log("engines.process")
T = TypeVar("T")

_PARENT_FIRST: Final = 1.0
"""Time that the parent process has to report the end of a process before another engine records it as
unknown."""


class Supervisor:
    """The state of an instance that is only in memory."""

    def __init__(self) -> None:
        self.wanted: Workload | None = None
        self.process: Process | None = None
        """The one that is watched, or whose end is being dealt with."""
        self.handle: int | None = None
        self.resume: asyncio.TimerHandle | None = None
        self.heard: dict[int, int] = {}
        """Ports inside to where it was found to listen."""
        self.foreign: set[int] = set()
        """Sockets of other programs that listen on its ports, by inode."""


class Instances:
    def __init__(
        self,
        shelf: RecordStore,
        claims: PortClaims,
        surroundings: InstanceEnvironment,
        groups: cgroups.Cgroups,
        keeper: OutputReader,
        counting: Counting,
        clock: Clock,
        pauses: Pauses,
        isolation: Isolation,
    ) -> None:
        self._shelf, self._claims, self._surroundings = shelf, claims, surroundings
        self._groups, self._keeper, self._counting = groups, keeper, counting
        self._clock, self._pauses = clock, pauses
        self._ending = ProcessKiller(counting)
        self._isolation = isolation
        self.nursery = Spawner()
        self.notice: Notice = lambda service: None
        self._lives: dict[InstanceKey, Supervisor] = {}
        self._changes: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing = False
        self.own = kernel.myself()

    def open(self, notice: Notice) -> None:
        """Opens the engine, also after it was closed: a caller that only looks closes it, too."""
        self.notice = self._telling(notice)
        if self._closing:
            self._closing, self.nursery = False, Spawner()

    def _telling(self, notice: Notice) -> Notice:
        def tell(service: str) -> None:
            if change := self._changes.pop(service, None):
                change.set()
            notice(service)

        return tell

    def change(self, service: str) -> asyncio.Event:
        """Set when an instance of the service changes next, as far as this engine hears of it."""
        return self._changes.setdefault(service, asyncio.Event())

    def watched(self) -> list[InstanceKey]:
        return [key for key, life in self._lives.items() if life.handle is not None]

    def of(self, key: InstanceKey) -> Supervisor:
        return self._lives.setdefault(key, Supervisor())

    def agree(self, keys: Collection[InstanceKey]) -> set[str]:
        """Watches all of these and no others. Answers the services of which another engine began or removed
        an instance."""
        gone = set(self._lives) - set(keys)
        for key in gone:
            self.let_go(key)
        before = {key: self.of(key).process for key in keys}
        for key in keys:
            self.adopt(key)
        return {key.service for key in gone} | {
            key.service for key in keys if self.of(key).process != before[key]
        }

    def environment(self, key: InstanceKey, record: Record, process: Process) -> dict[str, str]:
        """Returns the environment of a running instance: as given, or for an adopted one as the kernel
        reports it."""
        wanted = self.of(key).wanted
        if wanted is not None:
            return self._surroundings.environment(key, wanted, record.ports)
        said = kernel.environment(process.pid)
        return {os.fsdecode(name): os.fsdecode(value) for name, value in said.items()}

    def go(self, deed: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs a task to its end, whether or not a caller waits; `close` waits for all of them."""
        task = asyncio.create_task(deed)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) and not isinstance(error, EngineError):
            _log.error("Something went wrong with an instance", exc_info=error)

    async def close(self) -> None:
        """Lets go of everything, and everything goes on running."""
        self._closing = True
        for key in list(self._lives):
            self.let_go(key)
        while self._tasks:
            await asyncio.wait(self._tasks)
        for key in list(self._lives):
            self.let_go(key)
        await asyncio.to_thread(self.nursery.close)

    def let_go(self, key: InstanceKey) -> None:
        life = self._lives.pop(key, None)
        if life is not None:
            _unwatch(life)
            if life.resume is not None:
                life.resume.cancel()

    # Begun.

    async def run(self, key: InstanceKey, wanted: Workload, *, once: bool = False) -> Instance:
        command(wanted)
        self._shelf.check(key.service)
        while True:
            async with self._shelf.held(key, make=True) as home:
                assert home is not None
                record = self._shelf.read(key)
                if not self._shelf.may_run(key):
                    await self._take_away(key, record)
                    raise EngineError(f"deployment {key.generation} of {wanted.name} was removed meanwhile")
                if record is not None and record.removing:
                    await self._take_away(key, record)  # what an interrupted removal has left
                    continue
                if once or (record and record.once):
                    record = await self._run_once(key, home, wanted, record)
                else:
                    record = await self._run(key, home, wanted, record)
            return await self.describe(key, record) or _instance(key, record, Phase.EXITED, record.ports)

    async def _run(self, key: InstanceKey, home: Path, wanted: Workload, record: Record | None) -> Record:
        self.of(key).wanted = wanted
        if record is None or not (record.process or record.resume_at):
            return await self._first(key, wanted, record or _fresh(key, wanted))
        if record.process is not None and kernel.lives(record.process):
            self._watch(key, record.process)
            return record
        if record.process is not None:
            record = await self._note_end(key, home, record, self._bury(key, record.process))
        if not self._resume_later(key, record):
            record = await self._again(key, wanted, record)
        return record

    async def _run_once(
        self, key: InstanceKey, home: Path, wanted: Workload, record: Record | None
    ) -> Record:
        """Runs a workload once. `wanted` is not kept in memory, so nothing can start it again."""
        record = record or structs.replace(_fresh(key, wanted), once=True)
        if record.process is not None and kernel.lives(record.process):
            self._watch(key, record.process)
        elif not record.ended_at:
            status = self._bury(key, record.process) if record.process else None
            record = await self._note_end(key, home, record, status)
            if not record.ended_at:
                record = await self._first(key, wanted, record)
        return record

    async def _first(self, key: InstanceKey, wanted: Workload, record: Record) -> Record:
        try:
            return await self._begin(key, wanted, record)
        except (EngineError, OSError) as error:
            await self._take_away(key, self._shelf.read(key))
            raise _for_people(error) from error

    async def _again(self, key: InstanceKey, wanted: Workload, record: Record) -> Record:
        """Retries a failed start with growing pauses, as for a program that ends."""
        try:
            begun = await self._begin(key, wanted, record)
            self.notice(key.service)
            return begun
        except (EngineError, OSError) as error:
            now, reason = self._clock.now(), str(_for_people(error))
            record = structs.replace(self._shelf.read(key) or record, started_at=now)
            record = self._shelf.write(key, fate.ended(record, None, reason, now, self._pauses))
            self._resume_later(key, record)
            return record

    async def _begin(self, key: InstanceKey, wanted: Workload, record: Record) -> Record:
        """The lock is held, and no process of the instance lives."""
        files.check_volumes(self._shelf.volumes, wanted)
        home = self._shelf.home(key)
        record = structs.replace(
            record, ports=self._surroundings.ports(key, wanted, record), memory=wanted.memory
        )
        self._shelf.write(key, record)
        if not record.made:
            await asyncio.to_thread(self._make, key, wanted)
        if record.once:
            files.make_once(home, self._isolation.owner(key.service))
        folder = files.working_directory(home, record.workdir)
        if not folder.is_dir():
            raise EngineError(f"the application has no folder {record.workdir} to work in")
        environment = self._surroundings.environment(key, wanted, record.ports)
        cell = await asyncio.to_thread(self._cell, key, wanted, record.once)
        program = command(wanted)
        if record.once:
            program = tuple(recorder.recorded(program, home / files.ONCE))
        what = Birth(program, folder, environment, home / "output", cell)
        record = await self._born(key, wanted, what, structs.replace(record, made=True))
        assert record.process is not None
        self._keeper.follow(key, record)
        self._watch(key, record.process)
        self._shelf.ring()
        return record

    def _make(self, key: InstanceKey, wanted: Workload) -> None:
        home, cache = self._shelf.home(key), self._shelf.caches / key.service
        files.make(home, wanted, self._shelf.volumes, cache, self._isolation.owner(key.service))

    def _cell(self, key: InstanceKey, wanted: Workload, once: bool = False) -> Cell | None:
        """Returns the cell of a service. It may read what was built for it and the operator's programs, and
        nothing that its own command or variables name: that could be any folder of the machine."""
        path = programs(wanted.artifact.environment.get("PATH", ""), self._isolation.folders)
        home, cache = self._shelf.home(key), self._shelf.caches / key.service
        return self._isolation.cell(
            key.service,
            readable=(*files.built(Path(wanted.artifact.ref)), *path),
            writable=files.writable(home, wanted, self._shelf.volumes, cache, once=once),
            temporary=home / "tmp",
        )

    async def _born(self, key: InstanceKey, wanted: Workload, what: Birth, record: Record) -> Record:
        record = structs.replace(
            record,
            engine=self.own,
            started_at=self._clock.now(),
            restarts=record.restarts + bool(record.started_at),
            resume_at=0,
        )
        cgroup = self._groups.make(key.id, wanted.cpu, wanted.memory)
        record = structs.replace(record, cell=what.cell, cgroup=cgroup)

        def noted(born: Born) -> Record:
            return structs.replace(record, process=born.process, first=born.first, space=born.space)

        def note(born: Born) -> None:
            self._shelf.write(key, noted(born))

        start, what = self.nursery.start, structs.replace(what, cgroup=cgroup)
        return noted(await asyncio.get_running_loop().run_in_executor(self.nursery.thread, start, what, note))

    # Watched.

    def adopt(self, key: InstanceKey) -> None:
        """Brings what this engine does for an instance up to what its record says."""
        record = self._shelf.known(key)
        if record is None:
            return
        if record.removing:
            self.go(self._finish_removal(key))
        elif record.process is not None:
            self._watch(key, record.process)
        elif record.resume_at and not self._resume_later(key, record) and self.of(key).wanted:
            self.go(self._resume(key, record.resume_at))

    def forsaken(self, key: InstanceKey) -> bool:
        """Returns whether the removal of its generation was interrupted before it reached this instance."""
        if key.generation not in self._shelf.removed.of(key.service):
            return False
        self.go(self.remove(key, 0))
        return True

    def _watch(self, key: InstanceKey, process: Process) -> None:
        """From now on its end is noticed. It may have ended already; then that is."""
        life = self.of(key)
        if life.process == process:
            return
        _unwatch(life)
        life.process, life.heard = process, {}
        life.handle = kernel.handle(process.pid, process.start) if process.boot == kernel.boot() else None
        if life.handle is None:
            self.go(self._ended(key, process, None))
        else:
            asyncio.get_running_loop().add_reader(life.handle, self._saw_end, key, process)

    def _saw_end(self, key: InstanceKey, process: Process) -> None:
        self.go(self._ended(key, process, self._bury(key, process)))

    def _bury(self, key: InstanceKey, process: Process) -> int | None:
        """Reaps a child process and returns how it ended."""
        life = self.of(key)
        if life.process != process or life.handle is None:
            return None
        status = kernel.bury(life.handle)
        _unwatch(life)
        life.process = process
        return status

    async def _ended(self, key: InstanceKey, process: Process, status: int | None) -> None:
        await self._let_the_parent(key, status)
        async with self._shelf.held(key) as home:
            record = self._shelf.read(key)
            if home is None or record is None or record.removing:
                return
            if record.process == process:
                await self._note_end(key, home, record, status)
            elif status is not None:
                self._shelf.write(key, fate.explained(record, process, status))
        await self._keeper.flush(home)
        if not self._closing:
            self.adopt(key)
        self._shelf.ring()
        self.notice(key.service)

    async def _let_the_parent(self, key: InstanceKey, status: int | None) -> None:
        record = self._shelf.read(key)
        if status is None and record and record.engine != self.own and kernel.lives(record.engine):
            await asyncio.sleep(_PARENT_FIRST)

    async def _note_end(self, key: InstanceKey, home: Path, record: Record, status: int | None) -> Record:
        if record.once and status is None and not recorder.has_begun(home / files.ONCE):
            # The starter was killed before the first instruction, so the program has not run yet.
            return self._shelf.write(key, structs.replace(record, process=None, started_at=0))
        result = recorder.result(home / files.ONCE) if record.once else None
        if status is None and record.verdict:  # we killed it, and may have reaped it ourselves
            status = -signal.SIGKILL
        status, now = result or (status, self._clock.now())
        reason = self._why(key, home, record, status)
        await self._ending.end(home, record.process, record)
        cgroups.remove(record.cgroup)
        return self._shelf.write(key, fate.ended(record, status, reason, now, self._pauses))

    def _why(self, key: InstanceKey, home: Path, record: Record, status: int | None) -> str:
        if cgroups.killed_for_memory(record.cgroup):
            return fate.too_much(record.memory)
        reason = fate.said(status)
        if not status or self.of(key).heard:
            return reason
        listened = listening.listened()
        taken = {inner for inner, given in record.ports.items() if given != inner and inner in listened}
        return fate.port_taken(reason, taken, last_words(home))

    # Restarting

    def _resume_later(self, key: InstanceKey, record: Record) -> bool:
        """Returns whether the instance is between an end and the next start."""
        life = self.of(key)
        if life.resume is not None:
            return True
        wait = (record.resume_at - self._clock.now()) / 1000
        if life.wanted is None or wait <= 0 or self._closing:
            return False
        life.resume = asyncio.get_running_loop().call_later(
            min(wait, self._pauses.longest), lambda: self.go(self._resume(key, record.resume_at))
        )
        return True

    async def _resume(self, key: InstanceKey, due: int) -> None:
        life = self.of(key)
        life.resume = None
        async with self._shelf.held(key) as home:
            record = self._shelf.read(key)
            if home is None or record is None or record.removing or life.wanted is None or self._closing:
                return
            if record.resume_at == due and record.process is None:
                await self._ending.end(home, record.last, record)
                await self._again(key, life.wanted, record)
        self.adopt(key)

    # Seen.

    async def look(self, key: InstanceKey) -> Instance | None:
        """Returns an instance as it is now. One whose record is of another version is there all the same."""
        try:
            record = self._shelf.read(key)
        except UnknownRecord as error:
            return _unknown(key, str(error))
        return None if record is None else await self.describe(key, record)

    async def describe(self, key: InstanceKey, record: Record) -> Instance | None:
        if kernel.lives(record.process):
            return _instance(key, record, Phase.RUNNING, await self._ports(key, record))
        if record.removing:
            return None
        # Without its variables an instance cannot be restarted before `run` is called.
        life = self._lives.get(key)
        waits = life is not None and life.wanted is not None
        return _instance(key, record, Phase.WAITING if waits else Phase.EXITED, record.ports)

    async def _ports(self, key: InstanceKey, record: Record) -> Mapping[int, int]:
        """Returns the ports that it was told to use, unless it listens on ports of its own choice."""
        life = self.of(key)
        if life.process != record.process:
            return record.ports
        if len(life.heard) < len(record.ports):
            life.heard = await self._heard(key, record, life)
        return {**record.ports, **life.heard}

    async def _heard(self, key: InstanceKey, record: Record, life: Supervisor) -> dict[int, int]:
        listened = listening.listened()
        heard = {inner: given for inner, given in record.ports.items() if given in listened}
        own_choice = {
            inner: listened[inner] for inner in record.ports if inner not in heard and inner in listened
        }
        if any(inodes - life.foreign for inodes in own_choice.values()):
            census = await self._counting.now()
            pids = [each.stat.pid for each in members(census, self._shelf.home(key), record.process, record)]
            ours = await asyncio.to_thread(listening.sockets, pids)
            heard |= {inner: inner for inner, inodes in own_choice.items() if inodes & ours}
            life.foreign = set().union(*own_choice.values()) - ours
        return heard

    # Taken away.

    async def remove(self, key: InstanceKey, grace: float) -> None:
        async with self._shelf.held(key) as home:
            if home is None:
                return
            record = self._shelf.read(key)
            if record is not None:
                record = self._shelf.write(key, structs.replace(record, removing=True))
                await self._ending.ask(home, record, grace)
            await self._take_away(key, record)
        self.notice(key.service)

    async def halt(self, key: InstanceKey, grace: float) -> None:
        """Ends the program and keeps the instance with its working copy: only `run` begins it again."""
        async with self._shelf.held(key) as home:
            record = self._shelf.read(key)
            if home is None or record is None:
                return
            self.let_go(key)
            await self._ending.ask(home, record, grace)
            await self._ending.end(home, record.process, record)
            for port in record.ports.values():
                self._claims.release(port, key)
            cgroups.remove(record.cgroup)
            self._shelf.write(key, structs.replace(record, process=None, cgroup="", ports={}, resume_at=0))
            await self._keeper.flush(home)
            self._keeper.drop(home)
        self.notice(key.service)

    async def end_for(self, key: InstanceKey, seen: Process, verdict: str) -> None:
        """Ends the program, not the instance: it is restarted, with this reason."""
        async with self._shelf.held(key) as home:
            record = self._shelf.read(key)
            if home is not None and record is not None and record.process == seen:
                self._shelf.write(key, structs.replace(record, verdict=verdict))
                await self._ending.end(home, record.process, record)

    async def _finish_removal(self, key: InstanceKey) -> None:
        """Finishes the removal of a Windlass that was interrupted. One that is still active holds the
        lock."""
        async with self._shelf.held(key) as home:
            record = self._shelf.read(key)
            if home is None or record is None or not record.removing:
                return
            await self._take_away(key, record)
        self.notice(key.service)

    async def _take_away(self, key: InstanceKey, record: Record | None) -> None:
        """The lock is held. Nothing of the instance is left, but its last words are heard."""
        home = self._shelf.home(key)
        if record is not None:
            await self._ending.end(home, record.process, record)
            for port in record.ports.values():
                self._claims.release(port, key)
            cgroups.remove(record.cgroup)
        self.let_go(key)
        self._keeper.drop(home)
        aside = self._shelf.lay_aside(key)
        self._shelf.ring()
        await self._keeper.finish(aside)


def _unwatch(life: Supervisor) -> None:
    if life.handle is not None:
        asyncio.get_running_loop().remove_reader(life.handle)
        os.close(life.handle)
    life.handle = life.process = None


def _fresh(key: InstanceKey, wanted: Workload) -> Record:
    return Record(
        service=key.service,
        pod=f"{wanted.name}-{key.generation}-{key.index}",
        deployment=wanted.deployment,
        workdir=wanted.artifact.workdir,
        memory=wanted.memory,
    )


def _instance(key: InstanceKey, record: Record, phase: Phase, ports: Mapping[int, int]) -> Instance:
    return Instance(
        id=key.id,
        service=key.service,
        generation=key.generation,
        index=key.index,
        phase=phase,
        ports=ports,
        exit_code=record.exit_code,
        reason=record.reason,
        restarts=record.restarts,
        started_at=record.started_at,
    )


def _unknown(key: InstanceKey, reason: str) -> Instance:
    return Instance(
        id=key.id,
        service=key.service,
        generation=key.generation,
        index=key.index,
        phase=Phase.EXITED,
        reason=reason,
    )


def _for_people(error: EngineError | OSError) -> EngineError:
    if isinstance(error, EngineError):
        return error
    return EngineError(f"it cannot be started on this machine: {error.strerror or error}")
