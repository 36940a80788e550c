"""Events, numbered in the order of commits and chained by hashes (see `chain`).

A change emits events with `Tx.emit`. They are numbered when their group is committed. `audit` searches
events.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from windlass.store.chain import ANCHOR_FACT, FIRST_HASH, Anchor, ChainEnd, Head, anchor_of, chain_rows
from windlass.store.tables import counters, facts
from windlass.store.tables.table import ChangeSession, NewEvent, RowList, Table, columns, places


class EventRow(Struct, frozen=True, gc=False):
    seq: int
    id: str
    org: str
    kind: str
    target: str
    at: int
    body: bytes
    family: str = ""
    subject: str = ""
    """The resource by which the event is found: for a variable its service, otherwise the target itself."""
    subject_family: str = ""
    actor: str = ""
    origin: str = ""
    project: str = ""
    environment: str = ""
    hash: bytes = b""


_COLUMNS: Final = columns(EventRow)
SIZE: Final = "LENGTH(body)"
_AFTER: Final = "FROM event WHERE org = $1 AND seq > $2 ORDER BY seq LIMIT $3"
_CHAIN: Final = "FROM event WHERE seq > $1 ORDER BY seq LIMIT $2"
AFTER: Final = f"SELECT {_COLUMNS} {_AFTER}"
SIZES_AFTER: Final = f"SELECT {SIZE} {_AFTER}"
CHAIN: Final = f"SELECT {_COLUMNS} {_CHAIN}"
SIZES_OF_CHAIN: Final = f"SELECT {SIZE} {_CHAIN}"
ALL: Final = f"SELECT {_COLUMNS} FROM event ORDER BY seq"
FIRST_AND_LAST_SEQ: Final = "SELECT (SELECT min(seq) FROM event), (SELECT max(seq) FROM event)"
NEWEST: Final = "SELECT seq, hash FROM event ORDER BY seq DESC LIMIT 1"
OLDEST: Final = "SELECT seq, at, hash FROM event ORDER BY seq LIMIT $1"
HASH_OF_EVENT: Final = "SELECT hash FROM event WHERE seq = $1"
TIME_OF_EVENT: Final = "SELECT at FROM event WHERE seq >= $1 ORDER BY seq LIMIT 1"
LAST_TIME: Final = "SELECT at FROM event ORDER BY seq DESC LIMIT 1"
LAST_OF: Final = f"""
SELECT {_COLUMNS} FROM event WHERE subject = $1 AND subject <> '' AND target = subject
ORDER BY seq DESC LIMIT 1"""
ADD: Final = f"INSERT INTO event ({_COLUMNS}) VALUES ({places(len(EventRow.__struct_fields__))})"
DELETE_UP_TO: Final = "DELETE FROM event WHERE seq <= $1"


class EventTable(Table):
    __slots__ = ()

    async def after(self, org: str, number: int = 0, limit: int = 1000) -> RowList[EventRow]:
        """Returns events of an organization after a number, the oldest first."""
        rows = await self._some(AFTER, SIZES_AFTER, org, number, limit=limit)
        return RowList((EventRow(*row) for row in rows), is_cut=rows.is_cut)

    async def chain(self, number: int, limit: int) -> RowList[Sequence[Any]]:
        """Returns the rows of all organizations' events after a number, the oldest first."""
        return await self._some(CHAIN, SIZES_OF_CHAIN, number, limit=limit)

    async def span(self) -> tuple[int, int]:
        """Returns the numbers of the oldest and the newest event; (0, 0) if there are none."""
        row = await self._session.one(FIRST_AND_LAST_SEQ)
        return (row[0] or 0, row[1] or 0) if row else (0, 0)

    async def newest(self) -> tuple[int, bytes | None]:
        """Returns the number and hash of the newest event; (0, None) if there are none."""
        row = await self._session.one(NEWEST)
        return (row[0], row[1]) if row else (0, None)

    async def hash(self, number: int) -> bytes | None:
        """Returns the hash of an event; None if the event does not exist."""
        row = await self._session.one(HASH_OF_EVENT, number)
        return row[0] if row else None

    async def time_of(self, number: int) -> int | None:
        """Returns the time of the event with this number, or of the next existing event."""
        row = await self._session.one(TIME_OF_EVENT, number)
        return row[0] if row else None

    async def last_time(self) -> int | None:
        """Returns the time of the newest event, which is not the latest time if the clock was set back."""
        row = await self._session.one(LAST_TIME)
        return row[0] if row else None

    async def last_of(self, subject: str) -> EventRow | None:
        """Returns the newest event whose target is the resource itself, and not a part of the resource."""
        row = await self._session.one(LAST_OF, subject)
        return EventRow(*row) if row else None

    async def anchor(self) -> Anchor | None:
        row = await self._session.one(facts.GET, ANCHOR_FACT)
        return anchor_of(row[0] if row else None)


class EventChanges(EventTable):
    __slots__ = ()
    _session: ChangeSession

    async def add(self, events: Sequence[NewEvent], chain_end: ChainEnd) -> None:
        """Numbers and chains the events of a group. The store clears `chain_end` if the group fails."""
        if not events:
            return
        before = await counters.advance(self._session, "event", len(events)) - len(events)
        rows = list(chain_rows(chain_end.at(before) or await self._head(before), events))
        await self._session.many(ADD, rows)
        chain_end.head = Head(before + len(events), rows[-1][-1])

    async def _head(self, number: int) -> Head:
        """Returns the head that the next event is chained to.

        If the event with this number is missing, a new chain begins. The verification of the audit decides
        whether that is allowed.
        """
        return Head(number, await self.hash(number) or FIRST_HASH)

    async def delete_older(self, cutoff: int, limit: int) -> int:
        """Deletes at most `limit` events older than `cutoff`, and records where the chain now begins.

        The newest event is always kept, because the next event is chained to it. An event of the future was
        recorded while the clock was ahead; it is deleted with the next event that is old enough.
        """
        oldest = (await self._session.all(OLDEST, limit + 1))[:-1]
        now = self._session.now
        expired = list(itertools.takewhile(lambda row: row[1] < cutoff or row[1] > now, oldest))
        while expired and expired[-1][1] > now:
            expired.pop()
        if expired:
            number, _, hash = expired[-1]
            await self._session.all(DELETE_UP_TO, number)
            anchor = Anchor(number, hash.hex())
            await self._session.all(facts.SET, ANCHOR_FACT, msgspec.json.encode(anchor))
        return len(expired)
