"""Starts, watches, restarts and removes instances.

Each change of an instance requires its lock and a fresh read of its record, because another engine process
may use the same folder. Some state is only in this engine's memory, in particular the variables.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import structs

from windlass.base import cgroups, kernel
from windlass.base.clock import Clock
from windlass.base.kernel import Process
from windlass.base.log import log
from windlass.engines.engine import EngineError, Notice
from windlass.engines.workload import Instance, Phase, Workload
from windlass.process import exit_reason, files
from windlass.process.end_recorder import EndRecorder
from windlass.process.environment import command
from windlass.process.exit_reason import Pauses
from windlass.process.failures import away
from windlass.process.inspection import InstanceInspector, as_instance
from windlass.process.kill import ProcessKiller
from windlass.process.output_reader import OutputReader
from windlass.process.ports import PortClaims
from windlass.process.process_table import ProcessCounter
from windlass.process.records import InstanceKey, Record, RecordStore
from windlass.process.starting import InstanceStarter, new_record, readable
from windlass.process.supervisor import Supervisors

_log = log("engines.process")
T = TypeVar("T")

_END_TIMEOUT: Final = 10.0
"""Seconds for which a server that stops waits for instances that have been asked to end."""
_RETRY_PAUSE: Final = 1.0
"""Seconds between two attempts to record an event of an instance."""
_PARENT_AHEAD: Final = 1.0
"""Seconds in which the parent of a process may record its exit status, before another engine records it as
unknown."""


class Instances:
    def __init__(
        self,
        records: RecordStore,
        claims: PortClaims,
        starter: InstanceStarter,
        output: OutputReader,
        counter: ProcessCounter,
        clock: Clock,
        pauses: Pauses,
    ) -> None:
        self._records, self._claims, self._starter = records, claims, starter
        self._output, self._clock, self._pauses = output, clock, pauses
        self._killer = ProcessKiller(counter)
        self._ends = EndRecorder(records, self._killer, clock, pauses)
        self.supervisors = Supervisors()
        self.inspector = InstanceInspector(records, self.supervisors, counter)
        self.notice: Notice = lambda service: None
        self._changes: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closing = False
        self._graces: dict[InstanceKey, asyncio.Event] = {}
        """Instances that have been asked to end. An event ends the grace period."""

    def open(self, notice: Notice) -> None:
        """Prepares the engine for work. Can be called again after `close`."""
        self.notice = self._with_wakeups(notice)
        if self._closing:
            self._closing = False
            self._starter.reopen()

    def _with_wakeups(self, notice: Notice) -> Notice:
        def tell(service: str) -> None:
            if change := self._changes.pop(service, None):
                change.set()
            notice(service)

        return tell

    def change(self, service: str) -> asyncio.Event:
        """Returns an event that is set when this engine notices the next change of the service."""
        return self._changes.setdefault(service, asyncio.Event())

    def agree(self, keys: Collection[InstanceKey]) -> set[str]:
        """Watches exactly the instances in `keys`. Returns the services of which another engine has started
        or removed an instance."""
        removed = set(self.supervisors.keys) - set(keys)
        for key in removed:
            self.supervisors.let_go(key)
        before = {key: self.supervisors.of(key).process for key in keys}
        for key in keys:
            self.adopt(key)
        return {key.service for key in removed} | {
            key.service for key in keys if self.supervisors.of(key).process != before[key]
        }

    def go(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Runs work that continues if the caller is cancelled. `close` waits until it is complete."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget_task)
        return task

    def _run_until_done(self, key: InstanceKey, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs work on an instance and retries it after an OSError, such as a full disk."""
        self.go(self._retry(key, work))

    async def _retry(self, key: InstanceKey, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        is_first = True
        while True:
            try:
                await work()
                return
            except OSError as error:
                if is_first:
                    why = {"instance": key.id, "why": str(away(error))}
                    _log.warning("work on an instance failed, and is tried again every second", extra=why)
            is_first = False
            await asyncio.sleep(_RETRY_PAUSE)
            if self._closing:
                return

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, OSError):
            _log.warning("work on an instance failed", extra={"why": str(away(error))})
        elif error and not isinstance(error, EngineError):
            _log.error("Work on an instance failed", exc_info=error)

    async def close(self) -> None:
        """Stops watching all instances. The instances keep running."""
        self._closing = True
        for key in self.supervisors.keys:
            self.supervisors.let_go(key)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_END_TIMEOUT)
        while self._tasks:
            for key in self._graces:
                self._end_grace(key)
            await asyncio.wait(self._tasks, timeout=_RETRY_PAUSE)
        for key in self.supervisors.keys:
            self.supervisors.let_go(key)
        await self._starter.close()

    # Starting

    async def run(self, key: InstanceKey, workload: Workload, *, runs_once: bool = False) -> Instance:
        command(workload)
        self._records.check(key.service)
        while True:
            async with self._records.held(key, may_create=True) as home:
                assert home is not None
                record = self._records.read(key)
                if not self._records.may_run(key, runs_once=runs_once):
                    await self._erase(key, record)
                    raise EngineError(f"deployment {key.generation} of {workload.name} was removed meanwhile")
                if record is not None and record.removing:
                    await self._erase(key, record)  # left by an interrupted removal
                    continue
                if record is not None and record.deployment != workload.deployment:
                    # A database restored from a backup assigns the same generation numbers again.
                    await self._ask(key, home, record, workload.grace)
                    await self._erase(key, record)
                    continue
                if runs_once or (record and record.once):
                    record = await self._run_once(key, home, workload, record)
                else:
                    record = await self._run(key, home, workload, record)
            seen = await self.inspector.describe(key, record)
            return seen or as_instance(key, record, Phase.EXITED, record.ports)

    async def _run(self, key: InstanceKey, home: Path, workload: Workload, record: Record | None) -> Record:
        self.supervisors.of(key).workload = workload
        if record is None or not (record.process or record.resume_at):
            return await self._start_new(key, workload, record or new_record(key, workload))
        if record.process is not None and kernel.is_running(record.process):
            self._watch(key, record.process)
            return record
        self._starter.check_place(workload)
        if record.process is not None:
            record = await self._note_end(key, home, record, self.supervisors.of(key).reap(record.process))
        if not self._resume_later(key, record):
            record = await self._restart(key, workload, record)
        return record

    async def _run_once(
        self, key: InstanceKey, home: Path, workload: Workload, record: Record | None
    ) -> Record:
        """Runs a program once. Does not keep the workload in memory, so that the program cannot be
        restarted."""
        record = record or structs.replace(new_record(key, workload), once=True)
        if record.process is not None and kernel.is_running(record.process):
            self._watch(key, record.process)
        elif not record.ended_at:
            status = self.supervisors.of(key).reap(record.process) if record.process else None
            record = await self._note_end(key, home, record, status)
            if not record.ended_at:
                record = await self._start_new(key, workload, record)
        return record

    async def _start_new(self, key: InstanceKey, workload: Workload, record: Record) -> Record:
        try:
            return await self._start(key, workload, record)
        except (EngineError, OSError) as error:
            await self._erase(key, self._records.read(key))
            raise readable(error) from error

    async def _restart(self, key: InstanceKey, workload: Workload, record: Record) -> Record:
        """Restarts an instance. A failed start is tried again later, as after the end of a program."""
        try:
            started = await self._start(key, workload, record)
            self.notice(key.service)
            return started
        except (EngineError, OSError) as error:
            now, reason = self._clock.now(), str(readable(error))
            record = structs.replace(self._records.read(key) or record, started_at=now)
            record = self._records.write(key, exit_reason.after_end(record, None, reason, now, self._pauses))
            self._resume_later(key, record)
            return record

    async def _start(self, key: InstanceKey, workload: Workload, record: Record) -> Record:
        record = await self._starter.start(key, workload, record)
        assert record.process is not None
        self._output.follow(key, record)
        self._watch(key, record.process)
        self._records.notify_engines()
        return record

    async def _note_end(self, key: InstanceKey, home: Path, record: Record, status: int | None) -> Record:
        supervisor = self.supervisors.of(key)
        record = structs.replace(record, verdict=supervisor.verdict or record.verdict)
        noted = await self._ends.record(key, home, record, status, is_heard=bool(supervisor.heard))
        supervisor.verdict = ""
        return noted

    # Watching

    def adopt(self, key: InstanceKey) -> None:
        """Watches, restarts or removes an instance according to its record."""
        record = self._records.known(key)
        if record is None:
            return
        if record.removing:
            self._run_until_done(key, lambda: self._finish_removal(key))
        elif record.process is not None:
            self._watch(key, record.process)
        elif (
            record.resume_at and not self._resume_later(key, record) and self.supervisors.of(key).has_workload
        ):
            self._run_until_done(key, lambda: self._resume(key, record.resume_at))

    def finishes_removal(self, key: InstanceKey) -> bool:
        """Removes the instance if the removal of its generation was interrupted. Returns whether it was."""
        if key.generation not in self._records.removed.of(key.service):
            return False
        self._run_until_done(key, lambda: self.remove(key, 0))
        return True

    def _watch(self, key: InstanceKey, process: Process) -> None:
        """Handles the end of a process, including a process that has already ended."""
        supervisor = self.supervisors.of(key)
        if supervisor.process == process:
            return

        def ended() -> None:
            status = self.supervisors.of(key).reap(process)
            self._run_until_done(key, lambda: self._handle_end(key, process, status))

        if not supervisor.watch(process, ended):
            self._run_until_done(key, lambda: self._handle_end(key, process, None))

    async def _handle_end(self, key: InstanceKey, process: Process, status: int | None) -> None:
        await self._wait_for_parent(key, status)
        async with self._records.held(key) as home:
            record = self._records.read(key)
            if home is None or record is None or record.removing:
                return
            if record.process == process:
                await self._note_end(key, home, record, status)
            elif status is not None:
                self._records.write(key, exit_reason.with_reason(record, process, status))
        await self._output.flush(home)
        if not self._closing:
            self.adopt(key)
        self._records.notify_engines()
        self.notice(key.service)

    async def _wait_for_parent(self, key: InstanceKey, status: int | None) -> None:
        record = self._records.read(key)
        if (
            status is None
            and record
            and record.engine != self._starter.own
            and kernel.is_running(record.engine)
        ):
            await asyncio.sleep(_PARENT_AHEAD)

    # Restarting

    def _resume_later(self, key: InstanceKey, record: Record) -> bool:
        """Schedules the next start. Returns False if the start is due now or there is nothing to start."""
        supervisor = self.supervisors.of(key)
        if supervisor.resume is not None:
            return True
        wait = (record.resume_at - self._clock.now()) / 1000
        if not supervisor.has_workload or wait <= 0 or self._closing:
            return False
        supervisor.resume = asyncio.get_running_loop().call_later(
            min(wait, self._pauses.longest),
            lambda: self._run_until_done(key, lambda: self._resume(key, record.resume_at)),
        )
        return True

    async def _resume(self, key: InstanceKey, due_at: int) -> None:
        supervisor = self.supervisors.of(key)
        supervisor.resume = None
        async with self._records.held(key) as home:
            record = self._records.read(key)
            if home is None or record is None or record.removing:
                return
            workload = supervisor.workload
            if workload is None or self._closing:
                return
            if record.resume_at == due_at and record.process is None:
                await self._killer.end(home, record.last, record)
                await self._restart(key, workload, record)
        self.adopt(key)

    # Ending

    async def remove(self, key: InstanceKey, grace: float) -> None:
        async with self._records.held(key) as home:
            if home is None:
                return
            record = self._records.read(key)
            if record is not None:
                record = self._records.write(key, structs.replace(record, removing=True))
                await self._ask(key, home, record, grace)
            await self._erase(key, record)
        self.notice(key.service)

    async def halt(self, key: InstanceKey, grace: float) -> None:
        """Ends the program and keeps the instance with its working copy. Only `run` starts it again."""
        async with self._records.held(key) as home:
            record = self._records.read(key)
            if home is None or record is None:
                return
            self.supervisors.let_go(key)
            await self._ask(key, home, record, grace)
            await self._killer.end(home, record.process, record)
            for port in record.ports.values():
                self._claims.release(port, key)
            cgroups.remove(record.groups)
            self._records.write(key, structs.replace(record, process=None, groups=(), ports={}, resume_at=0))
            await self._output.flush(home)
            self._output.drop(home)
        self.notice(key.service)

    async def _ask(self, key: InstanceKey, home: Path, record: Record, grace: float) -> None:
        """Asks the processes of an instance to end, and waits. The grace period, which the owner of the
        service chooses, ends early if the instance has to end for the sake of others, or the server stops."""
        over = self._graces[key] = asyncio.Event()
        asking = asyncio.create_task(self._killer.ask(home, record, grace))
        ending = asyncio.create_task(over.wait())
        try:
            await asyncio.wait((asking, ending), return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                asking.result()
        finally:
            del self._graces[key]
            asking.cancel()
            ending.cancel()
            await asyncio.gather(asking, ending, return_exceptions=True)

    def _end_grace(self, key: InstanceKey) -> None:
        if over := self._graces.get(key):
            over.set()

    async def end_for(self, key: InstanceKey, process: Process, verdict: str) -> None:
        """Ends the program of an instance, which is restarted afterwards. `verdict` is the readable
        reason."""
        self._end_grace(key)
        async with self._records.held(key) as home:
            record = self._records.read(key)
            if home is not None and record is not None and record.process == process:
                self._records.write(key, structs.replace(record, verdict=verdict))
                await self._killer.end(home, record.process, record)

    async def end_and_empty(self, key: InstanceKey, process: Process | None, verdict: str = "") -> None:
        """Ends the program if it runs, and erases what it has written outside of volumes. The next start
        creates its folders again.

        This works on a full disk, because nothing is written before files are erased.
        """
        self._end_grace(key)
        async with self._records.held(key) as home:
            record = self._records.read(key)
            if home is None or record is None or record.process != process:
                return
            if process is not None:
                self.supervisors.of(key).verdict = verdict
            await self._killer.end(home, process, record)
            await asyncio.to_thread(files.discard, home, self._records.caches / key.service)
            await self._output.free_reserved(home)
            if process is not None and verdict:
                with suppress(OSError):  # the disk is still full
                    self._records.write(key, structs.replace(record, verdict=verdict))

    async def _finish_removal(self, key: InstanceKey) -> None:
        """Completes an interrupted removal. An engine that is still removing the instance holds its lock."""
        async with self._records.held(key) as home:
            record = self._records.read(key)
            if home is None or record is None or not record.removing:
                return
            await self._erase(key, record)
        self.notice(key.service)

    async def _erase(self, key: InstanceKey, record: Record | None) -> None:
        """Erases an instance after reading its last output. The caller must hold the instance's lock."""
        home = self._records.home(key)
        if record is not None:
            await self._killer.end(home, record.process, record)
            for port in record.ports.values():
                self._claims.release(port, key)
            cgroups.remove(record.groups)
        self.supervisors.let_go(key)
        self._output.drop(home)
        aside = self._records.move_to_ended(key)
        self._records.notify_engines()
        await self._output.finish(aside)
