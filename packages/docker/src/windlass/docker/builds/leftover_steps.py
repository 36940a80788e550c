"""Waits until no leftover step of an earlier build runs on the Docker engine.

BuildKit runs build steps in the engine's default bridge network. If the engine is killed, its running steps
survive even the restart, but the engine no longer tracks them: the next build would share the bridge with
them. On the engine's machine, leftover steps are visible as bridge interfaces that do not belong to a
container.
"""

from __future__ import annotations

import asyncio
import fcntl
import math
import socket
import struct
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Final

from windlass.base.isolation.netlink import Netlink
from windlass.base.subprocesses import in_thread
from windlass.builders.builder import BuildError, Say
from windlass.docker.client import Docker, EngineRefused

_BRIDGE_NAME: Final = "com.docker.network.bridge.name"
_GET_ADDRESS: Final = 0x8915
_MAX_NAME_LENGTH: Final = 15
_INTERFACE_REMOVAL_SECONDS: Final = 2.0
"""Seconds within which the kernel removes the interface of a step that has just ended."""
_TIMEOUT: Final = 600.0
_CHECK_INTERVAL: Final = 0.2
_NOT_FOUND: Final = 404
"""HTTP status for a missing network: an engine may have no default bridge."""


class LeftSteps:
    """Detects leftover steps. A caller either has the turn at BuildKit (`absent`), or asks before waiting for
    the turn (`are_there`)."""

    def __init__(self, docker: Docker) -> None:
        self._docker = docker
        self._looking = asyncio.Lock()
        self._builds = 0
        """Number of running builds of the service that has the turn. Their steps look like leftover steps."""
        self._seen = (-math.inf, -math.inf)
        """Times of the first and the latest sighting of a leftover step."""

    async def are_there(self) -> bool:
        """Returns whether leftover steps are running, so that a build would have to wait."""
        began = _loop_time()
        while not self._builds and await _count_interfaces(self._docker):
            if _loop_time() - began > _INTERFACE_REMOVAL_SECONDS:
                return True
            await asyncio.sleep(_CHECK_INTERVAL)
        return False

    @asynccontextmanager
    async def absent(self, write_line: Say) -> AsyncIterator[None]:
        """Waits until no leftover steps are running. Raises BuildError if they do not end in time. Does not
        wait for an engine on another machine, whose bridge is not visible."""
        async with self._looking:
            if not self._builds:
                await self._wait(write_line)
            self._builds += 1
        try:
            yield
        finally:
            self._builds -= 1

    async def _wait(self, write_line: Say) -> None:
        began, is_told = _loop_time(), False
        while await _count_interfaces(self._docker):
            self._record_sighting()
            if _loop_time() - self._seen[0] > _TIMEOUT:
                raise BuildError(
                    "Have the operator end what is left of builds on the machine of the Docker engine with "
                    "kill -9 (find /sys/fs/cgroup -path '*buildkit*' -name cgroup.procs -exec cat {} + names "
                    "the processes), and deploy again: a step of another build still runs in the network of "
                    "BuildKit"
                )
            if _loop_time() - began > _INTERFACE_REMOVAL_SECONDS and not is_told:
                write_line("Waiting for BuildKit: a step of another build still runs in its network")
                is_told = True
            await asyncio.sleep(_CHECK_INTERVAL)
        self._seen = (-math.inf, -math.inf)

    def _record_sighting(self) -> None:
        """Records a sighting of leftover steps. Builds share the start of the wait, so that later builds do
        not wait longer than the first."""
        first, last = self._seen
        is_same = _loop_time() - last < _TIMEOUT
        self._seen = (first if is_same else _loop_time(), _loop_time())


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


async def _count_interfaces(docker: Docker) -> int:
    """Returns the number of bridge interfaces that do not belong to a container; 0 if the bridge is not
    visible."""
    try:
        bridge = await docker.json("GET", "/networks/bridge")
    except EngineRefused as refused:
        if refused.status == _NOT_FOUND:
            return 0
        raise
    name = str((bridge.get("Options") or {}).get(_BRIDGE_NAME, "docker0"))
    interfaces = await in_thread(_interfaces, name, _bridge_subnets(bridge), docker.host)
    if not interfaces:
        return 0
    # The list of containers is read after the interfaces, so that a container that starts meanwhile is not
    # counted as a leftover step.
    bridge = await docker.json("GET", "/networks/bridge")
    return max(0, interfaces - len(bridge.get("Containers") or {}))


def _bridge_subnets(bridge: dict[str, Any]) -> list[str]:
    """Returns the subnets of a bridge. The engine that has created the bridge does not report the bridge's
    own address."""
    configs = (bridge.get("IPAM") or {}).get("Config") or ()
    return [subnet for config in configs if (subnet := config.get("Subnet"))]


def _interfaces(name: str, subnets: Iterable[str], host: str) -> int:
    """Returns the number of interfaces of a bridge; 0 if the bridge is not the engine's. Uses system calls in
    this process's network namespace, because /sys may show another namespace."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asked = struct.pack("256s", name.encode()[:_MAX_NAME_LENGTH])
        address = socket.inet_ntoa(fcntl.ioctl(asking, _GET_ADDRESS, asked)[20:24])
        is_inside = any(ip_address(address) in ip_network(subnet, strict=False) for subnet in subnets)
        if is_inside and not _is_in_another_network(host):
            with Netlink() as netlink:
                return netlink.count_members(name)
    return 0


def _is_in_another_network(host: str) -> bool:
    """Returns whether an engine is known to be in another network namespace than this process, for example a
    rootless engine. Its bridge may have the same name and address."""
    scheme, _, path = host.partition("://")
    if scheme != "unix":
        return False
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(path)
        process, *_ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        theirs, ours = (Path(f"/proc/{each}/ns/net").stat() for each in (process, "self"))
        return (theirs.st_dev, theirs.st_ino) != (ours.st_dev, ours.st_ino)
    return False
