"""A cache of the services in an environment that have ports, one entry for each version of the service list.

A deployment needs the ports of all other services in its environment. Most services have no port, and ports
seldom change. The cache makes a deployment among three thousand services without ports as cheap as among
thirty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from windlass.core.declare.stored import NamedDocument
from windlass.store import Reads, Row

_MAX_CACHED: Final = 1000
"""The largest number of cached service lists."""


class MainPort(Struct, frozen=True, gc=False):
    """The main port of a service, which is used if no port is named."""

    internal: int
    protocol: str
    public: bool = False
    held_as: str = ""
    """The port name under which the host name of the port is reserved; empty for the default port."""


MainPortOf = Callable[[Row], MainPort | None]


class Neighbour(Struct, frozen=True, gc=False):
    """A service that other services can reach, because it has a port."""

    id: str
    name: str
    port: MainPort


class _CachedNeighbours(Struct, frozen=True):
    version: tuple[int, int, int]
    neighbours: list[Neighbour]


class Neighbours:
    """Caches the services that have ports, by environment and family, together with the version of the
    list."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _CachedNeighbours] = {}

    async def of(self, reads: Reads, environment: str, family: str, main_port: MainPortOf) -> list[Neighbour]:
        """Returns the services of an environment that have ports, in the order of their creation."""
        version = await reads.lists.version(environment, family)
        cached = self._known.get((environment, family))
        if cached is None or cached.version != version:
            # A change between these two reads is already in the rows. The next caller sees a newer version
            # and reads the rows again.
            rows = await reads.resources.of_parent(environment, family)
            cached = _CachedNeighbours(
                version, [neighbour for row in rows if (neighbour := _neighbour(row, main_port))]
            )
            if len(self._known) >= _MAX_CACHED:
                self._known.clear()
            self._known[environment, family] = cached
        return cached.neighbours


def _neighbour(row: Row, main_port: MainPortOf) -> Neighbour | None:
    port = main_port(row)
    return Neighbour(row.id, row.read(NamedDocument).name, port) if port else None
