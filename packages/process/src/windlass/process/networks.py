"""Manages the networks of instances (base/isolation/network.py). A hub connects the instances of one
environment. The trunk connects all hubs with the network of the machine.

A sleeping process, the holder, keeps each network namespace open. A small file contains its process id, so
that another engine on the same folder finds it, including after a restart. A hub ends some time after its
last instance or build step has ended, and immediately if no engine is running.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import structs

from windlass.base import filelock, kernel
from windlass.base.atomic_files import write_whole
from windlass.base.cleanup import on_failure
from windlass.base.isolation import network
from windlass.base.isolation.cell import Cell
from windlass.base.isolation.isolation import Isolation
from windlass.base.isolation.namespace_holder import SERVERS_LOCK, is_used
from windlass.base.isolation.network import LOOPBACK, CellNetwork, NamespaceHolder
from windlass.base.isolation.pasta import find_pasta
from windlass.base.kernel import Process
from windlass.base.log import log
from windlass.engines.engine import EngineUnavailable
from windlass.process.records import names, safe
from windlass.process.spawn import SpawnedProcess, Spawner, SpawnRequest

_log = log("engines.process")
T = TypeVar("T")

_TRUNK_NAME, _EXIT_NAME = "trunk", "exit"
_SOCKET_SERVER: Final = "maker"
"""The name of the socket of the trunk's socket server."""
_HUB, _HOSTS = network.HUB_SUFFIX, ".hosts"
_STEPS_PREFIX: Final = "steps"
"""Prefix of the name of a hub for build steps."""
_UNUSED_HUB_SECONDS: Final = 600.0
"""Seconds after its last use when an unused hub ends. In this time, the first instance or build step of its
environment can connect to it."""
_LOCK_TIMEOUT: Final = 10.0
"""Seconds to wait while another engine creates a network."""
_LOCALHOST_LINES: Final = ("127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback")
_HOST_NAME_PATTERN: Final = re.compile(r"(?!localhost\Z|ip6-)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
"""Valid names of services in the hosts file. A name with a dot could be the name of a public server."""
_MACHINE_NAME_PATTERN: Final = re.compile(r"(?!localhost\Z|ip6-)[A-Za-z0-9][A-Za-z0-9.-]{0,62}\Z")


class HolderNote(Process, frozen=True):
    """The content of a holder's file."""

    network: CellNetwork
    """The network that the process holds open."""


class Networks:
    """The networks of one engine.

    The class is not thread-safe: its work runs in the spawner's thread. Other engines may use the same
    folder.
    """

    def __init__(self, folder: Path, isolation: Isolation, spawner: Callable[[], Spawner]) -> None:
        self._folder = folder / "networks"
        self._isolation, self._spawner = isolation, spawner
        self._is_offered: bool | None = None
        self._socket_server = ""
        """The path at which the trunk's holder creates sockets for this server. Empty unless Windlass runs as
        an ordinary user."""
        self.has_egress = True
        """Whether instances can reach public addresses."""
        self._hubs: dict[str, Process] = {}
        """The last known hub of each environment."""
        self._children: set[int] = set()
        """Process ids of holders that this process has started."""
        self._names: dict[str, dict[str, str]] = {}
        """The addresses and names in the hosts file of each environment."""
        self._lock: int | None = None
        """A file descriptor with a shared lock. Networks do not end by themselves while an engine holds this
        lock."""

    def close(self) -> None:
        self._hubs.clear()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def is_offered(self) -> bool:
        if self._is_offered is None:
            self._is_offered = await asyncio.to_thread(self._isolation.has_networks)
            if self._isolation.makes_networks_as_user():
                self._socket_server = str(self._folder / _SOCKET_SERVER)
                self.has_egress = not self._isolation.why_no_egress()
        return self._is_offered

    async def hub(self, environment: str, org: str) -> str:
        """Returns the holder of the hub of an environment. Creates the hub if it does not exist."""
        hub = self._hubs.get(environment)
        if hub is None or not kernel.is_running(hub) or not self._note_use(environment):
            hub = self._hubs[environment] = await self._run(lambda: self._open(environment, org))
        return self._holder(hub)

    def _note_use(self, environment: str) -> bool:
        """Records that a hub is in use, so that it is kept for a while. Returns whether the hub exists."""
        try:
            os.utime(self._folder / f"{safe(environment)}{_HUB}")
        except FileNotFoundError:
            return False
        return True

    def _holder(self, process: Process) -> str:
        return str(NamespaceHolder(process.pid, process.start, self._socket_server))

    async def of_instance(self, environment: str, org: str, service_address: str) -> CellNetwork:
        """Returns the network of a new instance."""
        hub = await self.hub(environment, org)
        own = CellNetwork(kind="instance", outer=hub, resolvers=network.resolvers())
        own["hosts"] = str(self._hosts(environment))
        if service_address:
            own["service"] = service_address
        return own

    async def of_step(self, org: str, environment: str) -> CellNetwork | None:
        """Returns the network of a build step.

        Returns None for the network of the machine. It is used if the step's own network could not reach
        public addresses, because the step could not download anything.
        """
        if not await self.is_offered() or not self.has_egress:
            return None
        hub = await self.hub(f"{_STEPS_PREFIX}-{environment or org}", org)
        return CellNetwork(kind="instance", outer=hub, resolvers=network.resolvers())

    async def introduce(self, environment: str, name: str, address: str) -> None:
        """Makes a service known to all instances of an environment under one name. Removes its earlier
        name."""
        known = self._names.setdefault(environment, {})
        if _HOST_NAME_PATTERN.match(name) and known.get(address) != name:
            await self._run(lambda: self._write_name(environment, name, address))
            known[address] = name

    async def forget(self, address: str) -> None:
        """Removes the name of a service from its environment."""
        for known in self._names.values():
            known.pop(address, None)
        if self._folder.exists():
            await self._run(lambda: self._forget_address(address))

    def has_ended(self, hub: str) -> bool:
        holder = NamespaceHolder.read(hub)
        present = kernel.stat(holder.pid)
        return present is None or present.start != holder.start or present.dead

    def trunk_has_ended(self) -> bool:
        """Returns whether the trunk was killed. In this case, no instance can reach public addresses."""
        trunk = self._read(_TRUNK_NAME)
        return trunk is not None and not kernel.is_running(trunk)

    async def renew_rules(self) -> None:
        """Updates the firewall rules of existing networks after a change of the server's settings. The
        trunk's holder applies them within seconds."""
        if self._folder.exists() and await self.is_offered():
            await self._run(self._renew_rules)

    async def tidy(self, used_networks: Collection[str]) -> Collection[str]:
        """Ends unused hubs, and the trunk if no hub is left.

        `used_networks` are the holders of the hubs that instances use. Returns the holders among them that
        have ended or lost their trunk.
        """
        if not self._folder.exists():
            return ()
        return await self._run(lambda: self._tidy(frozenset(used_networks)))

    # The following functions run in the spawner's thread

    async def _run(self, work: Callable[[], T]) -> T:
        def held() -> T:
            try:
                with self._locked():
                    return work()
            except filelock.LockTimeout as error:
                raise EngineUnavailable(str(error)) from error

        return await asyncio.get_running_loop().run_in_executor(self._spawner().thread, held)

    def _locked(self) -> AbstractContextManager[None]:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        return filelock.holding(self._folder / "lock", _LOCK_TIMEOUT)

    def _open(self, environment: str, org: str) -> Process:
        self._keep_networks()
        name = f"{safe(environment)}{_HUB}"
        if kernel.is_running(hub := self._read(name)):
            assert hub is not None
            os.utime(self._folder / name)
            return hub
        hosts = self._hosts(environment)
        if not hosts.exists():
            _write_hosts(hosts, ())
        trunk: Process | None = self._read(_TRUNK_NAME)
        if trunk is None or not kernel.is_running(trunk):
            self._forget_networks()
            trunk = self._start_holder(_TRUNK_NAME, self._isolation.trunk(self._socket_server))
        self._connect_trunk(trunk)
        joins = not environment.startswith(_STEPS_PREFIX)
        return self._start_holder(name, self._isolation.hub(self._holder(trunk), org, joins=joins))

    def _keep_networks(self) -> None:
        """Locks the networks, so that they do not end by themselves while this engine runs."""
        if self._lock is None:
            lock = filelock.open_lock_file(self._folder / SERVERS_LOCK)
            with on_failure(partial(os.close, lock)):
                filelock.wait_for(lock, shared=True, timeout=_LOCK_TIMEOUT)
            self._lock = lock

    def _forget_networks(self) -> None:
        """Ends the hubs and the exit of an ended trunk, because they are no longer connected."""
        for name in names(self._folder):
            if name.endswith(_HUB) or name == _EXIT_NAME:
                (self._folder / name).unlink(missing_ok=True)
        self._hubs.clear()

    def _connect_trunk(self, trunk: Process) -> None:
        """Starts pasta to connect the trunk with the machine's network. This is only needed if Windlass runs
        as an ordinary user."""
        program = find_pasta() if self._socket_server and self.has_egress else None
        if program is not None and not kernel.is_running(self._read(_EXIT_NAME)):
            self._start_holder(
                _EXIT_NAME, CellNetwork(kind="exit", outer=self._holder(trunk), program=program)
            )

    def _start_holder(self, name: str, network: CellNetwork) -> Process:
        """Starts a process that holds a network namespace open."""
        request = SpawnRequest(
            command=(),
            folder=Path("/"),
            environment={},
            output=self._folder / "output",
            cell=_holder_cell(network),
            holder_file=str(self._folder / name),
        )

        def note(spawned: SpawnedProcess) -> None:
            process = spawned.process
            self._note(name, HolderNote(process.pid, process.start, process.boot, network))

        holder = self._spawner().start(request, note).process
        self._children.add(holder.pid)
        return holder

    def _note(self, name: str, holder_note: HolderNote) -> None:
        write_whole(self._folder / name, msgspec.json.encode(holder_note), durable=False)

    def _renew_rules(self) -> None:
        hubs = [name for name in names(self._folder) if name.endswith(_HUB)]
        for name in (*hubs, _TRUNK_NAME):  # the trunk last: its holder then reads the other files
            note = self._read(name)
            if note is not None:
                rules = self._isolation.with_rules(note.network)
                if rules != note.network:
                    self._note(name, structs.replace(note, network=rules))

    def _write_name(self, environment: str, name: str, address: str) -> None:
        file = self._hosts(environment)
        services = _service_lines(file) if file.exists() else ()
        others = [line for line in services if line.split()[0] != address and line.split()[1:] != [name]]
        _write_hosts(file, [*others, f"{address} {name}"])

    def _forget_address(self, address: str) -> None:
        for file in self._folder.glob(f"*{_HOSTS}"):
            services = _service_lines(file)
            others = [line for line in services if line.split()[0] != address]
            if others != services:
                _write_hosts(file, others)

    def _tidy(self, used_networks: frozenset[str]) -> Collection[str]:
        now, trunk = time.time(), self._read(_TRUNK_NAME)
        # Compared without the part that `_holder` adds, because that part changes with the settings.
        needed = {NamespaceHolder.read(hub)[:2]: hub for hub in used_networks if hub}
        hubs: set[tuple[int, int]] = set()
        leads_out = trunk is not None and kernel.is_running(trunk)
        for name in names(self._folder):
            if not name.endswith(_HUB):
                continue
            hub, age = self._read(name), now - (self._folder / name).stat().st_mtime
            # A hub whose trunk was killed is not connected. It is created again together with its instances.
            is_needed = hub is not None and ((hub.pid, hub.start) in needed or _is_used(hub))
            if hub is not None and leads_out and (age < _UNUSED_HUB_SECONDS or is_needed):
                hubs.add((hub.pid, hub.start))
                continue
            environment = name.removesuffix(_HUB)
            self._hubs.pop(environment, None)
            (self._folder / name).unlink(missing_ok=True)  # the holder ends when its file is removed
            if not is_needed:
                self._names.pop(environment, None)
                self._hosts(environment).unlink(missing_ok=True)
        if not hubs:
            (self._folder / _TRUNK_NAME).unlink(missing_ok=True)
            (self._folder / _EXIT_NAME).unlink(missing_ok=True)
        elif trunk is not None:
            self._connect_trunk(trunk)
        network.close_left_trunks()
        self._reap()
        return {hub for holder, hub in needed.items() if holder not in hubs}

    def _reap(self) -> None:
        """Reaps ended holders that this process has started."""
        for pid in [*self._children]:
            with suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG) == (0, 0):
                    continue
            self._children.remove(pid)

    def _read(self, name: str) -> HolderNote | None:
        try:
            return msgspec.json.decode((self._folder / name).read_bytes(), type=HolderNote)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def _hosts(self, environment: str) -> Path:
        return self._folder / f"{safe(environment)}{_HOSTS}"


def _is_used(hub: Process) -> bool:
    """Returns whether an instance or build step is connected to a hub. Build steps are not in the records."""
    with suppress(OSError):
        return kernel.is_running(hub) and is_used("hub", hub.pid)
    return False


def _service_lines(hosts: Path) -> list[str]:
    """Returns the lines of a hosts file that contain services."""
    lines = hosts.read_text().splitlines()
    return [line for line in lines if line and not line.startswith((f"{LOOPBACK} ", "::1 "))]


def _write_hosts(file: Path, services: Sequence[str]) -> None:
    """Writes a hosts file. The machine's name, which an instance also uses, resolves to the instance itself
    unless a service has that name."""
    name = socket.gethostname()
    named = {service.split()[1] for service in services}
    own = [f"{LOOPBACK} {name}"] if _MACHINE_NAME_PATTERN.match(name) and name.lower() not in named else []
    # Written in place, because instances have mounted this file.
    with file.open("r+" if file.exists() else "w") as written:
        written.write("\n".join([*_LOCALHOST_LINES, *own, *services, ""]))
        written.truncate()
    file.chmod(0o644)


def _holder_cell(network: CellNetwork) -> Cell:
    return Cell(
        identity="none",
        uid=os.geteuid(),
        inner=os.geteuid(),
        name="",
        mounts=False,
        processes=False,
        landlock=0,
        readable=[],
        writable=[],
        temporary="",
        hidden=[],
        most_processes=0,
        network=network,
    )
