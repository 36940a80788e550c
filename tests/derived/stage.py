"""A world in which everything that an operation needs can be had, whichever operation it is.

    subject = await stage.plot.subject(operation)
    answer = await stage.ask(subject, token)

A family that cannot be created over HTTP needs a line in `_MAKERS` of plots.py; every other one is found in
the registry."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias

import asyncpg

from tests.derived.guests import ISSUER, fetch_from_people
from tests.derived.operations import path_of
from tests.derived.plots import Plot
from tests.derived.things import Subject, Tenant
from tests.fakes.builder import FILES_OF_EXAMPLES
from tests.fakes.engine import FakeEngine
from tests.fakes.registries import FakeRegistries
from tests.world import ADMIN, Answer, World, make_world
from windlass.core.access import SCOPE_WORDS, Scope
from windlass.core.declare.operations import Operation
from windlass.core.declare.resource import Family
from windlass.store import NEVER
from windlass.store.sqlite import SqliteStore

BASES = ("", "/api/v1", "/compat")
Beside: TypeAlias = Callable[[str], Awaitable[Sequence[Sequence[Any]]]]
"""From a statement to its rows."""
SHOWS_A_PATTERN = re.compile(r"\\Z|\[\^|\$'|must match")
LIMITS = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")


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
        tokens = {Scope[word.upper()]: await self.token(org, admin, scopes=[word]) for word in SCOPE_WORDS}
        return Tenant(org, admin, tokens)

    async def token(self, org: str, admin: str, **fields: Any) -> str:
        return str((await self.token_made(org, admin, **fields))["token"])

    async def token_made(self, org: str, admin: str, **fields: Any) -> Answer:
        body = {"name": self.world.name("token"), "scopes": ["Admin"]} | fields
        answer = await self.world.post(f"/organization/{org}/apiToken", body, token=admin)
        assert answer.status == 201, answer
        return answer

    async def ask(self, subject: Subject, token: str | None, *, base: str = "", **options: Any) -> Answer:
        options = {"query": subject.query, **options}
        return await self.call(subject.operation, subject.ids, subject.body, token, base=base, **options)

    async def call(
        self,
        operation: Operation,
        ids: Iterable[str],
        body: Any,
        token: str | None,
        *,
        base: str = "",
        query: str = "",
        **options: Any,
    ) -> Answer:
        """One request; whatever the answer is, it keeps the promises of all answers. A stream comes to its
        end with what is there: that it goes on where it may is tried in tests/live."""
        query = "follow=false" if operation.streams else query
        path = base + path_of(operation, ids) + (f"?{query}" if query else "")
        answer = await self.world.call(operation.method, path, body, token=token, **options)
        keeps_the_promises_of_all_answers(answer)
        return answer

    async def postpone_work(self, family: Family) -> None:
        """Leaves waiting work of this family undone: hundreds of deployments of other rows, which no test
        reads. Work of other families is due again, because a service may wait for it."""
        services = f"SELECT id FROM resource WHERE family = '{family.name}'"
        await self.beside(f"UPDATE work SET due = 0 WHERE lease = 0 AND due = {NEVER}")
        await self.beside(f"UPDATE work SET due = {NEVER} WHERE lease = 0 AND id IN ({services})")

    async def count(self, table: str) -> int:
        """Counts the rows of a table."""
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


@contextlib.asynccontextmanager
async def staged(database_url: str, **options: Any) -> AsyncIterator[Stage]:
    options |= {"fetcher": fetch_from_people, "oidc_issuer": ISSUER}
    options.setdefault("engine", FakeEngine("image"))
    options.setdefault("out", FakeRegistries())
    async with make_world(database_url, **options) as world, looking_beside(world) as beside:
        world.git.files = FILES_OF_EXAMPLES
        stage = Stage(world, beside)
        await stage.set_up()
        yield stage


def keeps_the_promises_of_all_answers(answer: Answer) -> None:
    assert answer.status < 500, answer
    assert all(answer.headers[name].isdecimal() for name in LIMITS), answer.headers
    assert answer.headers["x-request-id"]
    if answer.status >= 400:
        assert answer["status"] == answer.status
        assert answer["error"]
        assert answer["message"] == answer["detail"] != ""
        assert not SHOWS_A_PATTERN.search(answer.message), answer.message


async def together(*calls: Awaitable[Any]) -> list[Any]:
    return list(await asyncio.gather(*calls))
