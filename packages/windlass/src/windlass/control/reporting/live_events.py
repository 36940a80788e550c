"""Streams the audit log of an organization.

The state of a stream is its position, an event number. There is no queue for each stream: a slow client reads
missed events from the database, as long as they are retained.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncGenerator
from typing import Final

import msgspec
from msgspec import Struct

from windlass.base.clock import HOUR
from windlass.control.context.call import Call, Reply, encode, reads
from windlass.control.context.context import Context
from windlass.control.context.shared_readers import SharedReader
from windlass.control.reporting import frames
from windlass.control.reporting.audit_entries import TargetNames, show_entry
from windlass.control.request.paths import target
from windlass.control.request.permissions import Visibility
from windlass.core.declare.traits import StreamOptions
from windlass.store import EventRow, Reads, events_topic

_PAGE_SIZE: Final = 200
_MAX_CACHED_EVENTS: Final = 300
"""The number of recent events that are cached, for streams that are slightly behind."""
MAX_CACHED_BYTES: Final = 16 * 1024 * 1024
"""The size of the cached events of one organization, as they are sent."""
_MISSING_EVENTS_REMARK: Final = frames.missing_remark(
    "Events that should come here may no longer be kept: the oldest that are follow. What is so now, lists "
    "and reads tell"
)


class SentEvent(Struct, frozen=True, gc=False):
    """An event in its encoded form; without a row, only a position up to which all events were sent."""

    number: int
    piece: bytes
    row: EventRow | None = None


class Batch(Struct, frozen=True):
    events: list[SentEvent]
    last: int
    """The event number up to which the organization has no further events."""
    whole: bool
    """Indicates whether all present entries were read."""
    gone: bool
    """Indicates whether entries before the batch may be missing."""


class StreamPosition(Struct, frozen=True):
    """The position at which a stream begins."""

    number: int
    lost: bool = False
    """Indicates whether the requested position is unknown."""


@reads("organization.events/stream")
async def follow_events(ctx: Context, call: Call) -> Reply:
    org = await target(ctx.store.reads, call)
    query = call.asked(StreamOptions)
    place = await _start_position(ctx.store.reads, call.last_event)
    follow = _follow if query.follow else _catch_up
    return Reply(stream=follow(ctx, call, org.id, place), org=org.id)


async def _start_position(reads: Reads, last_event_id: str | None) -> StreamPosition:
    """Returns the position after the event with the id `last_event_id`; without an id, the position after all
    current events."""
    oldest, newest = await reads.events.span()
    if last_event_id is None:
        return StreamPosition(newest)
    if (
        last_event_id.isascii()
        and last_event_id.isdecimal()
        and len(last_event_id) <= 18
        and int(last_event_id) <= newest
    ):
        return StreamPosition(int(last_event_id))
    return StreamPosition(max(0, oldest - 1), lost=True)


async def _follow(
    ctx: Context, call: Call, org: str, position: StreamPosition
) -> AsyncGenerator[bytes, None]:
    full, at = call.dialect.is_full, position.number
    yield _first_message(position)
    with ctx.readers.join(
        ("events", org, full), lambda: _EventReader(ctx, org, is_full_interface=full)
    ) as reader:
        while True:
            if reader.is_at_hand(at):
                events, at = reader.after(at)
                gone = False
            elif reader.is_ahead_of(at):
                batch = await _read(ctx, org, at, is_full_interface=full)
                events, at, gone = batch.events, batch.last, batch.gone
            else:
                await reader.news()
                continue
            if pieces := await _pieces(ctx, call, org, events, gone=gone):
                yield pieces


async def _catch_up(
    ctx: Context, call: Call, org: str, position: StreamPosition
) -> AsyncGenerator[bytes, None]:
    full, at = call.dialect.is_full, position.number
    yield _first_message(position)
    whole = False
    while not whole:
        batch = await _read(ctx, org, at, is_full_interface=full)
        at, whole = batch.last, batch.whole
        if pieces := await _pieces(ctx, call, org, batch.events, gone=batch.gone):
            yield pieces
    yield _mark(at) + frames.END_REMARK


def _first_message(position: StreamPosition) -> bytes:
    return (_MISSING_EVENTS_REMARK if position.lost else b"") + _mark(position.number)


def _mark(number: int) -> bytes:
    """Returns an event that has only an id. Clients do not display it, but send the id when they
    reconnect."""
    return b"id: %d\n\n" % number


async def _pieces(ctx: Context, call: Call, org: str, events: list[SentEvent], *, gone: bool) -> bytes:
    sight = Visibility(ctx.store.reads, call.actor, org)
    visible = [
        event.piece
        for event in events
        if sight.is_whole or event.row is None or await sight.includes_event(event.row)
    ]
    return b"".join([_MISSING_EVENTS_REMARK, *visible] if gone else visible)


class _EventReader(SharedReader):
    """Reads the newest events of one organization in one dialect."""

    # A burst of events is sent in batches of this many seconds, instead of one by one to thousands of
    # streams.
    resting = 0.02

    def __init__(self, ctx: Context, org: str, *, is_full_interface: bool) -> None:
        super().__init__(ctx.nudges)
        self._ctx = ctx
        self._org = org
        self._full = is_full_interface
        self._recent: list[SentEvent] = []
        self._floor = self._place = -1
        """All events between these two positions are cached."""
        self._marked = ctx.clock.now()
        self.expect({events_topic(org)})

    def is_ahead_of(self, timestamp: int) -> bool:
        return timestamp < self._place

    def is_at_hand(self, timestamp: int) -> bool:
        return self._floor <= timestamp < self._place

    def after(self, timestamp: int) -> tuple[list[SentEvent], int]:
        return self._recent[bisect_right(self._recent, timestamp, key=_number) :], self._place

    async def look(self) -> bool:
        source = self._ctx.store.reads
        if self._place < 0:
            _, self._place = await source.events.span()
            self._floor = self._place
            return True
        batch = await _read(self._ctx, self._org, self._place, is_full_interface=self._full)
        events = [*batch.events, *self._marks(batch.last)]
        self._cache_events(batch, events)
        if not batch.whole:
            self._called.set()
        return bool(events) or batch.gone

    def _cache_events(self, batch: Batch, events: list[SentEvent]) -> None:
        self._recent += events
        if batch.gone:
            self._recent, self._floor = [], batch.last  # each stream reads the events from the database
        if dropped := len(self._recent) - _count_to_keep(self._recent):
            self._floor = self._recent[dropped - 1].number
            del self._recent[:dropped]
        self._place = batch.last

    def _marks(self, position: int) -> list[SentEvent]:
        """Returns a position event once an hour. Without it, the last position of a quiet stream could become
        older than the retention."""
        now = self._ctx.clock.now()
        if now - self._marked < HOUR:
            return []
        self._marked = now
        return [SentEvent(position, _mark(position))]


def _count_to_keep(events: list[SentEvent]) -> int:
    """Returns how many of the newest events are cached."""
    left = MAX_CACHED_BYTES
    for count, event in enumerate(reversed(events[-_MAX_CACHED_EVENTS:])):
        left -= len(event.piece)
        if left < 0:
            return count
    return min(len(events), _MAX_CACHED_EVENTS)


def _number(event: SentEvent) -> int:
    return event.number


async def _read(ctx: Context, org: str, after_number: int, *, is_full_interface: bool) -> Batch:
    """Reads the next entries. The newest number is read before them, so that no new entry is skipped, and the
    oldest number after them, so that deletions are detected."""
    source = ctx.store.reads
    _, newest = await source.events.span()
    rows = await source.events.after(org, after_number, _PAGE_SIZE)
    oldest, _ = await source.events.span()
    names = TargetNames(source, ctx.registry.audit)
    events = [
        SentEvent(
            row.seq,
            await _piece(row, names, is_full_interface=is_full_interface),
            msgspec.structs.replace(row, body=b""),  # the piece has it already
        )
        for row in rows
    ]
    whole = len(rows) < _PAGE_SIZE and not rows.is_cut
    last = max(rows[-1].seq if rows else after_number, newest if whole else 0)
    return Batch(events, last, whole, gone=after_number < oldest - 1)


async def _piece(row: EventRow, names: TargetNames, *, is_full_interface: bool) -> bytes:
    return frames.event(
        b"%d" % row.seq, encode(await show_entry(row, names, is_full_interface=is_full_interface))
    )
