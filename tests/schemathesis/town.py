"""A world with one of everything in it, and of everything more that may be deleted.

It is built from the registry and the examples of the document: a new family moves in by itself, unless it
cannot be created over HTTP.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import cast

from tests.documented import body
from tests.fakes.builder import FILES_OF_EXAMPLES
from tests.fakes.engine import FakeEngine
from tests.marks import either
from tests.schemathesis.rules import Body
from tests.world import ADMIN, World
from windlass.control.people.members import IssuerIdentity, join_organizations
from windlass.core.declare.registry import Operation
from windlass.core.declare.resource import Family, Trait, Verb
from windlass.core.declare.traits import has_deployments
from windlass.engines.workload import Instance, Workload
from windlass.families import registry
from windlass.families.application import application
from windlass.families.cluster import cluster
from windlass.families.deployment import deployment
from windlass.families.environment import environment
from windlass.families.job import job
from windlass.families.job_run import job_run
from windlass.families.member import invitation
from windlass.families.organization import organization
from windlass.families.project import project

Ids = Mapping[str, str]
"""Path parameter to id."""

STANDING, DOOMED = either(1, 2), either(2, 5)
"""Numbers of things of each family: for reading and changing, and for deleting."""
DISTINCT = {"preview": "branch"}
"""Fields of families without names in which siblings differ."""


class Holding(FakeEngine):
    """Starts what it is told to hold, and never gets done with it."""

    def __init__(self) -> None:
        super().__init__("image")
        self.held: set[str] = set()

    async def run(self, wanted: Workload, index: int) -> Instance:
        if wanted.service in self.held:
            await asyncio.Event().wait()
        return await super().run(wanted, index)


class Stock:
    """Things that are there, by the path parameters that lead to them."""

    def __init__(self) -> None:
        self._ids: dict[frozenset[str], list[Ids]] = defaultdict(list)

    def put(self, ids: Ids) -> None:
        self._ids[frozenset(ids)].append(ids)

    def of(self, *params: str) -> list[Ids]:
        return self._ids[frozenset(params)]


class Town:
    def __init__(self, world: World, *, standing: int = STANDING, doomed: int = DOOMED) -> None:
        self.world = world
        self._standing, self._doomed = standing, doomed
        self.standing = Stock()
        self.doomed = Stock()
        self.inherited = Stock()
        """Variables and secrets, seen from a level below their own."""
        self.members: list[str] = []
        self.leaving: list[str] = []
        """Members who may be removed."""
        self.tokens = {world.org: ADMIN}
        """An Admin token for each organization: it opens no other."""
        self.services: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        """By environment and family: services that run."""
        self.erasable: dict[str, list[str]] = defaultdict(list)
        """By environment: applications that are there to be deleted with their environment's actions."""
        self.ran: dict[str, str] = {}
        """By service: a deployment that one can go back to."""
        self.cancellable: dict[str, list[Ids]] = defaultdict(list)
        """By operation: what goes on until that operation ends it."""
        self.idle_jobs: list[str] = []
        """Jobs that are deployed, without a run."""
        self._numbers = itertools.count(1)

    async def build(self) -> None:
        self.world.git.files = FILES_OF_EXAMPLES
        home = {organization.param: self.world.org}
        self.standing.put(home)
        for _ in range(self._standing):
            await self._settle(organization, home, [])
        for _ in range(self._doomed):
            self.doomed.put({organization.param: await self._organization()})
            self.members.append(await self._member())
            self.leaving.append(await self._member())
        await self._deploy()
        await self._hold()

    async def _settle(self, above: Family, here: Ids, inherited: list[tuple[Family, str]]) -> None:
        """One of everything below, and below that."""
        for family, id in inherited:
            self.inherited.put({**here, family.param: id})
        for family in _below(above):
            id = await self._made(family, above, here)
            self.standing.put(_path(family, here, id))
            for _ in range(self._doomed):
                self.doomed.put(_path(family, here, await self._made(family, above, here)))
            own = (family, id) if isinstance(family.parent, Trait) else None
            inherited = [*inherited, own] if own else inherited
            await self._settle(family, {family.param: id}, inherited)

    async def _deploy(self) -> None:
        """All services that stand run, each in its second deployment: one can go back to the first."""
        for family in _services():
            for ids in self.standing.of(family.param):
                service = ids[family.param]
                self.ran[service] = await self._deployed(family, service)
                await self.world.settle()
                self.standing.put({**ids, deployment.param: await self._deployed(family, service)})
                above = (await self.world.get(f"/{family.name}/{service}"))["environment"]["id"]
                self.services[above][family.name].append(service)
        await self.world.settle()
        self.idle_jobs = [await self._new(job, await self.world.environment()) for _ in range(self._doomed)]
        for service in self.idle_jobs:
            await self._deployed(job, service)
        await self.world.settle()
        for above in self.services:
            self.erasable[above] = [await self._new(application, above) for _ in range(self._doomed)]

    async def _hold(self) -> None:
        """Deployments that go on until they are cancelled: some for each way of doing that."""
        for operation in registry().operations:
            if operation.handler.rpartition(".")[2] in {
                "cancelDeployment",
                "cancel",
                "cancelDeploymentRequest",
            }:
                for _ in range(self._doomed):
                    self.cancellable[operation.id].append(await self._held(operation))

    async def _held(self, operation: Operation) -> Ids:
        if job_run.param in operation.params:
            return await self._held_run()
        above = await self.world.environment()
        family = next(
            (one for one in _services() if one in (operation.family, operation.parent)), application
        )
        service = await self._new(family, above)
        cast(Holding, self.world.engine).held.add(service)
        known = {environment.param: above, family.param: service}
        known[deployment.param] = await self._deployed(family, service)
        return {param: known[param] for param in operation.params}

    async def _held_run(self) -> Ids:
        service = self.idle_jobs.pop()
        cast(Holding, self.world.engine).held.add(service)
        answer = await self.world.post(f"/{job.name}/{service}/{job_run.segment}")
        assert answer.status == 202, answer
        return {job.param: service, job_run.param: str(answer["id"])}

    async def _new(self, family: Family, above: str) -> str:
        return await self._made(family, environment, {environment.param: above})

    async def _deployed(self, family: Family, service: str) -> str:
        answer = await self.world.post(f"/{family.name}/{service}/deploy")
        assert answer.status == 202, answer
        return str(answer["id"])

    async def _made(self, family: Family, above: Family, here: Ids) -> str:
        operation = next(
            one
            for one in registry().operations
            if one.handler == f"{family.name}.create" and one.family is family and one.parent is above
        )
        return await self.world.made(
            operation.path.format(**here), self.unlike(operation, example(operation))
        )

    def unlike(self, operation: Operation, sent: Body, *, always: bool = False) -> Body:
        """The body under a name of its own, if only because it has the name of the example: that is taken."""
        family = operation.family
        field = (family.names or DISTINCT.get(family.name)) if family else None
        if (
            field
            and isinstance(sent.get(field), str)
            and (always or sent[field] == example(operation).get(field))
        ):
            return {**sent, field: f"{sent[field][:200]}-{next(self._numbers)}"}
        return sent

    async def _organization(self) -> str:
        id, token = await self.world.organization()
        self.tokens[id] = token
        return id

    async def _member(self) -> str:
        """Returns a member who was invited and has signed in."""
        world = self.world
        email = f"{world.name('guest')}@example.com"
        await world.made(f"/organization/{world.org}/{invitation.name}", {"email": email})
        ctx, person = world.installation.ctx, IssuerIdentity("https://people.example", email, email, "Guest")
        await ctx.store.write(lambda tx: join_organizations(ctx, tx, person))
        (found,) = await ctx.store.reads.identities.of(person.issuer, person.subject)
        return found[0]

    @property
    def cluster(self) -> str:
        return self.standing.of(organization.param, cluster.param)[0][cluster.param]

    @property
    def environment(self) -> str:
        return self.standing.of(environment.param)[0][environment.param]

    @property
    def application(self) -> str:
        return self.standing.of(application.param)[0][application.param]

    @property
    def project(self) -> str:
        return self.standing.of(project.param)[0][project.param]


def example(operation: Operation) -> Body:
    said: Body = body(operation)["example"] if operation.body else {}
    return copy.deepcopy(said)


def _services() -> list[Family]:
    return [family for family in registry().families.values() if has_deployments in family.traits]


def _path(family: Family, here: Ids, id: str) -> Ids:
    return {**here, family.param: id} if family.nested else {family.param: id}


def _below(above: Family) -> Iterator[Family]:
    """Variables first: what comes after inherits them."""
    families = [family for family in registry().children(above) if Verb.CREATE in family.verbs]
    yield from sorted(families, key=lambda family: not isinstance(family.parent, Trait))
