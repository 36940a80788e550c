"""Streams the statuses of an environment and its services.

A stream remembers only the last state that it has sent. A slow client gets the newest state, and misses the
states in between.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator

from msgspec import Struct

from windlass.control.context.call import Call, Reply, encode, reads
from windlass.control.context.context import Context
from windlass.control.context.shared_readers import SharedReader
from windlass.control.reporting import frames
from windlass.control.request.paths import target
from windlass.control.services.environments import Statuses, statuses_of
from windlass.core.declare.document import Document
from windlass.core.declare.traits import StreamOptions
from windlass.families.environment import environment
from windlass.store import Row, inside_topic, status_topic


class StatusSnapshot(Struct, frozen=True, eq=False):
    """All statuses of an environment at one moment."""

    environment: Document
    services: dict[str, tuple[str, Document]]
    """The list and the status of each service, by id."""
    lists: tuple[str, ...]
    mark: str

    def differs(self, other: StatusSnapshot | None) -> bool:
        return other is None or (self.environment, self.services) != (other.environment, other.services)


def state_of(statuses: Statuses) -> StatusSnapshot:
    services = {
        str(status["id"]): (name, status) for name, listed in statuses.services.items() for status in listed
    }
    mark = hashlib.blake2b(encode(statuses.document), digest_size=8).hexdigest()
    return StatusSnapshot(statuses.environment, services, tuple(statuses.services), mark)


def event_between(previous_snapshot: StatusSnapshot | None, now: StatusSnapshot) -> bytes:
    """Returns an event with the changes from one snapshot to the next."""
    former = previous_snapshot.services if previous_snapshot else {}
    changed: dict[str, list[Document]] = {name: [] for name in now.lists}
    for id, (name, status) in now.services.items():
        if former.get(id) != (name, status):
            changed[name].append(status)
    data = {
        "environment": now.environment,
        **changed,
        "complete": previous_snapshot is None,
        "removed": [id for id in former if id not in now.services],
    }
    return frames.event(now.mark.encode(), encode(data))


@reads("environment.status/stream")
async def follow_status(ctx: Context, call: Call) -> Reply:
    row = await target(ctx.store.reads, call)
    query = call.asked(StreamOptions)
    if query.follow:
        return Reply(stream=_follow(ctx, call, row), org=row.org)
    return Reply(
        stream=_snapshot_only(state_of(await statuses_of(ctx, ctx.store.reads, call, row))), org=row.org
    )


async def _snapshot_only(state: StatusSnapshot) -> AsyncGenerator[bytes, None]:
    yield event_between(None, state) + frames.END_REMARK


async def _follow(ctx: Context, call: Call, row: Row) -> AsyncGenerator[bytes, None]:
    before: StatusSnapshot | None = None
    key = ("statuses", row.id, call.dialect.name)
    with ctx.readers.join(key, lambda: _StatusReader(ctx, call, row)) as reader:
        await reader.fresh()
        while (now := reader.state) is not None:
            if now is before:
                await reader.news()
            else:
                yield reader.event_since(before)
                before = now
    yield frames.END_REMARK


class _StatusReader(SharedReader):
    """Reads the statuses of one environment in one dialect, for all its streams."""

    # A deployment makes several changes in quick succession.
    resting = 0.05

    def __init__(self, ctx: Context, call: Call, row: Row) -> None:
        super().__init__(ctx.nudges)
        self._ctx = ctx
        self._call = call
        self._row = row
        self.state: StatusSnapshot | None = None
        """The current statuses; None before the first check, and after the environment was deleted."""
        self._last: tuple[StatusSnapshot | None, StatusSnapshot, bytes] | None = None
        self._place = {inside_topic(row.id), inside_topic(row.parent), status_topic(row.id)}
        self.expect(self._place)

    async def look(self) -> bool:
        source = self._ctx.store.reads
        row = await source.resources.find(environment.name, self._row.id)
        if row is None:
            self.state = None
            return True
        state = state_of(await statuses_of(self._ctx, source, self._call, row))
        self.expect(self._place | {status_topic(id) for id in state.services})
        if not state.differs(self.state):
            return False
        self.state = state
        return True

    def event_since(self, previous_snapshot: StatusSnapshot | None) -> bytes:
        """Returns the event with the changes since an earlier snapshot. Streams with the same snapshot share
        one event."""
        assert self.state is not None
        if self._last is None or self._last[0] is not previous_snapshot or self._last[1] is not self.state:
            self._last = (previous_snapshot, self.state, event_between(previous_snapshot, self.state))
        return self._last[2]
