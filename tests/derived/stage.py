"""A world in which everything that an operation needs can be had, whichever operation it is.

    subject = await stage.plot.subject(operation)
    answer = await stage.ask(subject, token)

A family that cannot be created over HTTP needs a line in `_MAKERS`; every other one is found in the registry.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import asyncpg
import msgspec
from msgspec import Struct

from tests.derived.bodies import referred, valid
from tests.tables import table
from tests.world import ADMIN, Answer, HandClock, World, make_world
from windlass.base.clock import SECOND
from windlass.base.issuer import DISCOVERY_PATH, JWKS_PATH, Signer
from windlass.core.access import WORDS, Scope
from windlass.core.declare.operations import Operation, PathId
from windlass.core.declare.registry import runs_once
from windlass.core.declare.resource import Family, Verb
from windlass.engines.fake import FakeEngine
from windlass.families import registry
from windlass.families.member import member
from windlass.store import FAR
from windlass.store.sqlite import SqliteStore

OPERATIONS = registry().operations
BASES = ("", "/api/v1", "/compat")
Beside: TypeAlias = Callable[[str], Awaitable[Sequence[Sequence[Any]]]]
"""From a statement to its rows."""

CROWD = 50
"""Things on a plot."""
LIMITS = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")


class Thing(Struct, frozen=True):
    """A resource that is there."""

    family: Family
    id: str
    parent: Thing | None = None

    @property
    def ids(self) -> tuple[str, ...]:
        return (self.parent.id, self.id) if self.family.nested and self.parent else (self.id,)

    @property
    def above(self) -> list[Thing]:
        """Itself, its parent, and so on."""
        return [self, *(self.parent.above if self.parent else ())]


class Subject(Struct, frozen=True, kw_only=True):
    """What an operation can be done with: a path, a body, and the status that follows."""

    operation: Operation
    ids: tuple[str, ...]
    body: Any
    status: int
    tenant: Tenant

    @property
    def path(self) -> str:
        return path_of(self.operation, self.ids)


class Tenant(Struct, frozen=True):
    """An organization, with a token for each scope."""

    org: str
    admin: str
    tokens: Mapping[Scope, str]


class Plot:
    """Some ground in an organization: one standing thing of each family, and fresh ones on request.
    Two plots of one organization share nothing but the organization."""

    def __init__(self, stage: Stage, tenant: Tenant) -> None:
        self._stage = stage
        self.tenant = tenant
        self._standing: dict[tuple[str, str], Thing] = {}
        self._untouched: dict[Operation, Subject] = {}
        self._things = 0

    def make_room(self) -> None:
        """A deployment looks at all services of its environment. So things that are made from now on are in
        another one as soon as there are many, or each would take longer than the one before."""
        if self._things > CROWD:
            crowded, self._things = {family.parent for family in registry().services}, 0
            self._standing = {
                key: thing
                for key, thing in self._standing.items()
                if crowded.isdisjoint(above.family for above in thing.above)
            }

    async def standing(self, family: Family, parent: Family | None = None) -> Thing:
        """One for everybody: nobody may change it beyond recognition."""
        parent = parent or registry().parents(family)[0]
        key = (family.name, parent.name if parent else "")
        if key not in self._standing:
            above = await self.standing(parent) if parent else None
            self._standing[key] = await self.below(above, family)
        return self._standing[key]

    async def fresh(self, family: Family, parent: Family | None = None) -> Thing:
        """Of things that an action adds, it is the only one: a deployment replaces another that waits."""
        parent = parent or registry().parents(family)[0]
        alone = adding_to(operation_of("list", family, parent))
        above = await (self.fresh if alone else self.standing)(parent) if parent else None
        return await self.below(above, family)

    async def below(self, above: Thing | None, family: Family) -> Thing:
        """A new one there."""
        self._things += 1
        made = await self._made(family, above) if above else self.tenant.org
        return Thing(family, made, above)

    async def _made(self, family: Family, above: Thing) -> str:
        if family in _MAKERS:
            return await _MAKERS[family](self._stage.world, self.tenant)
        if action := adding_to(operation_of("list", family, above.family)):
            return await self.added(action, above)
        operation = operation_of("create", family, above.family)
        answer = await self._stage.call(operation, (above.id,), await self.body(operation), self.tenant.admin)
        assert answer.status == operation.status, answer
        return str(answer["id"])

    async def added(self, action: Operation, thing: Thing) -> str:
        """What an action adds to a list. A deployment waits: nobody works in these worlds unless asked to."""
        answer = await self._stage.call(action, thing.ids, None, self.tenant.admin)
        assert answer.status == 202, answer
        return str(answer["id"])

    async def deployed(self, service: Thing) -> str:
        family = service.family
        return await self.added(operation_of("deploy", family, registry().parents(family)[0]), service)

    async def ran(self, service: Thing) -> str:
        """A deployment that succeeded."""
        await self._stage.postpone_work(service.family)
        deployment = await self.deployed(service)
        await self._stage.world.settle()
        assert await self.outcome(service, deployment) == "SUCCEEDED"
        return deployment

    async def outcome(self, service: Thing, deployment: str) -> str:
        path = f"/{service.family.name}/{service.id}/deployment/{deployment}"
        return str((await self._stage.world.get(path, token=self.tenant.admin))["status"])

    async def body(self, operation: Operation) -> Any:
        if operation.body is None:
            return msgspec.UNSET
        needed = {name: (await self._to_refer_to(registry()[name])).id for name in referred(operation.body)}
        return valid(operation.body, needed.__getitem__)

    async def _to_refer_to(self, family: Family) -> Thing:
        """What has no path of its own is what the operation is about, and that may be the end of it."""
        return await (self.fresh if family in _MAKERS else self.standing)(family)

    async def untouched(self, operation: Operation) -> Subject:
        """For those who are refused: it is there, and stays as it is."""
        if operation not in self._untouched:
            self._untouched[operation] = await self.subject(operation)
        return self._untouched[operation]

    async def subject(self, operation: Operation) -> Subject:
        """For those who may: whatever a write changes is made for it alone."""
        if operation.family and not operation.family.parent and operation.method == "DELETE":
            return await (await self._stage.new_plot()).subject_here(operation)
        return await self.subject_here(operation)

    async def subject_here(self, operation: Operation) -> Subject:
        ids, status = await self._place(operation)
        body = await self.body(operation)
        if prepare := _PREPARED.get(operation.handler.partition(".")[2]):
            assert operation.family is not None
            body = {**(body or {}), **await prepare(self, Thing(operation.family, ids[0]))}
        return Subject(operation=operation, ids=ids, body=body, status=status, tenant=self.tenant)

    async def _place(self, operation: Operation) -> tuple[tuple[str, ...], int]:
        itself, family = operation.itself, operation.family
        if itself is None:
            return await self._others(operation.ids), operation.status
        if family and operation.handler.endswith(".override"):
            return await self._overridable(operation, family, operation.parent)
        find = self.fresh if operation.writes else self.standing
        one = await find(family or itself.families[0], operation.parent)
        ids = one.ids[-itself.position - 1 :]
        return (*ids, *await self._others(operation.ids[len(ids) :])), operation.status

    async def _others(self, ids: Iterable[PathId]) -> tuple[str, ...]:
        """What else a path names: a standing thing for each id."""
        return tuple([(await self.standing(id.families[0])).id if id.families else "word" for id in ids])

    async def _overridable(
        self, operation: Operation, family: Family, parent: Family | None
    ) -> tuple[tuple[str, ...], int]:
        """What is overridden is of a level above; on the topmost level there is nothing to override."""
        assert parent is not None
        here = await self.standing(parent)
        above = here.parent.family if here.parent else None
        if above not in registry().parents(family):
            return (await self.fresh(family, parent)).ids, 409
        return (here.id, (await self.fresh(family, above)).id), operation.status


class Stage:
    """A world, two organizations in it, and a plot in the first."""

    def __init__(self, world: World, beside: Beside) -> None:
        self.world = world
        self.beside = beside
        self.plot: Plot
        self.foreign: Plot

    async def set_up(self) -> None:
        self.plot = Plot(self, await self._tenant(self.world.org, ADMIN))
        self.foreign = await self.new_plot()

    async def new_plot(self) -> Plot:
        """In an organization of its own."""
        org, admin = await self.world.organization()
        return Plot(self, await self._tenant(org, admin))

    def another_plot(self) -> Plot:
        """In the first organization."""
        return Plot(self, self.plot.tenant)

    async def _tenant(self, org: str, admin: str) -> Tenant:
        tokens = {Scope[word.upper()]: await self.token(org, admin, scopes=[word]) for word in WORDS}
        return Tenant(org, admin, tokens)

    async def token(self, org: str, admin: str, **fields: Any) -> str:
        return str((await self.token_made(org, admin, **fields))["token"])

    async def token_made(self, org: str, admin: str, **fields: Any) -> Answer:
        body = {"name": self.world.name("token"), "scopes": ["Admin"]} | fields
        answer = await self.world.post(f"/organization/{org}/apiToken", body, token=admin)
        assert answer.status == 201, answer
        return answer

    async def ask(self, subject: Subject, token: str | None, *, base: str = "", **options: Any) -> Answer:
        return await self.call(subject.operation, subject.ids, subject.body, token, base=base, **options)

    async def call(
        self,
        operation: Operation,
        ids: Iterable[str],
        body: Any,
        token: str | None,
        *,
        base: str = "",
        **options: Any,
    ) -> Answer:
        """One request; whatever the answer is, it keeps the promises of all answers. A stream comes to its
        end with what is there: that it goes on where it may is tried in tests/live."""
        path = base + path_of(operation, ids) + ("?follow=false" if operation.streams else "")
        answer = await self.world.call(operation.method, path, body, token=token, **options)
        keeps_the_promises_of_all_answers(answer)
        return answer

    async def postpone_work(self, family: Family) -> None:
        """Leaves waiting work of this family undone: hundreds of deployments of other rows, which nobody asks
        about. Work of other families is due again, because a service may wait for it."""
        services = f"SELECT id FROM resource WHERE family = '{family.name}'"
        await self.beside(f"UPDATE work SET due = 0 WHERE lease = 0 AND due = {FAR}")
        await self.beside(f"UPDATE work SET due = {FAR} WHERE lease = 0 AND id IN ({services})")

    async def count(self, table: str) -> int:
        """How many rows are in a table."""
        return int((await self.beside(f"SELECT count(*) FROM {table}"))[0][0])


@contextlib.asynccontextmanager
async def looking_beside(world: World) -> AsyncIterator[Beside]:
    """Asks the database itself, and not Windlass."""
    store = world.installation.ctx.store
    if isinstance(store, SqliteStore):
        with contextlib.closing(store.snapshot()) as snapshot:

            async def ask(statement: str) -> Sequence[Sequence[Any]]:
                return snapshot.execute(statement).fetchall()

            yield ask
    else:
        connection = await asyncpg.connect(world.installation.ctx.settings.database_url)
        try:

            async def fetch(statement: str) -> Sequence[Sequence[Any]]:
                found = await connection.fetch(statement)
                return [tuple(row) for row in found]

            yield fetch
        finally:
            await connection.close()


async def _member(world: World, tenant: Tenant) -> str:
    """Somebody who was invited, and has signed in at an issuer that vouches for the address."""
    email = f"{world.name('guest')}@example.com"
    await world.made(f"/organization/{tenant.org}/inviteMember", {"email": email}, token=tenant.admin)
    claims = {"sub": email, "aud": "windlass", "email": email, "email_verified": True}
    signed = people(world.clock).sign(claims, 3600)
    assert (await world.get("/organization", token=f"Bearer {signed}")).status == 200
    members = await world.get(f"/organization/{tenant.org}/member?page_size=1000", token=tenant.admin)
    return next(str(one["id"]) for one in members["results"] if one["email"] == email)


_PEOPLE, _PEOPLES_KEY = "https://people.example", Signer.new_key()


def people(clock: HandClock) -> Signer:
    """Where the members of these organizations sign in."""
    return Signer(_PEOPLE, _PEOPLES_KEY, lambda: clock.now() / SECOND)


async def _fetch_from_people(url: str) -> bytes:
    known = people(HandClock())
    answers = {DISCOVERY_PATH: known.discovery(), JWKS_PATH: known.jwks()}
    return json.dumps(answers[url.removeprefix(_PEOPLE)]).encode()


async def _services(plot: Plot, thing: Thing) -> list[Thing]:
    """The thing itself, or a new service of each family in it if it contains services."""
    inside = [family for family in registry().services if family.parent is thing.family]
    return [await plot.below(thing, family) for family in inside] or [thing]


async def _waits(plot: Plot, thing: Thing) -> dict[str, Any]:
    for service in await _services(plot, thing):
        await plot.deployed(service)
    return {}


async def _runs(plot: Plot, thing: Thing) -> dict[str, Any]:
    await plot.ran(thing)
    return {}


async def _ran_earlier(plot: Plot, thing: Thing) -> dict[str, Any]:
    return {"deployment_id": await plot.ran(thing)}


async def _chosen_to_deploy(plot: Plot, thing: Thing) -> dict[str, Any]:
    return {f"{one.family.name}s": [to_deploy(one)] for one in await _services(plot, thing)}


def to_deploy(service: Thing) -> Any:
    """How a body names a service among others that are to be deployed."""
    chosen = next((trait.chosen for trait in service.family.traits if trait.chosen), None)
    if chosen is None:
        return service.id
    return {field.name: service.id for field in msgspec.structs.fields(chosen) if field.required}


async def _chosen(plot: Plot, thing: Thing) -> dict[str, Any]:
    return {f"{one.family.name}_ids": [one.id] for one in await _services(plot, thing)}


async def _chosen_that_runs(plot: Plot, thing: Thing) -> dict[str, Any]:
    services = [one for one in await _services(plot, thing) if not runs_once(one.family)]
    for service in services:
        await plot.ran(service)
    return {f"{one.family.name}_ids": [one.id] for one in services}


_PREPARED: Mapping[str, Callable[[Plot, Thing], Awaitable[dict[str, Any]]]] = {
    "restart-service": _runs,
    "rollback": _ran_earlier,
    "cancelDeployment": _waits,
    "uninstall": _waits,
    "service/deploy": _chosen_to_deploy,
    "service/restart-service": _chosen_that_runs,
    "service/stop": _chosen,
    "service/uninstall": _chosen,
    "service/delete": _chosen,
}
"""What must be so before something can be done with a thing, and what the body says of it."""


_MAKERS: Mapping[Family, Callable[[World, Tenant], Awaitable[str]]] = {member: _member}


@contextlib.asynccontextmanager
async def staged(database_url: str, **options: Any) -> AsyncIterator[Stage]:
    options |= {"fetcher": _fetch_from_people, "oidc_issuer": _PEOPLE}
    options.setdefault("engine", FakeEngine("image"))
    async with make_world(database_url, **options) as world, looking_beside(world) as beside:
        stage = Stage(world, beside)
        await stage.set_up()
        yield stage


def path_of(operation: Operation, ids: Iterable[str]) -> str:
    path = operation.path
    for param, id in zip(operation.params, ids, strict=True):
        path = path.replace(f"{{{param}}}", id, 1)
    return path


def operation_of(verb: str, family: Family, parent: Family | None) -> Operation:
    return next(
        operation
        for operation in OPERATIONS
        if operation.family is family
        and operation.parent is parent
        and operation.handler == f"{family.name}.{verb}"
    )


def adding_to(listing: Operation) -> Operation | None:
    """The action that adds an entry to a list: a deploy to deployments, for example. Whatever is in the list
    of a family that can be created is created instead."""
    is_resources = listing.handler.endswith(".list")
    if is_resources and listing.family and Verb.CREATE in listing.family.verbs:
        return None
    holder = listing.parent if is_resources else listing.family
    return next(
        (
            action
            for action in OPERATIONS
            if (action.family, action.answer, action.listing) == (holder, listing.answer, False)
            and action.method == "POST"
            and holder
        ),
        None,
    )


def keeps_the_promises_of_all_answers(answer: Answer) -> None:
    assert answer.status < 500, answer
    assert all(answer.headers[name].isdecimal() for name in LIMITS), answer.headers
    assert answer.headers["x-request-id"]
    if answer.status >= 400:
        assert answer["status"] == answer.status
        assert answer["error"]
        assert answer["message"] == answer["detail"] != ""


def for_operations(chosen: Callable[[Operation], object] = lambda operation: True) -> Callable[[Any], Any]:
    """A table with a row for each operation of this sort."""
    return _roomy(table("operation", filter(chosen, OPERATIONS), lambda operation: operation.id))


def for_families(chosen: Callable[[Family], object]) -> Callable[[Any], Any]:
    """A table with a row for each family of this sort."""
    return _roomy(table("family", filter(chosen, registry().families.values()), lambda family: family.name))


def _roomy(tabled: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Makes room on the plot before each row."""

    def decorate(test: Any) -> Any:
        @functools.wraps(test)
        async def in_room(*arguments: Any, **fixtures: Any) -> None:
            fixtures["stage"].plot.make_room()
            await test(*arguments, **fixtures)

        return tabled(in_room)

    return decorate


async def together(*calls: Awaitable[Any]) -> list[Any]:
    return list(await asyncio.gather(*calls))
