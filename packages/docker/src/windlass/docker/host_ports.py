"""Assigns fixed host ports to containers for their lifetime.

By default, Docker chooses new host ports at each start of a container. After a restart of the engine, the
gateway could then send requests to another container, possibly of another organization.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from msgspec import Struct, field

from windlass.docker import names
from windlass.docker.client import Docker, EngineRefused
from windlass.docker.descriptions import ContainerList, container_name
from windlass.engines.engine import PORTS_OF_ENGINES, EngineError

PORT_RANGE: Final = PORTS_OF_ENGINES[10_000:]
MAX_PORTS_OF_ORGANIZATION: Final = len(PORT_RANGE) // 8
"""On this machine. For each host port, the engine starts a process with about 0.8 MB and 7 threads, which no
limit of a container counts."""
MAX_SKIPPED_PORTS: Final = 1000
PORT_IN_USE_ERROR: Final = "port is already allocated"

_PORT_IN_USE_PATTERN: Final = re.compile(rf"{PORT_IN_USE_ERROR}|address already in use")
_PORT_PATTERN: Final = re.compile(r":(\d{1,5})\b")
_MAX_LABEL_LENGTH: Final = 4096
"""Maximum length of the ports label, in characters."""


class HeldPorts(Struct):
    """Host ports of existing containers, running or not."""

    of: dict[str, frozenset[int]] = field(default_factory=dict)
    """Host ports by container id."""
    by_org: Counter[str] = field(default_factory=Counter)

    @property
    def all(self) -> set[int]:
        return set().union(*self.of.values())

    def are_shared(self, container: str, ports: Collection[int]) -> bool:
        return any(not held.isdisjoint(ports) for id, held in self.of.items() if id != container)


class HostPorts:
    def __init__(self, docker: Docker) -> None:
        self._docker = docker
        self._choosing = asyncio.Lock()
        self._claimed: dict[int, str] = {}
        """Ports chosen for containers that are being created, with their organizations."""
        self._skipped: set[int] = set()
        """Ports in use by other programs of the machine, as reported by the engine."""

    @asynccontextmanager
    async def claim(self, org: str, count: int) -> AsyncIterator[Sequence[int]]:
        """Yields free ports, which are reserved while the block creates a container with them."""
        if not count:
            yield ()
            return
        async with self._choosing:
            # Claims are copied before the list is read: a claim may end while the engine lists containers.
            claimed = dict(self._claimed)
            held = await self._held_ports()
            mine = held.by_org[org] + sum(owner == org for owner in claimed.values())
            limit = len(PORT_RANGE) if self._docker.is_elsewhere else MAX_PORTS_OF_ORGANIZATION
            ports = choose_ports(count, mine, held.all | claimed.keys() | self._skipped, limit)
            self._claimed.update(dict.fromkeys(ports, org))
        try:
            yield ports
        finally:
            for port in ports:
                del self._claimed[port]

    async def check_alone(self, container: str, ports: Collection[int]) -> None:
        """Raises EngineRefused if another server has created a container with one of these ports at the same
        time."""
        if ports and (await self._held_ports()).are_shared(container, ports):
            raise EngineRefused(409, PORT_IN_USE_ERROR)

    def skip(self, refusal: EngineRefused) -> bool:
        """Records the port that the engine reports as in use. Returns whether a port was newly recorded."""
        if not _PORT_IN_USE_PATTERN.search(refusal.message):
            return False
        taken = {int(port) for port in _PORT_PATTERN.findall(refusal.message)}
        new = taken.intersection(PORT_RANGE) - self._skipped
        if len(self._skipped) + len(new) > MAX_SKIPPED_PORTS:  # old entries may be free again
            self._skipped.clear()
            return False
        self._skipped |= new
        return bool(new)

    async def _held_ports(self) -> HeldPorts:
        """Returns the host ports of all installations' containers on the engine."""
        params = {"all": True, "filters": {"label": [names.PORTS_LABEL]}}
        held = HeldPorts()
        for container in await self._docker.read_list("/containers/json", ContainerList, params=params):
            labels = container["Labels"]
            # Build step containers may have forged labels (set by a Dockerfile), but no ports.
            if names.is_instance(labels.get(names.INSTALLATION_LABEL, ""), container_name(container), labels):
                ports = frozenset(parse_label(labels))
                held.of[container["Id"]] = ports
                held.by_org[labels.get(names.ORGANIZATION_LABEL, "")] += len(ports)
        return held


def choose_ports(
    count: int, mine: int, taken_ports: Collection[int], limit: int = len(PORT_RANGE)
) -> Sequence[int]:
    """Returns random free ports, so that no program can predict them and wait there. `mine`: the number of
    ports that the organization already has. An organization may have at most as many ports as remain for all
    others, and no more than `limit`."""
    free = [port for port in PORT_RANGE if port not in taken_ports]
    if mine + count > min(len(free), limit):
        raise EngineError(
            f"Run fewer instances, or declare fewer ports: this organization has {mine} of the ports "
            f"{PORT_RANGE[0]}-{PORT_RANGE[-1]}, and may have {limit}; {len(free)} are left for all"
        )
    return secrets.SystemRandom().sample(free, count)


def as_label(ports: Sequence[int]) -> str:
    return ",".join(map(str, ports))


def parse_label(labels: Mapping[str, str]) -> list[int]:
    """Parses the ports label. The label is not trusted, because an organization may control the engine."""
    numbers = labels.get(names.PORTS_LABEL, "")[:_MAX_LABEL_LENGTH].split(",")
    return [int(number) for number in numbers if number.isascii() and number.isdecimal()]
