"""Runs programs as processes of this machine, without containers.

Small record files below one folder identify the processes (see records.py), but do not contain their
variables. After a restart, Windlass finds and watches running instances again. It can only restart an
instance after `apply` has been called for it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import msgspec

from windlass.base import cgroups, filelock, kernel
from windlass.base.atomic_files import move, write_whole
from windlass.base.clock import Clock
from windlass.base.folder_removal import erase
from windlass.base.isolation import network
from windlass.base.isolation.isolation import Isolation
from windlass.base.isolation.network import CellNetwork, service_address
from windlass.base.kernel import Process
from windlass.base.log import log
from windlass.base.loops import keep_running
from windlass.engines.engine import (
    DiskMeasurement,
    EngineError,
    EngineLimits,
    EngineUnavailable,
    Execution,
    ExecutionRequest,
    Missed,
    Notice,
    Sink,
    ignore_lost_lines,
)
from windlass.engines.rollout import kernel_listeners
from windlass.engines.rollout.engine import RolloutEngine
from windlass.engines.rollout.listeners import ListeningPort
from windlass.engines.workload import (
    Artifact,
    Instance,
    Outcome,
    RoutedAddress,
    ServiceAddress,
    StoredData,
    Usage,
    Workload,
)
from windlass.process import execute, files, memory, ports
from windlass.process.disk_shares import DiskShares
from windlass.process.environment import InstanceEnvironment, with_this_python
from windlass.process.execution import open_execution
from windlass.process.exit_reason import Pauses, as_outcome
from windlass.process.failures import away, is_full, not_erased
from windlass.process.instances import Instances
from windlass.process.orphans import Orphans
from windlass.process.output import MAX_BACKLOG_BYTES
from windlass.process.output_reader import OutputReader
from windlass.process.ports import PortAddresses
from windlass.process.process_table import EXECUTED_BY, ProcessCounter, ProcessTable, members
from windlass.process.records import InstanceKey, RecordStore, UnknownRecord, names, safe
from windlass.process.resource_monitor import ROUND_INTERVAL, ResourceMonitor
from windlass.process.spawn import SpawnRequest
from windlass.process.starting import InstanceStarter

_ADDRESSES_FILE: Final = "whereabouts.json"


def move_out(records: RecordStore, places: PortAddresses, service: str, destination: Path) -> None:
    """Moves the files of a service to `destination`. No process of the service may run."""
    if user := places.known(service):
        destination.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(destination / _ADDRESSES_FILE, msgspec.json.encode(user))
    for own, kept in _folders(records, service, destination):
        move(own, kept)
    places.forget(service)


def move_in(records: RecordStore, places: PortAddresses, service: str, source: Path) -> None:
    file = source / _ADDRESSES_FILE
    if file.exists():
        places.restore(service, msgspec.json.decode(file.read_bytes(), type=dict[int, int]))
        file.unlink()
    (source / f"{_ADDRESSES_FILE}.new").unlink(missing_ok=True)  # left by an interrupted call
    for own, kept in _folders(records, service, source):
        move(kept, own)


def _folders(records: RecordStore, service: str, aside_folder: Path) -> Iterator[tuple[Path, Path]]:
    """Yields pairs of a folder in the engine and its counterpart in `aside_folder`. Volumes come first,
    because they cannot be created again."""
    yield records.volumes / safe(service), aside_folder / "volumes"
    yield records.removed.file(safe(service)), aside_folder / "removed"
    yield records.services / safe(service), aside_folder / "instances"


_log = log("engines.process")
T = TypeVar("T")

_STOP_GRACE_SECONDS: Final = 10.0
_OLDER_INSTANCES: Final = (
    "they share memory: {} of the instances were started before this machine had control groups; restart "
    "their services"
)
_SHARED_MEMORY: Final = (
    "they share memory: without control groups, it is measured only every few seconds; start Windlass with "
    "its systemd unit, by `systemd-run --scope -p Delegate=yes`, or in a container with a cgroup namespace"
)


class ProcessEngine(RolloutEngine):
    name = "process"
    takes: Literal["native", "image"] = "native"

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        *,
        pauses: Pauses | None = None,
        backlog: int = MAX_BACKLOG_BYTES,
        weigh: float = 5.0,
        isolation: Isolation | None = None,
        builds: Path | None = None,
        disk_reserve: int = 0,
        groups: cgroups.Cgroups | None = None,
    ) -> None:
        """Sets up the engine.

        - `folder`: the engine's own folder
        - `backlog`: maximum bytes of output that may wait to be read
        - `weigh`: seconds between two memory measurements if no control group limits the memory
        - `isolation`: None isolates services as far as this machine supports it
        - `builds`: the folder that contains all builds; None if builds may be anywhere
        - `disk_reserve`: bytes of the disk that instances must leave free, at most a twentieth of the disk
        - `groups`: the control groups; the default is the control groups that this machine offers
        """
        super().__init__(clock)
        self.limits = EngineLimits(gpu=0)
        self.identity = ""
        folder = folder.resolve()
        self._records = RecordStore(folder)
        self._claims, self._places = ports.PortClaims(folder), ports.PortAddresses(folder)
        self._groups = groups or cgroups.of_machine(folder)
        self._counting = ProcessCounter(folder)
        self._output = OutputReader(self._records, clock, backlog)
        self._isolation = isolation or Isolation("auto", folder)
        environment = InstanceEnvironment(self._records, self._claims)
        self._builds = builds
        self._shares = DiskShares()
        self._starter = InstanceStarter(
            self._records,
            environment,
            self._groups,
            clock,
            self._isolation,
            self._places,
            builds,
            disk_reserve,
            backlog,
            self._shares,
        )
        self._instances = Instances(
            self._records,
            self._claims,
            self._starter,
            self._output,
            self._counting,
            clock,
            pauses or Pauses(),
        )
        self._orphans = Orphans(self._records, self._counting)
        self._resource_monitor = ResourceMonitor(
            self._records,
            self._instances,
            self._output,
            self._claims,
            self._groups,
            self._counting,
            self._orphans,
            self._starter.networks,
            weigh,
            disk_reserve,
            self._shares,
            self._starter.spawner.start_takes,
        )
        self._prepared = False
        self._round: asyncio.Task[None] | None = None

    async def start(self, notice: Notice, sink: Sink, on_missed_notices: Missed = ignore_lost_lines) -> None:
        await super().start(notice, sink)
        self._instances.open(notice)
        self._output.start(sink)
        try:
            self._prepare()
            await self._resource_monitor.find()
            if self._instances.supervisors.watched():
                await self._starter.spawner.open()
            await asyncio.to_thread(network.close_left_trunks)
        except EngineUnavailable as error:  # `problem` reports this error, and the next round tries again
            _log.error("%s", error)
        self._round = asyncio.create_task(keep_running(self._watch))

    async def stop(self) -> None:
        await super().stop()
        if self._round is not None:
            self._round.cancel()
            await asyncio.wait([self._round])
        await self._instances.close()
        await self._output.stop()

    async def _watch(self) -> None:
        await self._resource_monitor.run(self._prepare)

    async def run(self, workload: Workload, index: int) -> Instance:
        self._prepare()
        return await self._uninterrupted(
            self._instances.run(InstanceKey(workload.service, workload.generation, index), workload)
        )

    async def once(self, workload: Workload, index: int = 0) -> Outcome:
        self._prepare()
        key = InstanceKey(workload.service, workload.generation, index)
        await self._uninterrupted(self._instances.run(key, workload, runs_once=True))
        while True:
            change, record = self._instances.change(workload.service), self._records.read(key)
            if record is None or record.removing:
                raise EngineError(f"{workload.name} was removed while it ran")
            if record.ended_at:
                await self._output.flush(self._records.home(key))
                return as_outcome(record)
            if record.process is None:
                await self._uninterrupted(self._instances.run(key, workload, runs_once=True))
            with suppress(TimeoutError):  # another engine may see the end, and does not set this event
                async with asyncio.timeout(ROUND_INTERVAL):
                    await change.wait()

    def note_disk_use(self, measurement: DiskMeasurement) -> None:
        self._shares.note(measurement)

    async def read_output(self, workload: Workload, index: int = 0) -> bytes | None:
        key = InstanceKey(workload.service, workload.generation, index)
        return await asyncio.to_thread(files.read_output, self._records.home(key))

    async def copies(self, service: str) -> list[Instance]:
        return await self._look_at(self._records.find(service))

    async def all(self) -> list[Instance]:
        return await self._look_at(self._records.find())

    async def end(
        self,
        service: str,
        *,
        generation: int | None = None,
        indexes: Collection[int] | None = None,
        grace: float = _STOP_GRACE_SECONDS,
    ) -> None:
        self._prepare()
        await self._uninterrupted(self._remove(service, generation, indexes, grace))

    async def discard(self, service: str) -> None:
        self._prepare()
        self.forget(service)
        await self._uninterrupted(self._discard(service))

    async def execute(self, instance: Instance, command: Sequence[str], timeout: float) -> tuple[int, str]:
        request, process = self._command_request(instance, command)
        return await execute.execute(self._starter.spawner, request, process, timeout)

    def _command_request(self, instance: Instance, command: Sequence[str]) -> tuple[SpawnRequest, Process]:
        """Returns the request for a command in the control groups of an instance, and the process whose cell
        the command enters."""
        key = InstanceKey(instance.service, instance.generation, instance.index)
        record = self._records.read(key)
        if record is None or record.process is None or not kernel.is_running(record.process):
            raise EngineError(f"{instance.id} does not run: nothing can be executed in it")
        home = self._records.home(key)
        environment = self._starter.environment(
            key, record, record.process, self._instances.supervisors.of(key).workload
        )
        own = {EXECUTED_BY: _name(self._starter.own)}
        environment = own | environment | own
        workdir = files.working_directory(home, record.workdir)
        shown = record.cell["readable"] if record.cell else ["/"]
        if not any(Path(command[0]).is_relative_to(folder) for folder in shown):
            command = with_this_python(command)
        request = SpawnRequest(command, workdir, environment, home / "output", record.cell, record.groups)
        first = record.first if kernel.is_running(record.first) else None
        return request, first or record.process

    async def open_execution(self, instance: Instance, request: ExecutionRequest) -> Execution:
        spawn, process = self._command_request(instance, request.command)
        return await open_execution(self._starter.spawner, spawn, process, request.terminal)

    async def listeners(self, instance: Instance) -> Collection[ListeningPort]:
        key = InstanceKey(instance.service, instance.generation, instance.index)
        return await self._instances.inspector.listeners(key)

    async def queued(self, instance: Instance, port: int) -> int | None:
        return await asyncio.to_thread(
            kernel_listeners.queued, instance.ports.get(port, port), instance.network
        )

    async def export(self, artifact: Artifact, folder: str, destination: Path) -> Path:
        """Returns the folder in the build without copying it, because builds are on this machine."""
        files.check_place(artifact, self._builds)
        return await asyncio.to_thread(files.built_folder, artifact, folder)

    async def neighbour_address(
        self, environment: str, service: str, name: str, internal: int
    ) -> ServiceAddress:
        self._prepare()
        if not await self._starter.networks.is_offered():
            await self._places.learn(service, internal)
            return ServiceAddress(ports.LOOPBACK, self._places.of(service, internal))
        await self._places.learn(service)
        return ServiceAddress(service_address(self._places.number_of(service)), internal)

    async def routed_addresses(self, workload: Workload, internal: int) -> Sequence[RoutedAddress]:
        self._prepare()
        networks, service = self._starter.networks, workload.service
        if not await networks.is_offered():
            await self._places.learn(service, internal)
            return (RoutedAddress(ports.LOOPBACK, self._places.of(service, internal)),)
        routed: list[RoutedAddress] = []
        if not workload.direct:
            await self._places.learn(service)
            address = service_address(self._places.number_of(service))
            routed.append(
                RoutedAddress(address, internal, await networks.hub(workload.environment, workload.org))
            )
        return routed

    @property
    def measures_memory(self) -> bool:
        return self._resource_monitor.measures_memory

    @property
    def server_folder(self) -> str:
        return str(self._starter.server_folder)

    async def shared_network(self) -> str:
        return await asyncio.to_thread(self._isolation.why_shared_network)

    async def why_one_organization(self) -> str:
        if why := await asyncio.to_thread(self._isolation.why_one_organization):
            return why
        if "memory" not in self._groups.offered():
            return _SHARED_MEMORY
        older = await self._resource_monitor.unlimited()
        return _OLDER_INSTANCES.format(len(older)) if older else ""

    async def network_of_steps(self, org: str, environment: str) -> CellNetwork | None:
        """Returns the network of a build step. The step cannot reach other steps or instances."""
        self._prepare()
        return await self._starter.networks.of_step(org, environment)

    async def usage(self) -> Mapping[str, Usage]:
        return await asyncio.to_thread(self._usage, await self._counting.now())

    def _usage(self, table: ProcessTable) -> Mapping[str, Usage]:
        return {
            key.id: memory.usage(record, members(table, self._records.home(key), record.process, record))
            for key in self._records.find()
            if (record := self._records.known(key)) and table.contains(record.process)
        }

    async def services(self) -> Mapping[str, StoredData]:
        stored = {*names(self._records.services), *names(self._records.volumes)}
        noted = self._places.services() | self._records.removed.services()
        return {
            **{service: self._stored_data(service) for service in sorted(noted - stored)},
            **self._orphans.lost(await self._counting.now()),
            **{service: self._stored_data(service) for service in sorted(stored)},
        }

    async def sweep(self, deleted_services: Collection[str]) -> None:
        self._prepare()
        folders = (self._records.services, self._records.volumes, self._records.caches)
        services = {name for folder in folders for name in names(folder)} | self._places.services()
        for service in sorted(services & set(deleted_services)):
            with suppress(UnknownRecord):  # logged already; the other services are erased
                await self.discard(service)
        await self._orphans.end(await self._counting.now())
        self._claims.tidy()
        self._records.removed.forget(deleted_services)
        await self._resource_monitor.tidy_networks()
        await self._output.finish_all()

    async def set_aside(self, service: str, destination: Path) -> None:
        self._records.prepare()
        await self._uninterrupted(self._set_aside(service, destination))

    async def put_back(self, service: str, source: Path) -> None:
        self._records.prepare()
        await asyncio.to_thread(move_in, self._records, self._places, service, source)
        self._records.notify_engines()

    async def problem(self) -> str:
        try:
            self._prepare()
        except EngineUnavailable as error:
            return str(error)
        if not os.access(self._records.folder, os.W_OK | os.X_OK):
            return "Give the folder of the process engine to the user of Windlass: it cannot be written to"
        return ""

    def _prepare(self) -> None:
        if self._prepared:
            return
        if not kernel.can_identify_processes():
            raise EngineUnavailable(
                "Use the docker engine: the process engine needs Linux 5.4 or later, with /proc"
            )
        try:
            self._records.prepare()
            self._claims.prepare()
        except OSError as error:
            raise away(error) from error
        self._groups.prepare()
        self._prepared = True

    async def _uninterrupted(self, work: Coroutine[Any, Any, T]) -> T:
        """Completes the work even if the caller is cancelled."""
        try:
            return await asyncio.shield(self._instances.go(work))
        except filelock.LockTimeout as error:
            raise EngineUnavailable(str(error)) from error
        except OSError as error:
            raise away(error) from error

    async def _look_at(self, keys: Sequence[InstanceKey]) -> list[Instance]:
        instances = [await self._instances.inspector.inspect(key) for key in keys]
        return [instance for instance in instances if instance is not None]

    async def _remove(
        self, service: str, generation: int | None, indexes: Collection[int] | None, grace: float
    ) -> None:
        try:
            await self._note_and_remove(service, generation, indexes, grace)
        except OSError as error:
            if not is_full(error):
                raise
            # Erasing the files of instances frees space for the records of their removal.
            for key in self._find(service, generation, indexes):
                if record := self._records.read(key):
                    await self._instances.end_and_empty(key, record.process)
            await self._note_and_remove(service, generation, indexes, grace)

    async def _note_and_remove(
        self, service: str, generation: int | None, indexes: Collection[int] | None, grace: float
    ) -> None:
        if indexes is None:
            # Recorded before the search. A later call that starts an instance reads the record, and the
            # search finds instances of earlier calls.
            generations = {key.generation for key in self._records.find(service)}
            self._records.removed.note(safe(service), generations if generation is None else [generation])
        meant = self._find(service, generation, indexes)
        results = await asyncio.gather(
            *(self._instances.remove(key, grace) for key in meant), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _find(
        self, service: str, generation: int | None, indexes: Collection[int] | None
    ) -> list[InstanceKey]:
        return [
            key
            for key in self._records.find(service)
            if generation in (None, key.generation) and (indexes is None or key.index in indexes)
        ]

    async def _discard(self, service: str) -> None:
        await self._remove(service, None, None, _STOP_GRACE_SECONDS)
        try:
            await asyncio.to_thread(erase, self._records.volumes / service)
            await asyncio.to_thread(erase, self._records.caches / service)
        except OSError as error:
            raise not_erased(error) from error
        if service in await asyncio.to_thread(self._places.services):
            await self._starter.networks.forget(service_address(self._places.number_of(service)))
        self._places.forget(service)

    async def _set_aside(self, service: str, destination: Path) -> None:
        await asyncio.gather(
            *(self._instances.halt(key, _STOP_GRACE_SECONDS) for key in self._records.find(service))
        )
        await asyncio.to_thread(move_out, self._records, self._places, service, destination)
        await asyncio.to_thread(erase, self._records.caches / service)
        self._records.notify_engines()

    def _stored_data(self, service: str) -> StoredData:
        keys = self._records.find(service)
        records = [record for key in keys if (record := self._records.known(key))]
        # The name of a pod consists of the service's name, the generation and the index.
        name = records[-1].pod.rsplit("-", 2)[0] if records else ""
        return StoredData(name=name, instances=len(keys), volumes=len(names(self._records.volumes / service)))


def _name(process: Process) -> str:
    return f"{process.pid}.{process.start}.{process.boot}"
