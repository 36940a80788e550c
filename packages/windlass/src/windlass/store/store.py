"""The promise of a store, whatever the database is.

Writers run one after the other, in groups that are committed together, on both databases: an acknowledged
change is durable, and events are numbered in the order of commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from windlass.store.tables.figures import Figure
from windlass.store.transaction import Reads, Write

T = TypeVar("T")


class KeyGuard(Protocol):
    """The sealing key of this server, as the database has to name it while the server changes anything."""

    @property
    def present(self) -> tuple[str, str]:
        """The fact that names the key, and its value."""
        ...

    async def adopt(self) -> None:
        """Switches to the key that the database names. Raises Unavailable if this server does not have it."""
        ...


class Store(Protocol):
    """A database, open."""

    reads: Reads
    writes: int
    groups: int
    """Changes that were committed, and in how many groups."""

    async def write(self, change: Write[T]) -> T:
        """Runs a change and answers once it is durable."""
        ...

    def guard_key(self, guard: KeyGuard) -> None:
        """Sets a guard that refuses changes of a server that seals with a former key. Needed where other
        servers may replace the key."""
        ...

    async def problem(self) -> str:
        """Returns why this server cannot store changes; empty if it can. Asks the database, in bounded
        time."""
        ...

    def shortage(self, *, ends_something: bool) -> str:
        """Returns the remedy if a change cannot be stored because the disk is missing or full; changes
        that end something may use reserved space. Empty if it can be stored. Does not wait."""
        ...

    @property
    def connections(self) -> Mapping[str, int]:
        """The numbers of connections of the pool: in use, idle, and at most; empty without a pool."""
        ...

    async def figures(self, now: int) -> list[Figure]:
        """Returns figures of the whole installation. Other reads do not wait for it."""
        ...

    async def row_sizes(self) -> dict[str, int]:
        """Returns the bytes that each organization has in the database. Other reads do not wait for it."""
        ...

    def listen(self, listener: Callable[[str], None], *kinds: str) -> None:
        """Calls `listener` with every nudge of every replica. `kinds`: the first parts of words, up to a
        colon, if it does not listen to all."""
        ...

    def measure_with(self, measurer: Callable[[str, float, tuple[str, ...]], None]) -> None:
        """Calls `measurer` with every measurement of a committed change of this process."""
        ...

    async def close(self) -> None: ...
