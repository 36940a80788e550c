"""Starts the program of an instance: prepares its working copy, ports, variables, cell (sandbox) and control
groups."""

from __future__ import annotations

import asyncio
import os
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import structs

from windlass.base import cgroups, kernel
from windlass.base.clock import Clock
from windlass.base.disk_reserve import has_room_to_start, is_short, least_to_start
from windlass.base.isolation.cell import Cell
from windlass.base.isolation.isolation import Isolation, programs
from windlass.base.isolation.network import CellNetwork, service_address
from windlass.base.kernel import Process
from windlass.base.marks import mark_of
from windlass.engines import unread_output
from windlass.engines.engine import ArtifactLost, EngineError
from windlass.engines.workload import Workload
from windlass.launch.launch_variables import LISTEN_VARIABLE
from windlass.process import files, run_recorder
from windlass.process.disk_shares import SHORTAGE_FACTOR, DiskShares
from windlass.process.environment import InstanceEnvironment, command
from windlass.process.failures import above_share, disk_is_full
from windlass.process.networks import Networks
from windlass.process.output import MAX_BACKLOG_BYTES
from windlass.process.ports import PortAddresses
from windlass.process.records import InstanceKey, Record, RecordStore
from windlass.process.spawn import SpawnedProcess, Spawner, SpawnRequest
from windlass.process.tree_copy import CopyContent, copy_content

_MAX_CPU: Final = (os.cpu_count() or 1) * 1000
"""All processors of the machine, in thousandths of a processor."""
ALL_ADDRESSES: Final = "0.0.0.0"  # noqa: S104 (in a network of its own)


class InstanceStarter:
    """Starts programs. The caller must hold the instance's lock, and no process of the instance may be
    alive."""

    def __init__(
        self,
        records: RecordStore,
        environment: InstanceEnvironment,
        groups: cgroups.Cgroups,
        clock: Clock,
        isolation: Isolation,
        places: PortAddresses,
        builds: Path | None = None,
        disk_reserve: int = 0,
        backlog: int = MAX_BACKLOG_BYTES,
        shares: DiskShares | None = None,
    ) -> None:
        """`builds` is the folder that contains all artifacts; None if they may be anywhere. `disk_reserve` is
        the number of bytes that instances must leave free. `backlog` is the maximum of unread output in
        bytes."""
        self._after = (unread_output.__name__, str(records.folder), str(backlog))
        self._disk_reserve, self._shares = disk_reserve, shares or DiskShares()
        self._builds = builds
        self._records, self._environment, self._groups = records, environment, groups
        self._clock, self._isolation, self._places = clock, isolation, places
        self._grouping = asyncio.Lock()
        """Held while the control groups of an instance are created, because the service's limit depends on
        all instances."""
        self.spawner = Spawner(self._after)
        self.networks = Networks(records.folder, isolation, lambda: self.spawner)
        self.own = kernel.current_process()
        self.server_folder = records.folder / "servers"

    def reopen(self) -> None:
        self.spawner = Spawner(self._after)

    async def close(self) -> None:
        await asyncio.to_thread(self.spawner.close)
        self.networks.close()

    def environment(
        self, key: InstanceKey, record: Record, process: Process, workload: Workload | None
    ) -> dict[str, str]:
        """Returns the variables of a running instance. The kernel provides the variables of an instance that
        an earlier Windlass started."""
        if workload is not None:
            return self._environment.environment(key, workload, record.ports)
        variables = kernel.environment(process.pid)
        return {os.fsdecode(name): os.fsdecode(value) for name, value in variables.items()}

    def check_place(self, workload: Workload) -> None:
        """Raises ArtifactLost if the workload's artifact is outside of the folder of builds, or its Python is
        gone. Raises VolumeLost first if a volume is missing, because a new build does not help without the
        volume."""
        try:
            files.check_place(workload.artifact, self._builds)
            files.check_python(workload.artifact)
        except ArtifactLost:
            files.check_volumes(self._records.volumes, workload)
            raise

    async def start(self, key: InstanceKey, workload: Workload, record: Record) -> Record:
        self.check_place(workload)
        self._check_room(workload)
        files.check_volumes(self._records.volumes, workload)
        home = self._records.home(key)
        network = await self._network(key, workload, record)
        ports = self._environment.ports(key, workload, record, has_network=network is not None)
        record = structs.replace(record, ports=ports, memory=workload.memory)
        self._records.write(key, record)
        if not (record.made and (home / "app").exists()):
            # The CPU limit applies to the program, not to the copy of its files.
            groups = await self._group(key, workload, _MAX_CPU)
            record = self._records.write(key, structs.replace(record, groups=groups))
            await asyncio.to_thread(self._make, key, workload, groups)
            record = structs.replace(record, made_at=self._clock.now())
        if record.once:
            # Another server may hold the lock of the user list.
            owner = await asyncio.to_thread(self._isolation.owner, key.service)
            files.make_once(home, owner)
        request = await self._spawn_request(key, home, workload, record, network)
        return await self._spawn(key, workload, request, structs.replace(record, made=True))

    def _check_room(self, workload: Workload) -> None:
        """Raises EngineUnavailable if the disk is full except for the last part of its reserve.

        For a service with volumes whose organization exceeds its share, raises it as soon as the disk is near
        its reserve.
        """
        folder = self._records.folder
        if not has_room_to_start(folder, self._disk_reserve):
            raise disk_is_full()
        is_held_back = bool(workload.volumes) and workload.org in self._shares.above
        if is_held_back and is_short(folder, self._disk_reserve, SHORTAGE_FACTOR):
            raise above_share()

    async def _network(self, key: InstanceKey, workload: Workload, record: Record) -> CellNetwork | None:
        """Returns the network of an instance, or None for the network of the machine.

        Two kinds of instances use the machine's network: an instance that an earlier version started there,
        because other services have its ports, and a run that calls the server if its own network could not
        reach public addresses.
        """
        began_without = record.cell is not None and "network" not in record.cell
        if began_without or not await self.networks.is_offered():
            return None
        if workload.calls_server and not self.networks.has_egress:
            return None
        await self._places.learn(key.service)
        address = service_address(self._places.number_of(key.service))
        own = address if workload.direct else ""
        network = await self.networks.of_instance(workload.environment, workload.org, own)
        if workload.known_as and not record.once:
            await self.networks.introduce(workload.environment, workload.known_as, address)
        return network

    async def _spawn_request(
        self, key: InstanceKey, home: Path, workload: Workload, record: Record, network: CellNetwork | None
    ) -> SpawnRequest:
        folder = files.working_directory(home, record.workdir)
        if not folder.is_dir():
            raise EngineError(f"the application has no folder {record.workdir} to work in")
        environment = self._environment.environment(key, workload, record.ports)
        if network is not None and workload.direct:
            environment[LISTEN_VARIABLE] = ALL_ADDRESSES
        cell = await asyncio.to_thread(self.cell, key, workload, network, record.once)
        program = command(workload)
        if record.once:
            program = tuple(run_recorder.recording_command(program, home / files.RECORDER_FOLDER))
        return SpawnRequest(program, folder, environment, home / "output", cell)

    def _make(self, key: InstanceKey, workload: Workload, groups: tuple[str, ...]) -> None:
        home, cache = self._records.home(key), self._records.caches / key.service
        least_free = least_to_start(self._records.folder, self._disk_reserve)
        copies: CopyContent = partial(copy_content, least_free=least_free)
        if groups:
            copies = partial(self.spawner.copy_content, groups, least_free)
        files.make(home, workload, self._records.volumes, cache, self._isolation.owner(key.service), copies)

    def cell(
        self, key: InstanceKey, workload: Workload, network: CellNetwork | None, runs_once: bool = False
    ) -> Cell | None:
        """Returns the cell of an instance. It can read its build and the operator's programs. Paths in its
        command or variables are not made readable, because they could be any folder of the machine."""
        path = programs(workload.artifact.environment.get("PATH", ""), self._isolation.folders)
        home, cache = self._records.home(key), self._records.caches / key.service
        return self._isolation.cell(
            key.service,
            readable=(
                *files.built_folders(Path(workload.artifact.ref)),
                *path,
                *([self.server_folder] if workload.calls_server else ()),
            ),
            writable=files.writable(home, workload, self._records.volumes, cache, runs_once=runs_once),
            temporary=home / "tmp",
            mark=mark_of(home),
            shared_memory=workload.memory << 20,
            network=network,
        )

    async def _spawn(
        self, key: InstanceKey, workload: Workload, request: SpawnRequest, record: Record
    ) -> Record:
        record = structs.replace(
            record,
            engine=self.own,
            restarts=record.restarts + bool(record.started_at),
            resume_at=0,
        )
        groups = await self._group(key, workload, workload.cpu)
        record = structs.replace(record, cell=request.cell, groups=groups)

        started = record

        def note(spawned: SpawnedProcess) -> None:
            nonlocal started
            # The time to settle begins here, because the preparation may take long on a busy machine.
            started = structs.replace(
                record,
                started_at=self._clock.now(),
                process=spawned.process,
                first=spawned.first,
                space=spawned.space,
            )
            self._records.write(key, started)

        loop, request = asyncio.get_running_loop(), structs.replace(request, groups=groups)
        await loop.run_in_executor(self.spawner.thread, self.spawner.start, request, note)
        return started

    async def _group(self, key: InstanceKey, workload: Workload, cpu: int) -> tuple[str, ...]:
        async with self._grouping:
            return await asyncio.to_thread(self._make_groups, key, workload, cpu)

    def _make_groups(self, key: InstanceKey, workload: Workload, cpu: int) -> tuple[str, ...]:
        records = map(self._records.known, self._records.find(key.service))
        together = sum(record.memory for record in records if record)
        return self._groups.make(key.service, key.id, cpu, workload.memory, max(together, workload.memory))


def new_record(key: InstanceKey, workload: Workload) -> Record:
    return Record(
        service=key.service,
        pod=f"{workload.name}-{key.generation}-{key.index}",
        deployment=workload.deployment,
        org=workload.org,
        environment=workload.environment,
        workdir=workload.artifact.workdir,
        memory=workload.memory,
    )


def readable(error: EngineError | OSError) -> EngineError:
    """Returns the error of a failed start with a readable message."""
    if isinstance(error, EngineError):
        return error
    return EngineError(f"it cannot be started on this machine: {error.strerror or error}")
