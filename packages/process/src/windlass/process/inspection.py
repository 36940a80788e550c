"""Describes instances in their current state: phase, ports, and how they ended."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from windlass.base import kernel
from windlass.base.isolation.network import NamespaceHolder
from windlass.engines.rollout import kernel_listeners
from windlass.engines.rollout.listeners import ListeningPort
from windlass.engines.workload import Instance, Phase
from windlass.process import exit_reason
from windlass.process.ports import LOOPBACK
from windlass.process.process_table import ProcessCounter, members
from windlass.process.records import InstanceKey, Record, RecordStore, UnknownRecord
from windlass.process.supervisor import Supervisor, Supervisors


class InstanceInspector:
    def __init__(self, records: RecordStore, supervisors: Supervisors, counter: ProcessCounter) -> None:
        self._records, self._supervisors, self._counting = records, supervisors, counter

    async def inspect(self, key: InstanceKey) -> Instance | None:
        """Returns the current state of an instance, including an instance whose record another version wrote.
        None if it does not exist."""
        try:
            record = self._records.read(key)
        except UnknownRecord as error:
            return _unknown_instance(key, str(error))
        return None if record is None else await self.describe(key, record)

    async def describe(self, key: InstanceKey, record: Record) -> Instance | None:
        if kernel.is_running(record.process):
            return as_instance(key, record, Phase.RUNNING, await self._ports(key, record))
        if record.removing:
            return None
        # An instance without variables in memory is not restarted automatically. It needs another call of
        # `run`.
        supervisor = self._supervisors.find(key)
        waits = supervisor is not None and supervisor.has_workload
        return as_instance(key, record, Phase.WAITING if waits else Phase.EXITED, record.ports)

    async def _ports(self, key: InstanceKey, record: Record) -> Mapping[int, int]:
        """Returns the ports of an instance: the assigned ports, and the ports that the program chose itself
        and listens on.

        Leaves out ports on which another program of this machine listens.
        """
        supervisor = self._supervisors.of(key)
        if supervisor.process != record.process:
            return record.ports
        network, heard = network_of(record), supervisor.heard
        hears_all = len(heard) == len(record.ports)
        if hears_all and (network or not heard):
            return heard
        listened = await asyncio.to_thread(kernel_listeners.read_listeners, network)
        if network:  # every listener in this network belongs to the instance
            supervisor.heard = {inner: port for inner, port in record.ports.items() if port in listened}
            return record.ports
        # Another program may listen there by now: as well, or since the instance has closed its socket.
        if hears_all and supervisor.own_sockets == {port: listened.get(port) for port in heard.values()}:
            return heard
        supervisor.heard = await self._own_ports(key, record, supervisor, listened)
        supervisor.own_sockets = {port: listened[port] for port in supervisor.heard.values()}
        given = {inner: port for inner, port in record.ports.items() if port not in listened}
        return {**given, **supervisor.heard}

    async def _own_ports(
        self, key: InstanceKey, record: Record, supervisor: Supervisor, listened: kernel_listeners.Listened
    ) -> dict[int, int]:
        """Returns the ports in the shared network on which only processes of the instance listen.

        Another program that listens on the same port (SO_REUSEPORT) would get some of the connections.
        """
        found = {
            inner: [port for port in (given, inner) if port in listened]
            for inner, given in record.ports.items()
        }
        inodes = {inode for ports in found.values() for port in ports for inode in listened[port]}
        if not inodes - supervisor.foreign:
            return {}
        sockets = await asyncio.to_thread(kernel_listeners.sockets, await self._pids(key, record))
        supervisor.foreign = inodes - sockets
        own = {inner: [port for port in ports if listened[port] <= sockets] for inner, ports in found.items()}
        return {inner: ports[0] for inner, ports in own.items() if ports}

    async def listeners(self, key: InstanceKey) -> Collection[ListeningPort]:
        """Returns the ports on which the processes of an instance listen."""
        record = self._records.read(key)
        if record is None or record.process is None:
            return ()
        return await asyncio.to_thread(kernel_listeners.listeners_of, await self._pids(key, record))

    async def _pids(self, key: InstanceKey, record: Record) -> list[int]:
        table = await self._counting.now()
        owned = members(table, self._records.home(key), record.process, record)
        return [process.stat.pid for process in owned]


def network_of(record: Record) -> str:
    """Returns the identity of the process that holds the instance's network namespace. Empty if the instance
    has no network of its own."""
    if record.cell is None or "network" not in record.cell or record.first is None:
        return ""
    socket_server = NamespaceHolder.read(record.cell["network"]["outer"]).socket_server
    return str(NamespaceHolder(record.first.pid, record.first.start, socket_server))


def as_instance(key: InstanceKey, record: Record, phase: Phase, ports: Mapping[int, int]) -> Instance:
    reason = record.verdict or record.reason  # the verdict is known before the end of the program is recorded
    return Instance(
        id=key.id,
        service=key.service,
        generation=key.generation,
        index=key.index,
        phase=phase,
        address=LOOPBACK,
        ports=ports,
        exit_code=record.exit_code,
        reason=reason,
        is_cut_off=reason in exit_reason.CUT_OFF,
        restarts=record.restarts,
        started_at=record.started_at,
        network=network_of(record),
    )


def _unknown_instance(key: InstanceKey, reason: str) -> Instance:
    return Instance(
        id=key.id,
        service=key.service,
        generation=key.generation,
        index=key.index,
        phase=Phase.EXITED,
        address=LOOPBACK,
        reason=reason,
    )
