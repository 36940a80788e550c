"""Services that others of the environment can reach, read once for each version of their list.

A deployment asks for all services around it. Most offer nothing, and of those that do, little changes: so a
deployment costs the same beside three thousand services without ports as beside thirty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from windlass.core.declare.stored import NamedDocument
from windlass.store import Reads, Row

_MOST: Final = 1000
"""Maximum number of cached environments."""


class MainPort(Struct, frozen=True, gc=False):
    """The port of a service that is meant when no port is named."""

    internal: int
    protocol: str
    public: bool = False
    held_as: str = ""
    """The name of the port under which its host is reserved; the default port has none."""


MainPortOf = Callable[[Row], MainPort | None]


class Neighbour(Struct, frozen=True, gc=False):
    """A service that others can reach, because it has a port."""

    id: str
    name: str
    port: MainPort


class _CachedNeighbours(Struct, frozen=True):
    version: tuple[int, int, int]
    neighbours: list[Neighbour]


class Neighbours:
    """Caches, by environment and family, the services that others can reach, with the version of the list."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _CachedNeighbours] = {}

    async def of(
        self, source: Reads, environment: str, family: str, main_port: MainPortOf
    ) -> list[Neighbour]:
        """The services of an environment that have ports, in the order of their creation."""
        version = await source.lists.version(environment, family)
        cached = self._known.get((environment, family))
        if cached is None or cached.version != version:
            # A change between these two reads is read now, and again by the next caller.
            rows = await source.resources.of_parent(environment, family)
            cached = _CachedNeighbours(
                version, [neighbour for row in rows if (neighbour := _neighbour(row, main_port))]
            )
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[environment, family] = cached
        return cached.neighbours


def _neighbour(row: Row, main_port: MainPortOf) -> Neighbour | None:
    port = main_port(row)
    return Neighbour(row.id, row.read(NamedDocument).name, port) if port else None
