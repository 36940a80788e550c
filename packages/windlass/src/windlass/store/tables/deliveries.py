"""Deliveries: events that are sent to webhooks, in order within each lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from windlass.base import ids
from windlass.store.tables import counters
from windlass.store.tables.table import ChangeSession, Table, columns


class DeliveryRow(Struct, frozen=True, gc=False):
    """An event for a webhook, with the state of its delivery."""

    id: str
    webhook: str
    lane: str
    """Name of the delivery's lane. Deliveries of one lane must arrive in order."""
    number: int
    kind: str
    created: int
    state: str
    due: int
    attempts: int
    body: bytes
    story: bytes
    address: str = ""
    """A keyed digest of the URL that the delivery was last sent to."""
    trace: str = ""
    """The trace of the request that caused the event."""


_COLUMNS: Final = columns(DeliveryRow)
GET: Final = f"SELECT {_COLUMNS} FROM delivery WHERE id = $1 AND webhook = $2"
PAGE: Final = f"""
SELECT {_COLUMNS} FROM delivery WHERE webhook = $1 ORDER BY number DESC LIMIT $2 OFFSET $3"""
COUNT: Final = "SELECT count(*) FROM delivery WHERE webhook = $1"
# Within a lane, deliveries stay in order: a new delivery is due no earlier than the waiting ones.
ADD: Final = f"""
INSERT INTO delivery ({_COLUMNS}) SELECT $1, $2, $3, $4, $5, $6, 'WAITING',
    (SELECT CASE WHEN max(due) > $6 THEN max(due) ELSE $6 END
     FROM delivery WHERE webhook = $2 AND lane = $3 AND state = 'WAITING'),
    0, $7, $8, '', $9"""
# The first few of each lane, so that a long lane does not block the others.
DUE: Final = f"""
SELECT {_COLUMNS} FROM (
    SELECT {_COLUMNS}, row_number() OVER (PARTITION BY lane ORDER BY number) AS place
    FROM delivery WHERE webhook = $1 AND state = 'WAITING' AND due <= $2
) AS waiting
WHERE place <= $3 ORDER BY number LIMIT $4"""
NEXT_DUE: Final = "SELECT min(due) FROM delivery WHERE webhook = $1 AND state = 'WAITING'"
CHANGE: Final = """
UPDATE delivery SET state = $1, due = $2, attempts = $3, story = $4, address = $5 WHERE id = $6"""
POSTPONE: Final = """
UPDATE delivery SET due = $1 WHERE webhook = $2 AND lane = $3 AND state = 'WAITING' AND due < $1"""
SET_DUE_EARLIER: Final = """
UPDATE delivery SET due = $1 WHERE webhook = $2 AND state = 'WAITING' AND due > $1"""
REPEAT: Final = """
UPDATE delivery SET state = 'WAITING', due = $1, attempts = 0
WHERE webhook = $2 AND created >= $3 AND (state = 'FAILED' OR (state = 'DELIVERED' AND $4 = 0))
    AND address = $5
RETURNING id"""
REPEAT_ONE: Final = """
UPDATE delivery SET state = 'WAITING', due = $1, attempts = 0 WHERE webhook = $2 AND id = $3
RETURNING id"""
MARK_FAILED: Final = """
UPDATE delivery SET state = 'FAILED' WHERE webhook = $1 AND lane = $2 AND state = 'WAITING'"""
DELETE_OF_WEBHOOK: Final = "DELETE FROM delivery WHERE webhook = $1"
DELETE_EXPIRED: Final = """
DELETE FROM delivery
WHERE (state <> 'WAITING' AND created < $1)
    OR NOT EXISTS (SELECT 1 FROM resource WHERE resource.id = delivery.webhook)"""


class DeliveryTable(Table):
    __slots__ = ()

    async def get(self, webhook: str, id: str) -> DeliveryRow | None:
        row = await self._session.one(GET, id, webhook)
        return DeliveryRow(*row) if row else None

    async def page(self, webhook: str, skip: int, limit: int) -> tuple[list[DeliveryRow], int]:
        """Returns a page of deliveries, the newest first, and their total number."""
        count = await self._session.one(COUNT, webhook)
        rows = await self._session.all(PAGE, webhook, limit, skip)
        return [DeliveryRow(*row) for row in rows], count[0] if count else 0

    async def due(self, webhook: str, now: int, most_each: int, limit: int) -> list[DeliveryRow]:
        """Returns due deliveries in order, at most `most_each` per lane."""
        return [DeliveryRow(*row) for row in await self._session.all(DUE, webhook, now, most_each, limit)]

    async def next(self, webhook: str) -> int | None:
        """Returns the time when the next delivery is due."""
        row = await self._session.one(NEXT_DUE, webhook)
        return row[0] if row else None


class DeliveryChanges(DeliveryTable):
    __slots__ = ()
    _session: ChangeSession

    async def add(self, deliveries: Sequence[tuple[str, str, str, bytes]], trace: str = "") -> list[str]:
        """Adds deliveries, each given by webhook, lane, kind and body. Returns their ids."""
        last = await counters.advance(self._session, "delivery", len(deliveries))
        rows = [
            (ids.new_id(), webhook, lane, number, kind, self._session.now, body, b"[]", trace)
            for number, (webhook, lane, kind, body) in enumerate(deliveries, last - len(deliveries) + 1)
        ]
        await self._session.many(ADD, rows)
        return [row[0] for row in rows]

    async def change(self, deliveries: Sequence[DeliveryRow]) -> None:
        rows = [(row.state, row.due, row.attempts, row.story, row.address, row.id) for row in deliveries]
        await self._session.many(CHANGE, rows)

    async def postpone(self, webhook: str, lane: str, due_at: int) -> None:
        """Delays all waiting deliveries of a lane until `due_at`."""
        await self._session.all(POSTPONE, due_at, webhook, lane)

    async def hurry(self, webhook: str) -> None:
        """Makes all waiting deliveries of a webhook due now."""
        await self._session.all(SET_DUE_EARLIER, self._session.now, webhook)

    async def fail(self, webhook: str, lane: str) -> None:
        """Marks all waiting deliveries of a lane as failed."""
        await self._session.all(MARK_FAILED, webhook, lane)

    async def repeat(self, webhook: str, start_time: int, address: str, *, only_failed: bool) -> int:
        """Repeats finished deliveries that were sent to this URL. Returns their number."""
        now = self._session.now
        return len(await self._session.all(REPEAT, now, webhook, start_time, int(only_failed), address))

    async def repeat_one(self, webhook: str, id: str) -> bool:
        return bool(await self._session.all(REPEAT_ONE, self._session.now, webhook, id))

    async def delete_of(self, webhook: str) -> None:
        await self._session.all(DELETE_OF_WEBHOOK, webhook)

    async def delete_expired(self, cutoff: int) -> None:
        """Deletes old finished deliveries, and all deliveries of deleted webhooks."""
        await self._session.all(DELETE_EXPIRED, cutoff)
