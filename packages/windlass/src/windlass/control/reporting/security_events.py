"""Security events: tokens at new addresses, sign-ins, and refusals.

API requests must not wait for these writes, so events are buffered in memory and written in batches a moment
later and at a graceful stop. A killed process loses the events of its last second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from windlass.base.clock import HOUR
from windlass.base.trace import start_untraced
from windlass.control.context.call import Origin
from windlass.control.context.context import Context
from windlass.control.records.recording import About, about, emit
from windlass.core.access import Actor
from windlass.core.declare.registry import Operation
from windlass.core.words.events import Event
from windlass.families.organization import organization
from windlass.store import Reads, Tx

NEW_SIGN_IN_AFTER = 12 * HOUR
"""The time after which a request of a person counts as another sign-in."""
REPEAT_INTERVAL = 1 * HOUR
"""The interval in which repeated attempts with the same invalid token from the same address are one event."""
MAX_CALLERS = 20_000
MAX_WAITING_EVENTS = 10_000
_AT_ONCE = 500


class UnusualCaller(Struct, frozen=True):
    """A known caller whose request was refused."""

    id: str
    name: str
    org: str
    """The organization of the caller. If it is empty, the event is recorded in the first organization."""
    person: bool = False


class CallerSeen(Struct, frozen=True):
    """A security event, with the details that are available without the database."""

    kind: Event
    at: int
    actor: str
    name: str
    orgs: tuple[str, ...]
    """Organizations in which the event may be recorded: the subject's organization if it is among them,
    otherwise the first one."""
    origin: Origin
    target: str = ""
    family: str = "apiToken"
    data: tuple[tuple[str, str], ...] = ()


class SecurityEvents:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._seen: dict[tuple[str, str], int] = {}
        """The times at which callers were last seen, by caller and address."""
        self._denials: dict[tuple[str, str, str], int] = {}
        self._waiting: list[CallerSeen] = []
        self._unwritten = 0
        self._writing: asyncio.Task[None] | None = None

    def knows(self, actor: Actor, address: str) -> bool:
        """Returns whether a token was used at this address before. Fast, because it runs for every
        request."""
        return (actor.subject, address) in self._seen and not _is_person(actor)

    def is_new_caller(self, actor: Actor, address: str, now: int) -> bool:
        """Returns whether this caller is new at this address."""
        key = (actor.subject, address)
        last = self._seen.get(key)
        if last is not None and not _is_person(actor):
            return False
        if last is None:
            _forget_one(self._seen)
        self._seen[key] = now
        return last is None or now - last >= NEW_SIGN_IN_AFTER

    def record_new_caller(self, actor: Actor, origin: Origin) -> None:
        """Records a token at a new address, or a sign-in."""
        kind = Event.SIGNED_IN if _is_person(actor) else Event.TOKEN_USED
        family = "member" if _is_person(actor) else "apiToken"
        self._note_caller(kind, actor, origin, target=actor.id, family=family)

    def record_refused(
        self, actor: Actor, operation: Operation, path: str, ids: Sequence[str], message: str, origin: Origin
    ) -> None:
        """Records a request that was answered with status 403."""
        data = (
            ("operation", operation.id),
            ("method", operation.method),
            ("path", path),
            ("message", message),
        )
        self._note_caller(
            Event.ACCESS_REFUSED, actor, origin, target=operation.subject(ids), family="", data=data
        )

    def record_denied(self, caller: UnusualCaller, reason: str, origin: Origin) -> None:
        """Records a token that is no longer valid, or a person without access."""
        now, key = self._ctx.clock.now(), (caller.id, origin.address, reason)
        if now - self._denials.get(key, -REPEAT_INTERVAL) < REPEAT_INTERVAL:
            return
        _forget_one(self._denials)
        self._denials[key] = now
        kind, family = (
            (Event.SIGN_IN_REFUSED, "member") if caller.person else (Event.TOKEN_REFUSED, "apiToken")
        )
        orgs = (caller.org,) if caller.org else ()
        self._keep_sighting(
            CallerSeen(
                kind,
                now,
                caller.id,
                caller.name,
                orgs,
                origin,
                caller.id,
                family,
                data=(("message", reason),),
            )
        )

    def _note_caller(
        self,
        kind: Event,
        actor: Actor,
        origin: Origin,
        *,
        target: str,
        family: str,
        data: tuple[tuple[str, str], ...] = (),
    ) -> None:
        now, orgs = self._ctx.clock.now(), actor.organizations
        self._keep_sighting(CallerSeen(kind, now, actor.id, actor.name, orgs, origin, target, family, data))

    def _keep_sighting(self, sighting: CallerSeen) -> None:
        """Adds an event to the buffer. If the buffer is full, while the database is unavailable, the event is
        only counted."""
        if len(self._waiting) < MAX_WAITING_EVENTS:
            self._waiting.append(sighting)
        else:
            self._unwritten += 1

    async def note(self) -> None:
        """Writes the buffered events. After a failure, the events stay in the buffer for the next call.

        If a caller is cancelled during the write of a batch, the next caller waits for the same write, so
        that the batch is written only once.
        """
        while self._writing is not None or self._waiting:
            writing = self._writing = self._writing or start_untraced(self._write_batch())
            try:
                await asyncio.shield(writing)
            finally:
                if writing.done():
                    self._writing = None

    async def _write_batch(self) -> None:
        batch = self._waiting[:_AT_ONCE]
        unwritten = self._unwritten if len(batch) == len(self._waiting) else 0
        await self._ctx.store.write(lambda tx: _write(self._ctx, tx, batch, unwritten))
        del self._waiting[: len(batch)]
        self._unwritten -= unwritten


def _is_person(actor: Actor) -> bool:
    return actor.subject.startswith("jwt:")


def _forget_one(callers: dict[tuple[str, str], int] | dict[tuple[str, str, str], int]) -> None:
    """Removes the oldest entry if there are too many. If its caller returns, another event is recorded."""
    if len(callers) >= MAX_CALLERS:
        del callers[next(iter(callers))]  # type: ignore[arg-type]


async def _write(ctx: Context, tx: Tx, batch: Sequence[CallerSeen], omitted: int) -> None:
    for sighting in batch:
        org, target = await _find_subject(ctx, tx, sighting)
        data = {"seen_at": sighting.at, **dict(sighting.data)}
        emit(tx, sighting.kind, org, target, sighting.actor, sighting.name, sighting.origin, data)
    if omitted:
        last = batch[-1]
        org, target = await _find_subject(ctx, tx, last)
        message = f"{omitted} more were not recorded one by one, because there were too many at once"
        emit(
            tx,
            last.kind,
            org,
            target,
            last.actor,
            last.name,
            last.origin,
            {"message": message, "more": omitted},
        )


async def _find_subject(ctx: Context, tx: Reads, sighting: CallerSeen) -> tuple[str, About]:
    """Returns the subject if it belongs to an organization of the caller, otherwise the organization
    itself."""
    row = await tx.resources.get(sighting.target) if sighting.target else None
    if row is not None and row.org in sighting.orgs:
        return row.org, await about(ctx, tx, row)
    org = sighting.orgs[0] if sighting.orgs else await _first_organization(tx)
    target = sighting.target if sighting.family else org
    return org, About(target, sighting.family or "organization", org, "organization")


async def _first_organization(tx: Reads) -> str:
    """Returns the first organization, whose audit log contains the events of people without an
    organization."""
    first = await tx.resources.first("", organization.name)
    return first.id if first else ""
