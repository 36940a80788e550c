"""The interface of a store, independent of the database.

On both databases, changes run one after the other, and are committed in groups. An acknowledged change is
durable, and events are numbered in the order of commits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from windlass.store.tables.figures import Figure
from windlass.store.transaction import Reads, Write

T = TypeVar("T")


class KeyGuard(Protocol):
    """A guard that refuses changes unless this server seals with the database's current key."""

    @property
    def present(self) -> tuple[str, str]:
        """The name of the fact with the current key, and the value that it must have."""
        ...

    async def adopt(self) -> None:
        """Switches to the database's current key. Raises Unavailable if this server does not have it."""
        ...


class Store(Protocol):
    """An open database."""

    reads: Reads
    writes: int
    groups: int
    """The numbers of committed changes and of committed groups."""

    async def write(self, change: Write[T]) -> T:
        """Runs a change, and returns its result when the change is durable."""
        ...

    def guard_key(self, key_guard: KeyGuard) -> None:
        """Sets a guard that refuses changes while this server seals with a former key. Needed if other
        servers can rotate the key."""
        ...

    @property
    def stores_changes(self) -> bool:
        """Returns False while changes cannot be committed, as the last group could not."""
        ...

    async def problem(self) -> str:
        """Returns the reason why changes cannot be stored; empty if they can. Queries the database, within a
        time limit."""
        ...

    def shortage(self, *, ends_something: bool) -> str:
        """Returns advice if changes cannot be stored, because the disk is missing or full; empty otherwise.

        Changes that free resources can use reserved space on a full disk. Does not wait.
        """
        ...

    @property
    def connections(self) -> Mapping[str, int]:
        """The numbers of connections in the pool: used, idle, and at most. Empty without a pool."""
        ...

    async def figures(self, now: int) -> list[Figure]:
        """Returns figures of the whole installation. Does not delay other reads."""
        ...

    async def row_sizes(self) -> dict[str, int]:
        """Returns the bytes of each organization in the database. Does not delay other reads."""
        ...

    def listen(self, listener: Callable[[str], None], *kinds: str) -> None:
        """Registers a function for the nudges of all replicas. `kinds`: the first parts of the words to
        listen for; by default, all words."""
        ...

    def measure_with(self, measurer: Callable[[str, float, tuple[str, ...]], None]) -> None:
        """Registers a function for the measurements of changes that this process commits."""
        ...

    async def close(self) -> None: ...
