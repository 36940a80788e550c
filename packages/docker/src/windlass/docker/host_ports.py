"""Host ports of containers: a container keeps the host ports with which it was made.

By default, Docker chooses new host ports at each start of a container. After a restart of the engine, the
gateway would then send requests to another container, maybe of another organization.
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

RANGE: Final = PORTS_OF_ENGINES[10_000:]
MOST_SKIPPED: Final = 1000
TAKEN: Final = "port is already allocated"

_IS_TAKEN: Final = re.compile(rf"{TAKEN}|address already in use")
_PORT: Final = re.compile(r":(\d{1,5})\b")
_LONGEST: Final = 4096
"""Characters of the ports of one container in its label."""


class HeldPorts(Struct):
    """Ports that containers have, running or not."""

    of: dict[str, frozenset[int]] = field(default_factory=dict)
    """Keyed by the id of the container."""
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
        """Ports that were chosen for containers that the engine makes now, and their organizations."""
        self._skipped: set[int] = set()
        """Ports that other programs of the machine have, as far as the engine has reported it."""

    @asynccontextmanager
    async def claim(self, org: str, count: int) -> AsyncIterator[Sequence[int]]:
        """Yields free ports. No other container gets them while the block makes one with them."""
        if not count:
            yield ()
            return
        async with self._choosing:
            # A container may be made and its claim given back while the engine lists: claims are read before.
            claimed = dict(self._claimed)
            held = await self._held_ports()
            mine = held.by_org[org] + sum(owner == org for owner in claimed.values())
            ports = choose_ports(count, mine, held.all | claimed.keys() | self._skipped)
            self._claimed.update(dict.fromkeys(ports, org))
        try:
            yield ports
        finally:
            for port in ports:
                del self._claimed[port]

    async def check_alone(self, container: str, ports: Collection[int]) -> None:
        """Raises EngineRefused if another container was made with one of the ports, by another server."""
        if ports and (await self._held_ports()).are_shared(container, ports):
            raise EngineRefused(409, TAKEN)

    def skip(self, refused: EngineRefused) -> bool:
        """Records the port that the engine reports as taken. Returns False if it reports none, or one that
        was recorded before."""
        if not _IS_TAKEN.search(refused.message):
            return False
        taken = {int(port) for port in _PORT.findall(refused.message)}
        new = taken.intersection(RANGE) - self._skipped
        if len(self._skipped) + len(new) > MOST_SKIPPED:  # those from long ago may be free again
            self._skipped.clear()
            return False
        self._skipped |= new
        return bool(new)

    async def _held_ports(self) -> HeldPorts:
        """Returns the ports of containers of all installations, which may share an engine."""
        params = {"all": True, "filters": {"label": [names.PORTS]}}
        held = HeldPorts()
        for container in await self._docker.read_list("/containers/json", ContainerList, params=params):
            labels = container["Labels"]
            # Steps of a build have the labels that a Dockerfile sets, and no ports.
            if names.is_instance(labels.get(names.INSTALLATION, ""), container_name(container), labels):
                ports = frozenset(parse_label(labels))
                held.of[container["Id"]] = ports
                held.by_org[labels.get(names.ORGANIZATION, "")] += len(ports)
        return held


def choose_ports(count: int, mine: int, taken: Collection[int]) -> Sequence[int]:
    """An organization that has `mine` may have as many as are left for the others. The next ports are
    unpredictable, so that no program can wait for them."""
    free = [port for port in RANGE if port not in taken]
    if mine + count > len(free):
        raise EngineError(
            f"Run fewer instances, or declare fewer ports: this organization has {mine} of the ports "
            f"{RANGE[0]}-{RANGE[-1]} of the machine, and {len(free)} are left for all"
        )
    return secrets.SystemRandom().sample(free, count)


def as_label(ports: Sequence[int]) -> str:
    return ",".join(map(str, ports))


def parse_label(labels: Mapping[str, str]) -> list[int]:
    """Returns the ports in a label. The label is not trusted, because the engine may belong to anybody."""
    numbers = labels.get(names.PORTS, "")[:_LONGEST].split(",")
    return [int(number) for number in numbers if number.isascii() and number.isdecimal()]
