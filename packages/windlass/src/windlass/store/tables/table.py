"""The base of all tables: a session to run statements on, and the state of the change that runs.

A table has two classes: one that reads, and below it one that changes. Only a `Tx` has the second kind, so
code that was given `Reads` cannot write.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

from windlass.base.errors import Conflict

FAR: Final = 2**62
"""A time that never comes."""
LARGEST: Final = 20_000
"""The maximum cost of a change by a request: about a second, during which all other changes wait."""
STORED: Final = 4
"""The cost of storing a resource or a deployment, in removals."""

NewEvent = tuple[Any, ...]
"""An event as it is emitted: without its number and its hash."""
Measured = tuple[str, float, tuple[str, ...]]
"""A measurement: its word, seconds, and labels."""


class NameTaken(Exception):
    """A value that must be unique exists already. The change fails: PostgreSQL accepts no more statements."""


class DatabaseSession(Protocol):
    """A connection, or an object that acts as one."""

    async def one(self, statement: str, *values: Any) -> Sequence[Any] | None: ...

    async def all(self, statement: str, *values: Any) -> Sequence[Sequence[Any]]: ...

    async def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None: ...


class ChangeSession:
    """The session of a change: its time, what it may still cost, and the events, nudges and measurements that
    take effect with its commit."""

    __slots__ = ("all", "emitted", "left", "many", "measured", "now", "nudges", "one")

    def __init__(self, session: DatabaseSession, now: int) -> None:
        self.one = session.one
        self.all = session.all
        self.many = session.many
        self.begin(now)

    def begin(self, now: int) -> None:
        """Begins the next change of the group."""
        self.now = now
        self.left = FAR
        self.emitted: list[NewEvent] = []
        self.nudges: list[str] = []
        self.measured: list[Measured] = []

    def nudge(self, word: str) -> None:
        self.nudges.append(word)

    def spend(self, cost: int) -> None:
        self.foresee(cost)
        self.left -= cost

    def foresee(self, cost: int) -> None:
        """Raises Conflict if the change would cost more than it may: changes are stored one after the other,
        so a large one holds up those of all organizations."""
        if cost > self.left:
            raise Conflict(
                "Send several smaller requests, such as one for each service: this one would store or remove "
                "so much at once that all others wait"
            )


class Table:
    """A table, or a few that belong together."""

    __slots__ = ("_session",)

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session


def columns(row: type[Struct], table: str = "") -> str:
    """Returns the columns that a row is read from, in its order."""
    prefix = f"{table}." if table else ""
    return ", ".join(f"{prefix}{name}" for name in row.__struct_fields__)


def places(count: int, first: int = 1) -> str:
    """Returns so many placeholders: `$1, $2, $3`."""
    return ", ".join(f"${number}" for number in range(first, first + count))
