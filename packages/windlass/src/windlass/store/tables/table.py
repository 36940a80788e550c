"""The base of all tables: a database session, and the state of the current change.

Each table has a class that reads and a subclass that changes. Only `Tx` contains the subclasses, so that code
with `Reads` cannot write.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct

from windlass.base.errors import Conflict

NEVER: Final = 2**62
"""A time in the distant future, which stands for "never"."""
MAX_REQUEST_COST: Final = 20_000
"""Maximum cost of a change from a request. It takes about a second, in which all other changes wait."""
STORE_COST: Final = 4
"""The cost of storing a resource or a deployment. Removing one costs 1."""

MAX_READ_BYTES: Final = 16 * 1024 * 1024
"""The number of bytes of documents that a query with a limit of rows reads, so that many large documents of
one organization do not take the memory of the server."""
_MAX_UNMEASURED_ROWS: Final = 16
"""So many rows are read without a query for their sizes."""

NewEvent = tuple[Any, ...]
"""An event as emitted, without its number and its hash."""
Measured = tuple[str, float, tuple[str, ...]]
"""A measurement: its name, seconds, and labels."""


class NameTaken(Exception):
    """Raised if a unique value exists already. The whole change fails, because PostgreSQL accepts no further
    statements."""


class DatabaseSession(Protocol):
    """A database connection, or an object with the same interface."""

    async def one(self, statement: str, *values: Any) -> Sequence[Any] | None: ...

    async def all(self, statement: str, *values: Any) -> Sequence[Sequence[Any]]: ...

    async def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None: ...


class ChangeSession:
    """The session of a change: its time, its cost limit, and the events, nudges and measurements that take
    effect with the commit."""

    __slots__ = ("all", "emitted", "left", "many", "measured", "memory", "now", "nudges", "one")

    def __init__(self, session: DatabaseSession, now: int) -> None:
        self.one = session.one
        self.all = session.all
        self.many = session.many
        self.begin(now)

    def begin(self, now: int) -> None:
        """Begins the next change of the group."""
        self.now = now
        self.left = NEVER
        self.emitted: list[NewEvent] = []
        self.nudges: list[str] = []
        self.measured: list[Measured] = []
        self.memory: dict[Hashable, object] = {}
        """What was computed from rows that the change has read, by keys that name the version of the rows."""

    def nudge(self, topic: str) -> None:
        self.nudges.append(topic)

    def spend(self, cost: int) -> None:
        self.foresee(cost)
        self.left -= cost

    def foresee(self, cost: int) -> None:
        """Raises Conflict if the change would exceed its cost limit.

        Changes are stored one after the other, so a large one delays the changes of all organizations.
        """
        if cost > self.left:
            raise Conflict(
                "Send several smaller requests, such as one for each service: this one would store or remove "
                "so much at once that all others wait"
            )


T = TypeVar("T")


class RowList(list[T]):
    """The rows of a query with a limit, fewer if they are too large together."""

    __slots__ = ("is_cut",)

    def __init__(self, rows: Iterable[T], *, is_cut: bool) -> None:
        super().__init__(rows)
        self.is_cut = is_cut
        """Whether further rows match, although these are fewer than the limit."""


class Table:
    """The base class of a table, or of a few tables that belong together."""

    __slots__ = ("_session",)

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session

    async def _some(self, statement: str, sizes: str, *values: Any, limit: int) -> RowList[Sequence[Any]]:
        """Returns at most `limit` rows, and at most `MAX_READ_BYTES` of documents, but at least one row.

        `sizes` is the same query for the sizes of the documents. Both take the limit as the last argument.
        """
        if limit <= _MAX_UNMEASURED_ROWS:
            return RowList(await self._session.all(statement, *values, limit), is_cut=False)
        lengths = [row[0] for row in await self._session.all(sizes, *values, limit)]
        fitting = _count_fitting(lengths)
        rows = await self._session.all(statement, *values, fitting) if fitting else ()
        return RowList(rows, is_cut=fitting < len(lengths))


def _count_fitting(lengths: Sequence[int]) -> int:
    """Returns how many of the first documents fit into `MAX_READ_BYTES`, at least one."""
    left = MAX_READ_BYTES
    for number, length in enumerate(lengths):
        left -= length
        if left < 0:
            return max(1, number)
    return len(lengths)


def columns(row: type[Struct], table: str = "") -> str:
    """Returns the column list of a row type, in the order of its fields."""
    prefix = f"{table}." if table else ""
    return ", ".join(f"{prefix}{name}" for name in row.__struct_fields__)


def places(count: int, first: int = 1) -> str:
    """Returns `count` placeholders, as in `$1, $2, $3`."""
    return ", ".join(f"${number}" for number in range(first, first + count))
