"""Security events: a token at a new address, a sign-in, a refusal.

They occur while requests are served, where nothing may wait: so they are kept in memory and written together
a moment later, and at a graceful stop. A killed process loses those of its last second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from windlass.base.clock import HOUR
from windlass.control.context.call import Origin
from windlass.control.context.context import Context
from windlass.control.records.recording import About, about, emit
from windlass.core.access import Actor
from windlass.core.declare.registry import Operation
from windlass.core.words.events import Event
from windlass.families.organization import organization
from windlass.store import Reads, Tx

AGAIN = 12 * HOUR
"""Time after which a returning person has signed in again."""
REMINDED = 1 * HOUR
"""Interval in which repeated attempts with the same bad token from the same address are one event."""
MOST_KNOWN = 20_000
MOST_WAITING = 10_000
_AT_ONCE = 500


class UnusualCaller(Struct, frozen=True):
    """A caller that was refused, but is known."""

    id: str
    name: str
    org: str
    """Empty: of none; it is the operator's organization that is told."""
    person: bool = False


class CallerSeen(Struct, frozen=True):
    """A security event, with what is known without reading the database."""

    kind: Event
    at: int
    actor: str
    name: str
    orgs: tuple[str, ...]
    """Organizations that it may belong to: the first one, unless its subject belongs to another."""
    whence: Origin
    target: str = ""
    family: str = "apiToken"
    facts: tuple[tuple[str, str], ...] = ()


class SecurityEvents:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._met: dict[tuple[str, str], int] = {}
        """Callers with their addresses, and the time they were last seen."""
        self._denied: dict[tuple[str, str, str], int] = {}
        self._waiting: list[CallerSeen] = []
        self._unwritten = 0
        self._writing: asyncio.Task[None] | None = None

    def knows(self, actor: Actor, address: str) -> bool:
        """Returns true if `met` has nothing to record: a token at an address where it was before. Called for
        every request."""
        return (actor.subject, address) in self._met and not _is_person(actor)

    def met(self, actor: Actor, address: str, now: int) -> bool:
        """Returns whether this caller is new at this address."""
        key = (actor.subject, address)
        last = self._met.get(key)
        if last is not None and not _is_person(actor):
            return False
        if last is None:
            _forget_one(self._met)
        self._met[key] = now
        return last is None or now - last >= AGAIN

    def tell_met(self, actor: Actor, whence: Origin) -> None:
        """A token at a new address, or a person who signed in."""
        kind = Event.SIGNED_IN if _is_person(actor) else Event.TOKEN_USED
        family = "member" if _is_person(actor) else "apiToken"
        self._see(kind, actor, whence, target=actor.id, family=family)

    def refused(
        self, actor: Actor, operation: Operation, path: str, ids: Sequence[str], message: str, whence: Origin
    ) -> None:
        """A 403."""
        facts = (
            ("operation", operation.id),
            ("method", operation.method),
            ("path", path),
            ("message", message),
        )
        self._see(Event.ACCESS_REFUSED, actor, whence, target=operation.subject(ids), family="", facts=facts)

    def denied(self, who: UnusualCaller, why: str, whence: Origin) -> None:
        """Records a token that is no longer valid, or a person without access."""
        now, key = self._ctx.clock.now(), (who.id, whence.address, why)
        if now - self._denied.get(key, -REMINDED) < REMINDED:
            return
        _forget_one(self._denied)
        self._denied[key] = now
        kind, family = (Event.SIGN_IN_REFUSED, "member") if who.person else (Event.TOKEN_REFUSED, "apiToken")
        orgs = (who.org,) if who.org else ()
        self._keep(
            CallerSeen(kind, now, who.id, who.name, orgs, whence, who.id, family, facts=(("message", why),))
        )

    def _see(
        self,
        kind: Event,
        actor: Actor,
        whence: Origin,
        *,
        target: str,
        family: str,
        facts: tuple[tuple[str, str], ...] = (),
    ) -> None:
        now, orgs = self._ctx.clock.now(), actor.organizations
        self._keep(CallerSeen(kind, now, actor.id, actor.name, orgs, whence, target, family, facts))

    def _keep(self, sighting: CallerSeen) -> None:
        """A flood, while the database is away, is counted instead of kept."""
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append(sighting)
        else:
            self._unwritten += 1

    async def note(self) -> None:
        """Writes down what was seen. What could not be written is kept, and tried again with the next.

        Who is stopped here while a batch is on its way leaves it to the next to wait for: it is written once.
        """
        while self._writing is not None or self._waiting:
            writing = self._writing = self._writing or asyncio.create_task(self._write_batch())
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


def _forget_one(known: dict[tuple[str, str], int] | dict[tuple[str, str, str], int]) -> None:
    """The one seen first; it is an event again when it comes back."""
    if len(known) >= MOST_KNOWN:
        del known[next(iter(known))]  # type: ignore[arg-type]


async def _write(ctx: Context, tx: Tx, batch: Sequence[CallerSeen], more: int) -> None:
    for sighting in batch:
        org, found = await _found(ctx, tx, sighting)
        facts = {"seen_at": sighting.at, **dict(sighting.facts)}
        emit(tx, sighting.kind, org, found, sighting.actor, sighting.name, sighting.whence, facts)
    if more:
        last = batch[-1]
        org, found = await _found(ctx, tx, last)
        said = f"{more} more were not written down one by one, because there were too many at once"
        emit(tx, last.kind, org, found, last.actor, last.name, last.whence, {"message": said, "more": more})


async def _found(ctx: Context, tx: Reads, sighting: CallerSeen) -> tuple[str, About]:
    """Returns the subject, if it is in an organization of the caller; otherwise the organization itself."""
    row = await tx.resources.get(sighting.target) if sighting.target else None
    if row is not None and row.org in sighting.orgs:
        return row.org, await about(ctx, tx, row)
    org = sighting.orgs[0] if sighting.orgs else await _operators(tx)
    target = sighting.target if sighting.family else org
    return org, About(target, sighting.family or "organization", org, "organization")


async def _operators(tx: Reads) -> str:
    """Returns the first organization, whose operators are told about persons without an organization."""
    first = await tx.resources.first("", organization.name)
    return first.id if first else ""
