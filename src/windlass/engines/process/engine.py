"""Runs programs as child processes of this machine, with nothing but Python and without containers.

`unenforced` lists the limits that cannot be enforced this way. Everything that another Windlass needs to find
the processes is in small files below one folder (records.py); the variables are not, so after a restart an
instance is found and watched, but can be restarted only once `apply` has been called for it again.
"""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from windlass.base.clock import Clock
from windlass.base.erasing import erase
from windlass.base.isolation.isolation import Isolation
from windlass.base.log import log
from windlass.core.deploy.workload import (
    Artifact,
    Instance,
    Outcome,
    ServiceAddress,
    StoredData,
    Usage,
    Workload,
)
from windlass.engines.by_hand.engine import EngineByHand
from windlass.engines.engine import EngineAway, EngineError, Notice, Sink
from windlass.engines.process import cgroups, files, kernel, ports
from windlass.engines.process import execute as beside
from windlass.engines.process import exit_reason as fate
from windlass.engines.process import memory as weight
from windlass.engines.process.environment import InstanceEnvironment, by_this_python
from windlass.engines.process.exit_reason import Pauses
from windlass.engines.process.instances import Instances
from windlass.engines.process.kernel import Process
from windlass.engines.process.kill import end_these
from windlass.engines.process.output import BACKLOG
from windlass.engines.process.output_reader import OutputReader
from windlass.engines.process.process_table import EXECUTED_BY, Counting, OwnedProcess, ProcessTable, members
from windlass.engines.process.records import InstanceKey, Record, RecordStore, UnknownRecord, names, safe
from windlass.engines.process.set_aside import move_in, move_out
from windlass.engines.process.spawn import Birth

_log = log("engines.process")
T = TypeVar("T")

_TOUR: Final = 1.0
"""Between two looks at what other engines over the same folder have done, in seconds."""
_GRACE: Final = 10.0


class ProcessEngine(EngineByHand):
    name = "process"
    takes: Literal["native", "image"] = "native"

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        *,
        pauses: Pauses | None = None,
        backlog: int = BACKLOG,
        weigh: float = 5.0,
        isolation: Isolation | None = None,
    ) -> None:
        """`folder` is the engine's own. `backlog`: bytes of output that may wait to be read. `weigh`: seconds
        between two looks at the memory of what no cgroup holds back. `isolation`: how services are kept
        apart; as far as this machine allows, unless it is given."""
        super().__init__(clock)
        folder = folder.resolve()
        self._shelf = RecordStore(folder)
        self._claims, self._places = ports.PortClaims(folder), ports.PortAddresses(folder)
        self._groups = cgroups.Cgroups(cgroups.find(), folder)
        self._counting = Counting(folder)
        self._keeper = OutputReader(self._shelf, clock, backlog)
        self._lives = Instances(
            self._shelf,
            self._claims,
            InstanceEnvironment(self._shelf, self._claims, self._places),
            self._groups,
            self._keeper,
            self._counting,
            clock,
            pauses or Pauses(),
            isolation or Isolation("auto", folder),
        )
        self._weigh_every = weigh
        self._prepared = False
        self._found = False
        self._heard = -1
        self._tour: asyncio.Task[None] | None = None

    async def start(self, notice: Notice, sink: Sink) -> None:
        await super().start(notice, sink)
        self._lives.open(notice)
        self._keeper.start(sink)
        try:
            await self._find()
        except EngineAway as error:  # `trouble` says so, and the tour tries again
            _log.error("%s", error)
        self._tour = asyncio.create_task(self._look_round())

    async def stop(self) -> None:
        await super().stop()
        if self._tour is not None:
            self._tour.cancel()
            await asyncio.wait([self._tour])
        await self._lives.close()
        await self._keeper.stop()

    async def run(self, wanted: Workload, index: int) -> Instance:
        self._prepare()
        return await self._whole(
            self._lives.run(InstanceKey(wanted.service, wanted.generation, index), wanted)
        )

    async def once(self, wanted: Workload, index: int = 0) -> Outcome:
        self._prepare()
        key = InstanceKey(wanted.service, wanted.generation, index)
        await self._whole(self._lives.run(key, wanted, once=True))
        while True:
            change, record = self._lives.change(wanted.service), self._shelf.read(key)
            if record is None or record.removing:
                raise EngineError(f"{wanted.name} was removed while it ran")
            if record.ended_at:
                await self._keeper.flush(self._shelf.home(key))
                return _ended(record)
            if record.process is None:
                await self._whole(self._lives.run(key, wanted, once=True))
            with suppress(TimeoutError):  # another engine may see the end, and tells only its own
                async with asyncio.timeout(_TOUR):
                    await change.wait()

    async def copies(self, service: str) -> list[Instance]:
        return await self._seen(self._shelf.find(service))

    async def all(self) -> list[Instance]:
        return await self._seen(self._shelf.find())

    async def end(
        self,
        service: str,
        *,
        generation: int | None = None,
        indexes: Collection[int] | None = None,
        grace: float = _GRACE,
    ) -> None:
        self._prepare()
        await self._whole(self._remove(service, generation, indexes, grace))

    async def discard(self, service: str) -> None:
        self._prepare()
        self.forget(service)
        await self._whole(self._discard(service))

    async def execute(self, instance: Instance, command: Sequence[str], timeout: float) -> tuple[int, str]:
        key = InstanceKey(instance.service, instance.generation, instance.index)
        record = self._shelf.read(key)
        if record is None or record.process is None or not kernel.lives(record.process):
            raise EngineError(f"{instance.id} does not run: nothing can be executed in it")
        home = self._shelf.home(key)
        environment = self._lives.environment(key, record, record.process)
        environment[EXECUTED_BY] = _name(self._lives.own)
        folder = files.working_directory(home, record.workdir)
        shown = record.cell["readable"] if record.cell else ["/"]
        if not any(Path(command[0]).is_relative_to(each) for each in shown):
            command = by_this_python(command)
        what = Birth(command, folder, environment, home / "output", record.cell)
        first = record.first if kernel.lives(record.first) else None
        return await beside.execute(self._lives.nursery, what, first or record.process, timeout)

    async def prepare(self, artifact: Artifact, say: Callable[[str], None]) -> None:
        """Does nothing: what a builder made is on this machine."""

    async def neighbour_address(
        self, environment: str, service: str, name: str, internal: int
    ) -> ServiceAddress:
        self._prepare()
        return ServiceAddress(ports.HOST, self._places.of(service, internal), is_routed=True)

    async def usage(self) -> Mapping[str, Usage]:
        census = await self._counting.now()
        return {
            key.id: weight.usage(record, members(census, self._shelf.home(key), record.process, record))
            for key in self._shelf.find()
            if (record := self._shelf.known(key)) and kernel.lives(record.process)
        }

    async def services(self) -> Mapping[str, StoredData]:
        there = {*names(self._shelf.services), *names(self._shelf.volumes), *self._places.services()}
        there |= self._shelf.removed.services()
        return {
            **self._lost(await self._counting.now()),
            **{service: self._kept(service) for service in sorted(there)},
        }

    async def sweep(self, erase: Collection[str]) -> None:
        self._prepare()
        folders = (self._shelf.services, self._shelf.volumes, self._shelf.caches)
        known = {name for folder in folders for name in names(folder)} | self._places.services()
        for service in sorted(known & set(erase)):
            with suppress(UnknownRecord):  # the log says so, and others are erased all the same
                await self.discard(service)
        await self._end_strays(await self._counting.now())
        self._claims.tidy()
        self._shelf.removed.forget(erase)
        await self._keeper.finish_all()

    async def set_aside(self, service: str, into: Path) -> None:
        self._shelf.prepare()
        await self._whole(self._set_aside(service, into))

    async def put_back(self, service: str, out: Path) -> None:
        self._shelf.prepare()
        await asyncio.to_thread(move_in, self._shelf, self._places, service, out)
        self._shelf.ring()

    async def trouble(self) -> str:
        try:
            self._prepare()
        except EngineAway as error:
            return str(error)
        if not os.access(self._shelf.folder, os.W_OK | os.X_OK):
            return "the folder of the process engine cannot be written to: give it to the user of Windlass"
        return ""

    @property
    def unenforced(self) -> tuple[str, ...]:
        """Returns the limits that this machine cannot enforce, for people."""
        found = ["the size of volumes is not limited"]
        if "cpu" not in self._groups.controllers:
            found.append("CPU is not limited: that needs a delegated control group (cgroup v2)")
        if "memory" not in self._groups.controllers:
            found.append("memory is looked at every few seconds, and who uses too much is ended")
        return tuple(found)

    def _prepare(self) -> None:
        if self._prepared:
            return
        if not kernel.suits():
            raise EngineAway("the process engine needs Linux 5.4 or later, with /proc: use the docker engine")
        try:
            self._shelf.prepare()
            self._claims.prepare()
        except OSError as error:
            raise _away(error) from error
        self._groups.prepare()
        self._prepared = True

    async def _find(self) -> None:
        """Watches running instances from now on, and ends those that must not run."""
        self._prepare()
        census = await self._counting.now()
        self._heard = self._shelf.heard()
        keys = self._shelf.find()
        self._keeper.agree(keys)
        for key in keys:
            if not self._lives.forsaken(key):
                self._lives.adopt(key)
        await self._end_strays(census)
        self._claims.tidy()
        self._lives.go(self._keeper.finish_all())
        self._found = True

    async def _whole(self, deed: Coroutine[Any, Any, T]) -> T:
        """Completes a task even if its caller is cancelled."""
        try:
            return await asyncio.shield(self._lives.go(deed))
        except OSError as error:
            raise _away(error) from error

    async def _seen(self, keys: Sequence[InstanceKey]) -> list[Instance]:
        found = [await self._lives.look(key) for key in keys]
        return [instance for instance in found if instance is not None]

    async def _remove(
        self, service: str, generation: int | None, indexes: Collection[int] | None, grace: float
    ) -> None:
        if indexes is None:
            # Written down first: who comes later with a call for one of these reads it, and who came earlier
            # is among the instances that are looked for next.
            there = {key.generation for key in self._shelf.find(service)}
            self._shelf.removed.note(safe(service), there if generation is None else [generation])
        meant = [
            key
            for key in self._shelf.find(service)
            if generation in (None, key.generation) and (indexes is None or key.index in indexes)
        ]
        done = await asyncio.gather(
            *(self._lives.remove(key, grace) for key in meant), return_exceptions=True
        )
        for each in done:
            if isinstance(each, BaseException):
                raise each

    async def _discard(self, service: str) -> None:
        await self._remove(service, None, None, _GRACE)
        try:
            await asyncio.to_thread(erase, self._shelf.volumes / service)
            await asyncio.to_thread(erase, self._shelf.caches / service)
        except OSError as error:
            raise _not_erased(error) from error
        self._places.forget(service)

    async def _set_aside(self, service: str, into: Path) -> None:
        await asyncio.gather(*(self._lives.halt(key, _GRACE) for key in self._shelf.find(service)))
        await asyncio.to_thread(move_out, self._shelf, self._places, service, into)
        await asyncio.to_thread(erase, self._shelf.caches / service)
        self._shelf.ring()

    def _kept(self, service: str) -> StoredData:
        keys = self._shelf.find(service)
        records = [record for key in keys if (record := self._shelf.known(key))]
        # A pod is called after its service, generation and index.
        name = records[-1].pod.rsplit("-", 2)[0] if records else ""
        return StoredData(name=name, instances=len(keys), volumes=len(names(self._shelf.volumes / service)))

    def _lost(self, census: ProcessTable) -> dict[str, StoredData]:
        """Services that run although their folder is gone. A program of a service that is there does not pass
        for one of another."""
        marked = [(Path(each.home), each) for each in census.by_pid.values() if each.home]
        lost = [
            (home, each)
            for home, each in marked
            if home.parent.parent == self._shelf.services and not home.exists()
        ]
        if not lost:
            return {}
        records = [record for key in self._shelf.find() if (record := self._shelf.read(key))]
        spaces = {record.space for record in records} - {0}
        users = {
            record.cell["uid"] for record in records if record.cell and record.cell["identity"] == "user"
        }
        return {
            home.parent.name: StoredData(instances=1, is_lost=True)
            for home, each in lost
            if each.space not in spaces and kernel.user(each.stat.pid) not in users
        }

    async def _end_strays(self, census: ProcessTable) -> None:
        """Processes whose instance is gone, and commands whose Windlass is."""
        await end_these([each.stat for each in census.by_pid.values() if each.home and _stray(each)])

    async def _look_round(self) -> None:
        weighed = time.monotonic()
        while True:
            await asyncio.sleep(_TOUR)
            try:
                await self._look_at_others()
                if time.monotonic() - weighed >= self._weigh_every:
                    weighed = time.monotonic()
                    await self._weigh()
            except Exception:  # noqa: BLE001 (it goes on, whatever one look meets)
                _log.exception("A look at the instances failed; the next one follows")

    async def _look_at_others(self) -> None:
        """Several engines may stand over one folder: what another one does is followed here, too."""
        if not self._found:
            await self._find()
        heard, kept = self._shelf.heard(), self._keeper.holds
        if heard == self._heard and self._keeper.keeps() == kept:
            return
        self._heard = heard
        keys = self._shelf.find()
        self._keeper.agree(keys)
        for service in self._lives.agree(keys):
            self._lives.notice(service)
        await self._keeper.finish_all()

    async def _weigh(self) -> None:
        """Ends who uses more memory than was asked for, where no cgroup does."""
        keys = self._lives.watched()
        if not keys or "memory" in self._groups.controllers or not self._keeper.keeps():
            return
        census = await self._counting.now()
        for key in keys:
            record = self._shelf.known(key)
            if record is None or record.process is None:
                continue
            found = members(census, self._shelf.home(key), record.process, record)
            if weight.looks_heavy(record, found) and await asyncio.to_thread(weight.is_heavy, record, found):
                self._lives.go(self._lives.end_for(key, record.process, fate.too_much(record.memory)))


def _ended(record: Record) -> Outcome:
    return Outcome(
        exit_code=record.exit_code,
        reason=record.reason,
        started_at=record.started_at,
        ended_at=record.ended_at,
    )


def _name(process: Process) -> str:
    return f"{process.pid}.{process.start}.{process.boot}"


def _stray(each: OwnedProcess) -> bool:
    if not each.executed_by:
        return not Path(each.home).exists()
    # A command beside the program is of no use once the Windlass that waits for it is gone.
    pid, start, boot = each.executed_by.split(".", 2)
    return not kernel.lives(Process(int(pid), int(start), boot))


_FOR_GOOD: Final = frozenset({errno.EPERM, errno.EACCES, errno.EROFS, errno.ENOTEMPTY, errno.EBUSY})
"""Errors of an erasure that waiting does not fix."""


def _not_erased(error: OSError) -> EngineError:
    if error.errno in _FOR_GOOD:
        return EngineError(
            f"Ask the operator to look: a file of the service cannot be erased ({error.strerror})"
        )
    return _away(error)


def _away(error: OSError) -> EngineAway:
    return EngineAway(f"the folder of the process engine cannot be used: {error.strerror or error}")
