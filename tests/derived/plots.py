"""Plots: ground in an organization with one standing thing of each family, and fresh ones on request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec

from tests.derived.bodies import referred, valid
from tests.derived.guests import make_member
from tests.derived.operations import adding_to, operation_of
from tests.derived.things import Subject, Tenant, Thing
from tests.world import World
from windlass.core.declare.fields import SERVICE_OR_ABOVE
from windlass.core.declare.operations import Operation, PathId
from windlass.core.declare.registry import is_service, runs_once
from windlass.core.declare.resource import Family
from windlass.families import registry
from windlass.families.member import member

if TYPE_CHECKING:
    from tests.derived.stage import Stage

CROWD = 50
"""Things on a plot."""


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
        """One for all tests: none may change it beyond recognition."""
        parent = parent or registry().parents(family)[0]
        key = (family.name, parent.name if parent else "")
        if key not in self._standing:
            above = await self.standing(parent) if parent else None
            self._standing[key] = await self.below(above, family)
        return self._standing[key]

    async def fresh(self, family: Family, parent: Family | None = None) -> Thing:
        """Returns a resource that is the only one of its list if an action adds it: a deployment replaces
        another that waits."""
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
        """Returns the id of the item that an action adds to a list. Deployments wait, because no worker runs
        in these worlds by itself."""
        answer = await self._stage.call(action, thing.ids, None, self.tenant.admin)
        if answer.status == 409 and is_service(thing.family) and not action.handler.endswith(".deploy"):
            await self.ran(thing)  # only what is deployed can be run
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
        return await self._valid(operation.body)

    async def _query(self, operation: Operation) -> str:
        """Returns the parameters that an operation requires, as a query."""
        if operation.query is None:
            return ""
        required = {field.encode_name for field in msgspec.structs.fields(operation.query) if field.required}
        values = await self._valid(operation.query) if required else {}
        return urlencode({name: value for name, value in values.items() if name in required})

    async def _valid(self, spec: type[msgspec.Struct]) -> dict[str, Any]:
        needed = {name: (await self._to_refer_to(_family(name))).id for name in referred(spec)}
        return valid(spec, needed.__getitem__)

    async def _to_refer_to(self, family: Family) -> Thing:
        """Returns a resource to refer to. One without a path of its own is the subject of the operation,
        which may delete it."""
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
        query = await self._query(operation)
        return Subject(
            operation=operation, ids=ids, body=body, status=status, tenant=self.tenant, query=query
        )

    async def _place(self, operation: Operation) -> tuple[tuple[str, ...], int]:
        itself, family = operation.itself, operation.family
        if itself is None and operation.writes and not family:
            return tuple([(await self.fresh(id.families[0])).id for id in operation.ids]), operation.status
        if itself is None:
            return await self._others(operation.ids), operation.status
        if family and operation.handler.endswith(".override"):
            return await self._overridable(operation, family, operation.parent)
        if operation.handler.endswith(".override"):  # of any family: what is to be overridden is above
            return (await self.fresh(itself.families[0], registry()["project"])).ids[-1:], operation.status
        find = self.fresh if operation.writes else self.standing
        one = await find(family or itself.families[0], operation.parent)
        ids = one.ids[-itself.position - 1 :]
        status = _WITHOUT_BYTES.get(operation.handler, operation.status)
        return (*ids, *await self._others(operation.ids[len(ids) :])), status

    async def _others(self, ids: Iterable[PathId]) -> tuple[str, ...]:
        """The other ids of a path: a standing thing for each."""
        return tuple([(await self.standing(id.families[0])).id if id.families else "word" for id in ids])

    async def _overridable(
        self, operation: Operation, family: Family, parent: Family | None
    ) -> tuple[tuple[str, ...], int]:
        """Returns the ids and the expected status: a variable of a level above can be overridden; on the
        topmost level there is none."""
        assert parent is not None
        here = await self.standing(parent)
        above = here.parent.family if here.parent else None
        if above not in registry().parents(family):
            return (await self.fresh(family, parent)).ids, 409
        return (here.id, (await self.fresh(family, above)).id), operation.status


def _family(name: str) -> Family:
    """Returns the family of what a field refers to."""
    return registry()["application" if name == SERVICE_OR_ABOVE else name]


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
    if thing.family in registry().services:
        return {"deployment_id": await plot.ran(thing)}
    service, *_ = await _services(plot, thing)
    earlier = await plot.ran(service)
    await plot.deployed(service)  # so that the rollback has something to do
    return {"deployment_id": earlier}


async def _ran_once(plot: Plot, thing: Thing) -> dict[str, Any]:
    service, *_ = await _services(plot, thing)
    return {"execution_id": await plot.ran(service), "report_expiration_in_seconds": 60}


async def _chosen_to_deploy(plot: Plot, thing: Thing) -> dict[str, Any]:
    return {f"{one.family.name}s": [to_deploy(one)] for one in await _services(plot, thing)}


def to_deploy(service: Thing) -> Any:
    """Returns the entry of a body for a service that is to be deployed."""
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


_WITHOUT_BYTES: Mapping[str, int] = {
    "upload.complete": 409,
    "terraform.restoreState": 409,
    "preview.approve": 409,
    "domain.uploadCertificate": 400,
    "domain.removeCertificate": 409,
}
"""Operations that need a stream of bytes, a run, or a pull request before them, with their answer where none
has come."""
_PREPARED: Mapping[str, Callable[[Plot, Thing], Awaitable[dict[str, Any]]]] = {
    "restart-service": _runs,
    "rollback": _ran_earlier,
    "run": _runs,
    "deploymentBuildUsageReport": _ran_once,
    "cancelDeployment": _waits,
    "uninstall": _waits,
    "service/deploy": _chosen_to_deploy,
    "service/restart-service": _chosen_that_runs,
    "service/stop": _chosen,
    "service/uninstall": _chosen,
    "service/delete": _chosen,
}
"""The preparation that an action needs, and its body."""


_MAKERS: Mapping[Family, Callable[[World, Tenant], Awaitable[str]]] = {member: make_member}
