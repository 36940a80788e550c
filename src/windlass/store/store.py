"""What is kept, and how it is asked for. The only room with SQL; two databases, one set of statements.

Reading is a method of `Reads`. Changing happens in a function handed to `Store.write`: it gets a `Tx`,
sees and changes everything as if it were alone, and may be run again from the start. Writers are
taken one after the other, in groups that are committed together, on both databases: whatever is
acknowledged is durable, and events are numbered in the order of commit.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec
from msgspec import Struct

from windlass.base import ids
from windlass.core.declare.stored import read
from windlass.store import statements as sql
from windlass.store.chain import ANCHOR, BEGINNING, Anchor, ChainEnd, Head, anchor_of, chained
from windlass.store.turns import Due, Turns

T = TypeVar("T")
R = TypeVar("R", bound=Struct)
Write = Callable[["Tx"], Awaitable[T]]

FAR = 2**62
"""A time that never comes."""
DEAF: Final = "deaf"
"""A nudge that is made here alone: others may have been missed."""

ROUTE: Final = "route:"
QUICK: Final = 0
LANES: Final = {"reconcile": 1, "deliver": 2}
"""Kinds of work that have slots of their own; all others are quick, and share one lane."""
# So many of the longest-waiting pieces of work are looked at before organizations are.
_FRONT: Final = 64

# Holes are counted in blocks of 64, 64², 64³ and 64⁴ places.
_FANOUT, _LEVELS = 64, 4
# Up to here, skipping rows is cheaper than looking for the place.
_NEAR = 256


class Row(Struct, frozen=True, gc=False):
    """A resource as it lies in the table; `body` is the answer."""

    id: str
    family: str
    org: str
    parent: str
    pos: int
    name: str | None
    created: int
    tag: str
    body: bytes
    sealed: bytes | None = None

    def read(self, struct: type[R]) -> R:
        """Decodes the part of the document that a struct declares: `row.read(Application)`."""
        return read(self.body, struct)


class StatusRow(Struct, frozen=True, gc=False):
    id: str
    org: str
    state: str
    message: str
    deployment: str | None
    deployments: int
    deployed_at: int | None
    changed: int
    serving: str | None = None
    """The deployment whose generation is meant to run."""
    digest: str = ""
    """Of all that it was deployed with."""
    instances: int = 0
    """How many were wanted last, between least and most."""


class DeploymentRow(Struct, frozen=True, gc=False):
    id: str
    org: str
    service: str
    number: int
    status: str
    created: int
    changed: int
    body: bytes
    action: str = "DEPLOY"
    sealed: bytes | None = None
    """What it runs, in every detail."""


class NameRow(Struct, frozen=True, gc=False):
    """A name that a service holds: the label of a host, or a port of the machine."""

    name: str
    service: str
    port: str = ""
    """The port of the service that it is for, by name; empty for the service itself."""
    wish: str = ""
    """The name it stands for, which another service may hold."""
    number: int = 0
    """Of the reservation: of two that held one name, the later one has the greater number."""


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
    """What people look for: of a variable, the service; otherwise the target itself."""
    subject_family: str = ""
    actor: str = ""
    origin: str = ""
    project: str = ""
    environment: str = ""
    hash: bytes | None = None
    """None, if it is from before the chain."""


class EventFilter(Struct, frozen=True, kw_only=True):
    """Which events are wanted. What is empty wants nothing in particular."""

    org: str
    since: int = 0
    until: int = FAR
    kinds: tuple[str, ...] = ()
    """Up to four."""
    subject_families: tuple[str, ...] = ()
    """Up to two."""
    family: str = ""
    subject: str = ""
    actor: str = ""
    origin: str = ""
    project: str = ""
    environment: str = ""

    @property
    def is_choosy(self) -> bool:
        """Whether few of those that are looked at are wanted."""
        by = [name for name in ("subject", "environment", "project") if getattr(self, name)]
        rest = [self.kinds, self.subject_families, self.family, self.actor, self.origin, *by[1:]]
        return any(rest) or self.since > 0 or self.until < FAR

    @property
    def base(self) -> tuple[str, str]:
        """The column whose index leaves least to look at, and its value."""
        for name in ("subject", "environment", "project"):
            if value := getattr(self, name):
                return name, value
        return "org", self.org

    @property
    def values(self) -> tuple[Any, ...]:
        return (
            self.org, self.since, self.until, *_filled(self.kinds, 4), *_filled(self.subject_families, 2),
            self.family, self.subject, self.actor, self.origin, self.project, self.environment,
        )  # fmt: skip


def _filled(wanted: tuple[str, ...], places: int) -> tuple[str, ...]:
    assert len(wanted) <= places
    return (*wanted, *[wanted[0] if wanted else ""] * (places - len(wanted)))


_OLDER: Final = {
    "org": sql.EVENTS_OLDER_ORG,
    "subject": sql.EVENTS_OLDER_SUBJECT,
    "project": sql.EVENTS_OLDER_PROJECT,
    "environment": sql.EVENTS_OLDER_ENVIRONMENT,
}
_NEWER: Final = {
    "org": sql.EVENTS_NEWER_ORG,
    "subject": sql.EVENTS_NEWER_SUBJECT,
    "project": sql.EVENTS_NEWER_PROJECT,
    "environment": sql.EVENTS_NEWER_ENVIRONMENT,
}


class IdempotentAnswer(Struct, frozen=True, gc=False):
    """The answer to a request that carried an Idempotency-Key."""

    request: str
    """A keyed digest."""
    at: int
    answer: bytes
    once: bytes | None
    """What the answer showed once, for as long as it may be shown again."""


class DeliveryRow(Struct, frozen=True, gc=False):
    """An event on its way to a receiver."""

    id: str
    webhook: str
    lane: str
    """What must arrive in order."""
    number: int
    kind: str
    created: int
    state: str
    due: int
    attempts: int
    body: bytes
    story: bytes
    address: str = ""
    """A keyed digest of where it was sent last."""


class Receiver(Struct, frozen=True, gc=False):
    """How a receiver does. As long as it is well, nothing is kept of it."""

    failing: int = 0
    """Since when it takes nothing."""
    fails: int = 0
    """How often in a row it did not take what it was sent."""
    silent: int = 0
    """Whether, when it was last looked for, there was nobody."""


class Claim(Struct, frozen=True, gc=False):
    """A piece of work, held until the lease ends or the epoch moves on."""

    id: str
    kind: str
    epoch: int
    attempts: int


class NameTaken(Exception):
    """A value that must be unique is there already. The change ends with it: PostgreSQL goes on no more."""


class DatabaseSession(Protocol):
    """One connection, or something that acts as one."""

    async def one(self, statement: str, *values: Any) -> Sequence[Any] | None: ...

    async def all(self, statement: str, *values: Any) -> Sequence[Sequence[Any]]: ...

    async def many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None: ...


class Reads:
    """Questions that need no transaction, and those that a transaction may ask too."""

    def __init__(self, session: DatabaseSession) -> None:
        self._one = session.one
        self._all = session.all

    async def find(self, family: str, id: str) -> Row | None:
        row = await self._one(sql.FIND, id, family)
        return Row(*row) if row else None

    async def get(self, id: str) -> Row | None:
        row = await self._one(sql.GET, id)
        return Row(*row) if row else None

    async def named(self, parent: str, family: str, name: str) -> Row | None:
        row = await self._one(sql.BY_NAME, parent, family, name)
        return Row(*row) if row else None

    async def first(self, parent: str, family: str) -> Row | None:
        row = await self._one(sql.FIRST, parent, family)
        return Row(*row) if row else None

    async def of_org(self, org: str, family: str) -> list[Row]:
        return [Row(*row) for row in await self._all(sql.OF_ORG, org, family)]

    async def of_parent(self, parent: str, family: str) -> list[Row]:
        return [Row(*row) for row in await self._all(sql.OF_PARENT, parent, family)]

    async def list_version(self, parent: str, family: str) -> tuple[int, int, int]:
        """Another one after each creation, change and deletion in this list."""
        row = await self._one(sql.TALLY_VERSION, parent, family)
        return (row[0], row[1], row[2]) if row else (0, 0, 0)

    async def linked(self, target: str, field: str) -> list[Row]:
        """Whatever refers to `target` by this field."""
        return [Row(*row) for row in await self._all(sql.LINKED, target, field)]

    async def above(self, id: str) -> list[Row]:
        """The resource itself, its parent, and so on to the organization."""
        return [Row(*row) for row in await self._all(sql.ABOVE, id)]

    async def on_path(self, org: str, family: str, path: Sequence[str]) -> list[list[str]]:
        """Ids of resources with this name or id below others with these, nearest first, and of all that they
        are in. An empty text stands for any."""
        keys = (*path, "", "")[:3]
        return [
            [id for id in row if id is not None] for row in await self._all(sql.ON_PATH, org, family, *keys)
        ]

    async def services_of(
        self, org: str, family: str, project: str, environment: str
    ) -> list[tuple[str, str, str, str]]:
        """Id and family of services, with the ids of environment and project; an empty text is any."""
        found = await self._all(sql.SERVICES_OF_ORG, org, family, project, environment)
        return [(row[0], row[1], row[2], row[3]) for row in found]

    async def marks(self, id: str, families: Sequence[str]) -> list[tuple[str, str, str, str | None]]:
        """Id, family, tag and name of all resources of these families at the levels from `id` up."""
        padding = [""] * (sql.MOST_MARKED - len(families))
        found = await self._all(sql.MARKS, id, *families, *padding)
        return [(row[0], row[1], row[2], row[3]) for row in found]

    async def page(self, parent: str, family: str, skip: int, most: int) -> tuple[list[bytes], int]:
        """A slice of a list in the order of creation, and how long the list is, at a cost that depends on
        neither the length nor the place."""
        tally = await self._one(sql.TALLY, parent, family)
        last, live = tally if tally else (0, 0)
        most = min(most, live - skip)
        if most <= 0:
            return [], live
        if last == live:
            rows = await self._all(sql.PAGE, parent, family, skip + 1, most)
        elif skip <= _NEAR:
            rows = await self._all(sql.PAGE_SKIPPING, parent, family, 1, most, skip)
        elif live - skip - most <= _NEAR:
            rows = (await self._all(sql.PAGE_BACKWARDS, parent, family, most, live - skip - most))[::-1]
        else:
            start, rest = await self._place(parent, family, skip)
            rows = await self._all(sql.PAGE_SKIPPING, parent, family, start, most, rest)
        return [row[0] for row in rows], live

    async def _place(self, parent: str, family: str, skip: int) -> tuple[int, int]:
        """Where to start, and how many live rows to skip from there, to stand after `skip` live rows."""
        block, rest = 0, skip
        for level in range(_LEVELS, 0, -1):
            size = _FANOUT**level
            end = block + _FANOUT if level < _LEVELS else FAR
            found = await self._all(sql.HOLES, parent, family, level, block, end)
            holes: dict[int, int] = {row[0]: row[1] for row in found}
            while rest >= size - holes.get(block, 0):
                rest -= size - holes.get(block, 0)
                block += 1
            block *= _FANOUT
        return block + 1, rest

    async def volumes(self, service: str) -> set[str]:
        """Returns the names of the volumes that a deployment of this service has served with."""
        return {row[0] for row in await self._all(sql.VOLUMES, service)}

    async def status(self, id: str) -> StatusRow | None:
        row = await self._one(sql.STATUS, id)
        return StatusRow(*row) if row else None

    async def deployment(self, id: str) -> DeploymentRow | None:
        row = await self._one(sql.DEPLOYMENT, id)
        return DeploymentRow(*row) if row else None

    async def open_deployments(self, service: str) -> list[DeploymentRow]:
        return [DeploymentRow(*row) for row in await self._all(sql.DEPLOYMENTS_OPEN, service)]

    async def deployments(self, service: str, most: int, newest: int = FAR) -> list[DeploymentRow]:
        """The newest first, from this number downwards."""
        return [DeploymentRow(*row) for row in await self._all(sql.DEPLOYMENTS, service, newest, most)]

    async def ended_deployments(self, service: str, most: int, newest: int = FAR) -> list[DeploymentRow]:
        """Those that neither wait nor are under way."""
        return [DeploymentRow(*row) for row in await self._all(sql.DEPLOYMENTS_ENDED, service, newest, most)]

    async def statuses_below(self, parent: str) -> list[StatusRow]:
        return [StatusRow(*row) for row in await self._all(sql.STATUS_BELOW, parent)]

    async def serving(self) -> list[tuple[str, str, str]]:
        """Services that are meant to run, each with its organization and the deployment that it runs."""
        return [(row[0], row[1], row[2]) for row in await self._all(sql.STATUS_SERVING)]

    async def services(self) -> list[str]:
        return [row[0] for row in await self._all(sql.STATUS_ALL)]

    async def services_by_age(self) -> list[str]:
        """Returns all services: running ones first, and in each part the oldest first."""
        return [row[0] for row in await self._all(sql.STATUS_OLDEST)]

    async def deployed_at_or_below(self, id: str) -> list[str]:
        """Services that were ever deployed: this one, or those below it."""
        return [row[0] for row in await self._all(sql.DEPLOYED_AT_OR_BELOW, id)]

    async def deletion_at_or_above(self, id: str) -> Row | None:
        """A resource that waits for its services to be deleted: this one, or one that it lies in."""
        row = await self._one(sql.DELETION_AT_OR_ABOVE, id)
        return await self.get(row[0]) if row else None

    async def deletion(self, id: str) -> bytes | None:
        """Who asked for the deletion of a resource that waits for its services."""
        row = await self._one(sql.DELETION, id)
        return bytes(row[0]) if row else None

    async def is_deleted(self, service: str) -> bool:
        """True if this database deleted the service: only then may its data be erased."""
        return await self._one(sql.TOMBSTONE, service) is not None

    async def names(self, service: str) -> list[NameRow]:
        """The names that this service holds, in the order in which it got them."""
        return [NameRow(*row) for row in await self._all(sql.NAMES_OF, service)]

    async def events(self, org: str, after: int = 0, most: int = 1000) -> list[EventRow]:
        return [EventRow(*row) for row in await self._all(sql.EVENTS_AFTER, org, after, most)]

    async def events_older(self, sieve: EventFilter, below: int, down_to: int, most: int) -> list[EventRow]:
        """Those below this number, the newest first."""
        name, value = sieve.base
        rows = await self._all(_OLDER[name], value, below, down_to, *sieve.values, most)
        return [EventRow(*row) for row in rows]

    async def events_newer(self, sieve: EventFilter, above: int, up_to: int, most: int) -> list[EventRow]:
        """Those above this number, the oldest first."""
        name, value = sieve.base
        rows = await self._all(_NEWER[name], value, above, up_to, *sieve.values, most)
        return [EventRow(*row) for row in rows]

    async def events_span(self) -> tuple[int, int]:
        """The numbers of the oldest and the newest event; (0, 0) if there is none."""
        row = await self._one(sql.EVENTS_SPAN)
        return (row[0] or 0, row[1] or 0) if row else (0, 0)

    async def newest_event(self) -> tuple[int, bytes | None]:
        """Number and hash of the newest event; (0, None) if there is none."""
        row = await self._one(sql.EVENT_NEWEST)
        return (row[0], row[1]) if row else (0, None)

    async def event_hash(self, number: int) -> bytes | None:
        """None if there is no such event, or it is from before the chain."""
        row = await self._one(sql.EVENT_HASH, number)
        return row[0] if row else None

    async def event_time(self, number: int) -> int | None:
        """When the event of this number happened, or the first after it that is there."""
        row = await self._one(sql.EVENT_TIME, number)
        return row[0] if row else None

    async def last_event_of(self, subject: str) -> EventRow | None:
        """The newest that is about this itself, and not about what belongs to it."""
        row = await self._one(sql.EVENT_OF, subject)
        return EventRow(*row) if row else None

    async def counted(self, name: str) -> int:
        """How far this was counted."""
        row = await self._one(sql.COUNTED, name)
        return row[0] if row else 0

    async def audit_anchor(self) -> Anchor | None:
        return anchor_of(await self.fact(ANCHOR))

    async def revoked(self, digest: str, id: str = "") -> tuple[str, str, str] | None:
        """Id, organization and name of a token that is no more, by its digest or its id."""
        row = await self._one(sql.REVOKED, digest, id)
        return (row[0], row[1], row[2]) if row else None

    async def token(self, digest: str) -> tuple[str, str, bytes] | None:
        """Id, organization and document of the token with this digest."""
        row = await self._one(sql.TOKEN, digest)
        return (row[0], row[1], row[2]) if row else None

    async def identities(self, issuer: str, subject: str) -> list[tuple[str, str, bytes]]:
        """Member id, organization and document, in every organization where this person is a member."""
        return [(row[0], row[1], row[2]) for row in await self._all(sql.IDENTITY, issuer, subject)]

    async def fact(self, name: str) -> bytes | None:
        row = await self._one(sql.FACT, name)
        return row[0] if row else None

    async def budget(self, subject: str) -> tuple[int, int] | None:
        row = await self._one(sql.BUDGET, subject)
        return (row[0], row[1]) if row else None

    async def next_work(self, lane: int = 1) -> int | None:
        row = await self._one(sql.WORK_NEXT, lane)
        return row[0] if row else None

    async def delivery(self, webhook: str, id: str) -> DeliveryRow | None:
        row = await self._one(sql.DELIVERY, id, webhook)
        return DeliveryRow(*row) if row else None

    async def deliveries(self, webhook: str, skip: int, most: int) -> tuple[list[DeliveryRow], int]:
        """The newest first, and how many there are."""
        count = await self._one(sql.DELIVERIES_COUNT, webhook)
        rows = await self._all(sql.DELIVERIES, webhook, most, skip)
        return [DeliveryRow(*row) for row in rows], count[0] if count else 0

    async def due_deliveries(self, webhook: str, now: int, each: int, most: int) -> list[DeliveryRow]:
        """In order; at most so many of each lane."""
        return [DeliveryRow(*row) for row in await self._all(sql.DELIVERIES_DUE, webhook, now, each, most)]

    async def next_delivery(self, webhook: str) -> int | None:
        row = await self._one(sql.DELIVERY_NEXT, webhook)
        return row[0] if row else None

    async def receiver(self, webhook: str) -> Receiver:
        row = await self._one(sql.RECEIVER, webhook)
        return Receiver(*row) if row else Receiver()


class Tx(Reads):
    """A change in progress. What is emitted and nudged takes effect with the commit, or never."""

    def __init__(self, session: DatabaseSession, now: int, known: dict[str, Row] | None = None) -> None:
        super().__init__(session)
        self._many = session.many
        self._known: dict[str, Row] = {} if known is None else known
        self.now = now
        self.emitted: list[tuple[Any, ...]] = []
        self.nudges: list[str] = []

    async def find(self, family: str, id: str) -> Row | None:
        """Read once for a whole group, until one of it changes the resource: what is created together is
        mostly created in one place."""
        row = self._known.get(id)
        if row is not None:
            return row if row.family == family else None
        row = await super().find(family, id)
        if row is not None:
            self._known[id] = row
        return row

    async def place(self, parent: str, family: str) -> tuple[int, int]:
        """The next place in a list, and the time of creation that goes with it: twins of one moment are
        kept a millisecond apart, so that the order of creation can be read off the times."""
        place = await self._one(sql.TALLY_ADD, parent, family, self.now)
        assert place is not None
        return place[0], place[1]

    async def add(self, row: Row) -> None:
        """Puts a resource at the place it was given; raises Taken if a sibling has its name."""
        await self._all(sql.ADD, *msgspec.structs.astuple(row))

    async def link(self, source: str, field: str, target: str) -> None:
        await self._all(sql.LINK, source, field, target)

    async def change(self, row: Row) -> None:
        """Replaces a resource; raises Taken if a sibling has its new name."""
        self._known.pop(row.id, None)
        await self._all(sql.CHANGE, row.name, row.tag, row.body, row.sealed, row.id)
        await self._all(sql.TALLY_EDIT, row.parent, row.family)

    async def rewrite(self, id: str, body: bytes) -> None:
        """For what the server itself keeps up to date: the tag stays, so no client's `If-Match` is upset."""
        self._known.pop(id, None)
        await self._all(sql.REWRITE, body, id)

    async def remove(self, row: Row) -> list[str]:
        """Takes away a resource and all that is below it; answers the ids of those that could be deployed."""
        self._known.clear()
        below = [found[0] for found in await self._all(sql.BELOW, row.id)]
        await self._all(sql.TALLY_REMOVE, row.parent, row.family)
        for level in range(1, _LEVELS + 1):
            await self._all(sql.HOLE_ADD, row.parent, row.family, level, (row.pos - 1) // _FANOUT**level)
        return [id for id in (row.id, *below) if await self._forget(id)]

    async def _forget(self, id: str) -> bool:
        for statement in (
            sql.REMOVE,
            sql.TALLY_FORGET,
            sql.HOLE_FORGET,
            sql.UNLINK,
            sql.DEPLOYMENTS_REMOVE,
            sql.WORK_REMOVE,
            sql.DELETION_REMOVE,
            sql.IDENTITY_REMOVE,
            sql.VOLUMES_REMOVE,
        ):
            await self._all(statement, id)
        if await self._all(sql.NAMES_REMOVE, id):
            self.nudge(route_word(id))
        if await self._all(sql.TOKEN_REMOVE, id):
            self.nudge("tokens")
        deployable = bool(await self._all(sql.STATUS_REMOVE, id))
        if deployable:
            await self._all(sql.TOMBSTONE_ADD, id, self.now)
        return deployable

    async def note_deletion(self, id: str, body: bytes) -> None:
        await self._all(sql.DELETION_ADD, id, body)

    async def drop_deletion(self, id: str) -> None:
        await self._all(sql.DELETION_REMOVE, id)

    async def add_status(self, id: str, org: str, state: str) -> None:
        await self._all(sql.STATUS_ADD, id, org, state, "", None, 0, None, self.now, None, "", 0)

    async def change_status(self, row: StatusRow) -> None:
        self.nudge(status_word(row.id))
        await self._all(
            sql.STATUS_CHANGE,
            row.state,
            row.message,
            row.deployment,
            row.deployments,
            row.deployed_at,
            self.now,
            row.serving,
            row.digest,
            row.instances,
            row.id,
        )

    async def add_volumes(self, service: str, names: Iterable[str]) -> None:
        for name in names:
            await self._all(sql.VOLUME_ADD, service, name)

    async def forget_volumes(self, service: str) -> None:
        """After its volumes were erased on purpose."""
        await self._all(sql.VOLUMES_REMOVE, service)

    async def add_deployment(self, row: DeploymentRow) -> None:
        await self._all(sql.DEPLOYMENT_ADD, *msgspec.structs.astuple(row))

    async def change_deployment(self, row: DeploymentRow) -> None:
        await self._all(sql.DEPLOYMENT_CHANGE, row.status, self.now, row.body, row.sealed, row.id)

    def emit(
        self,
        kind: str,
        org: str,
        target: str,
        body: bytes,
        *,
        family: str = "",
        subject: str = "",
        subject_family: str = "",
        actor: str = "",
        origin: str = "",
        project: str = "",
        environment: str = "",
    ) -> None:
        """The event is numbered and chained when the group is committed, and those who follow are told."""
        self.nudge(events_word(org))
        if inside := environment or project:
            self.nudge(inside_word(inside))
        self.emitted.append(
            (
                ids.new_id(), org, kind, target, self.now, body,
                family, subject or target, subject_family or family, actor, origin, project, environment,
            )
        )  # fmt: skip

    async def number_events(self, events: Sequence[tuple[Any, ...]], end: ChainEnd) -> None:
        """Called by the store, once for a whole group; it forgets `end` if the group comes to nothing."""
        if not events:
            return
        counted = await self._one(sql.COUNT_UP, len(events), "event")
        assert counted is not None
        before = counted[0] - len(events)
        rows = list(chained(end.at(before) or await self._head(before), events))
        await self._many(sql.EVENT_ADD, rows)
        end.head = Head(counted[0], rows[-1][-1])

    async def _head(self, number: int) -> Head:
        """Where the next event is to be chained. One that is missing or has no hash is no link: the chain
        begins anew after it, and whoever verifies it knows whether it may."""
        return Head(number, await self.event_hash(number) or BEGINNING)

    async def forget_events(self, before: int, most: int) -> int:
        """Lets go of the oldest, at most so many, and keeps in mind where what is kept begins. The newest
        always stays: the next is chained to it."""
        oldest = (await self._all(sql.EVENTS_OLDEST, most + 1))[:-1]
        gone = list(itertools.takewhile(lambda row: row[1] < before, oldest))
        if gone:
            number, _, hash = gone[-1]
            await self._all(sql.EVENTS_FORGET, number)
            anchor = Anchor(number, (hash or BEGINNING).hex())
            await self.set_fact(ANCHOR, msgspec.json.encode(anchor))
        return len(gone)

    async def revoke_token(self, id: str, org: str, name: str) -> None:
        """Remembers whose it was; before it is removed."""
        await self._all(sql.TOKEN_REVOKE, org, name, self.now, id)

    async def forget_revoked(self, before: int) -> None:
        await self._all(sql.REVOKED_SWEEP, before)

    def nudge(self, word: str) -> None:
        """Wakes whoever listens for it, on every replica, after the commit. A lost nudge is no loss."""
        self.nudges.append(word)

    async def take_name(self, name: str, service: str, port: str = "", wish: str = "") -> NameRow | None:
        """Reserves a name for a service, or answers None if it is reserved already."""
        counted = await self._one(sql.COUNT_UP, 1, "host")
        assert counted is not None
        row = NameRow(name, service, port, wish, counted[0])
        added = await self._one(sql.NAME_ADD, *msgspec.structs.astuple(row))
        return row if added else None

    async def release_name(self, row: NameRow) -> None:
        await self._all(sql.NAME_REMOVE, row.name, row.service)
        self.nudge(route_word(row.service))

    async def ask(self, kind: str, id: str, due: int | None = None, org: str = "") -> None:
        """Asks for a piece of work. Asking twice is asking once."""
        lane = LANES.get(kind, QUICK)
        moment = self.now if due is None else due
        await self._all(sql.WORK_ASK, id, kind, moment, secrets.randbits(48), org, lane)
        self.nudge("work")

    async def claim(self, lease: int, most: int, lane: int = 1) -> list[Claim]:
        """Takes what is due, organizations by turns; what others hold is theirs until the lease ends."""
        claims: list[Claim] = []
        while (missing := min(sql.TAKEN_AT_ONCE, most - len(claims))) > 0:
            pieces = await self._next_pieces(lane, missing)
            places = [*pieces, *[""] * (sql.TAKEN_AT_ONCE - len(pieces))]
            rows = await self._all(sql.WORK_CLAIM, self.now + lease, FAR, *places) if pieces else ()
            claims += sorted((Claim(*row) for row in rows), key=lambda claim: pieces.index(claim.id))
            if len(pieces) < missing:
                break
        return claims

    async def _next_pieces(self, lane: int, most: int) -> list[str]:
        """The ids of the pieces whose turn it is."""
        found = await self._all(sql.WORK_FRONT, self.now, lane, _FRONT)
        turns = Turns({row[3]: row[1] for row in found if row[0] == "held"})
        ended = [Due(*row[1:]) for row in found if row[0] == "ended"]
        front = [Due(*row[1:]) for row in found if row[0] == "waiting"]
        if len(front) < _FRONT:
            turns.add([*ended, *front], whole=True)
        else:
            # Where enough organizations in front have nothing under way, no others can come before them.
            turns.add([*(piece for piece in ended if piece <= front[-1]), *front], whole=False)
            if turns.idle() < most:
                rows = await self._all(sql.WORK_FIRST, lane, self.now)
                turns.add_firsts([*ended, *(Due(*row) for row in rows if row[0] is not None)])
        taken: list[str] = []
        while len(taken) < most and (piece := turns.take()):
            taken.append(piece.id)
            if turns.lacks(piece.org):
                rows = await self._all(sql.WORK_OF_ORG, lane, piece.org, self.now, _FRONT + most)
                own = [one for one in ended if one.org == piece.org]
                turns.refill(piece.org, [*own, *(Due(*row) for row in rows)])
            turns.advance(piece.org)
        return taken

    async def held(self, claim: Claim) -> bool:
        """Whether this worker is still the one."""
        return await self._one(sql.WORK_HELD, claim.id, claim.epoch) is not None

    async def hold(self, claim: Claim, lease: int) -> bool:
        return await self._one(sql.WORK_HOLD, self.now + lease, claim.id, claim.epoch) is not None

    async def done(self, claim: Claim) -> None:
        """Done, unless it was asked for once more meanwhile: then it is due again."""
        if await self._one(sql.WORK_DONE, claim.id, claim.epoch, FAR) is None:
            await self.again(claim, self.now)

    async def again(self, claim: Claim, due: int, attempts: int = 0) -> bool:
        """Lets go of it until then, or until it is asked for; `attempts` are those that came to nothing.

        Answers whether the claim was still held."""
        released = await self._one(sql.WORK_AGAIN, due, attempts, claim.id, claim.epoch)
        self.nudge("work")
        return released is not None

    async def add_deliveries(self, made: Sequence[tuple[str, str, str, bytes]]) -> list[str]:
        """Webhook, lane, kind and body of each; answers their ids."""
        counted = await self._one(sql.COUNT_UP, len(made), "delivery")
        assert counted is not None
        first = counted[0] - len(made) + 1
        rows = [
            (ids.new_id(), webhook, lane, number, kind, self.now, body, b"[]")
            for number, (webhook, lane, kind, body) in enumerate(made, first)
        ]
        await self._many(sql.DELIVERY_ADD, rows)
        return [row[0] for row in rows]

    async def change_deliveries(self, changed: Sequence[DeliveryRow]) -> None:
        rows = [(one.state, one.due, one.attempts, one.story, one.address, one.id) for one in changed]
        await self._many(sql.DELIVERY_CHANGE, rows)

    async def hold_deliveries(self, webhook: str, lane: str, due: int) -> None:
        """What stands behind waits as well."""
        await self._all(sql.DELIVERIES_HOLD, due, webhook, lane)

    async def hurry_deliveries(self, webhook: str) -> None:
        """All that waits is due now."""
        await self._all(sql.DELIVERIES_HURRY, self.now, webhook)

    async def fail_deliveries(self, webhook: str, lane: str) -> None:
        """Fails all waiting deliveries of a lane."""
        await self._all(sql.DELIVERIES_FAIL, webhook, lane)

    async def deliver_again(self, webhook: str, since: int, address: str, *, only_failed: bool) -> int:
        """Repeats deliveries that have ended and were sent to this address; returns how many."""
        found = await self._all(sql.DELIVERIES_AGAIN, self.now, webhook, since, int(only_failed), address)
        return len(found)

    async def deliver_one_again(self, webhook: str, id: str) -> bool:
        return bool(await self._all(sql.DELIVERY_AGAIN, self.now, webhook, id))

    async def set_receiver(self, webhook: str, receiver: Receiver) -> None:
        if receiver == Receiver():
            await self._all(sql.RECEIVER_REMOVE, webhook)
        else:
            await self._all(sql.RECEIVER_SET, webhook, *msgspec.structs.astuple(receiver))

    async def forget_receiver(self, webhook: str) -> None:
        await self._all(sql.DELIVERIES_REMOVE, webhook)
        await self._all(sql.RECEIVER_REMOVE, webhook)

    async def sweep_deliveries(self, before: int) -> None:
        """What has arrived or was given up, after a while; and whatever is for a webhook that is no more."""
        await self._all(sql.DELIVERIES_SWEEP, before)
        await self._all(sql.RECEIVERS_SWEEP)

    async def add_token(self, digest: str, id: str) -> None:
        await self._all(sql.TOKEN_ADD, digest, id)

    async def add_identity(self, issuer: str, subject: str, org: str, member: str) -> None:
        await self._all(sql.IDENTITY_ADD, issuer, subject, org, member)

    async def idempotent(self, caller: str, key: str) -> IdempotentAnswer | None:
        row = await self._one(sql.IDEMPOTENT, caller, key)
        return IdempotentAnswer(*row) if row else None

    async def keep_answer(self, caller: str, key: str, kept: IdempotentAnswer) -> None:
        await self._all(sql.IDEMPOTENT_ADD, caller, key, kept.request, kept.at, kept.answer, kept.once)

    async def forget_shown(self, before: int) -> int | None:
        """Erases secrets shown by older answers; returns the time of the oldest remaining one."""
        await self._all(sql.IDEMPOTENT_FORGET, before)
        row = await self._one(sql.IDEMPOTENT_OLDEST)
        return row[0] if row else None

    async def set_budget(self, subject: str, opened: int, used: int) -> None:
        await self._all(sql.BUDGET_SET, subject, opened, used)

    async def give_back(self, subject: str, opened: int, unused: int) -> None:
        await self._all(sql.BUDGET_GIVE_BACK, unused, subject, opened)

    async def sweep(self, answers_before: int, budgets_before: int) -> None:
        await self._all(sql.IDEMPOTENT_SWEEP, answers_before)
        await self._all(sql.BUDGET_SWEEP, budgets_before)

    async def set_fact(self, name: str, value: bytes) -> None:
        await self._all(sql.FACT_SET, name, value)


def events_word(org: str) -> str:
    """Nudged when something happened in this organization."""
    return f"events:{org}"


def inside_word(place: str) -> str:
    """Nudged when something happened in this environment, or in this project above its environments."""
    return f"inside:{place}"


def status_word(id: str) -> str:
    """Nudged when the status of this service, or environment, may be another."""
    return f"status:{id}"


def route_word(service: str) -> str:
    """Returns the word that is nudged when the routes of this service may have changed."""
    return f"{ROUTE}{service}"


class Store(Protocol):
    """A database, open."""

    reads: Reads
    writes: int
    groups: int
    """Changes that were committed, and in how many groups."""

    async def write(self, change: Write[T]) -> T:
        """Runs a change and answers once it is durable."""
        ...

    def listen(self, listener: Callable[[str], None]) -> None:
        """Calls `listener` with every nudge of every replica."""
        ...

    async def close(self) -> None: ...
