"""An organization that is filled to its limits, as far as these make an answer or a change longer.

One environment has 300 services, which are deployed. One of them and the levels above it have as many
variables as fit: a third are aliases, and a third are secrets that mention others. Its deployments are many.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from tests.derived.operations import operation_of
from tests.derived.plots import Plot
from tests.derived.stage import Stage, staged
from tests.derived.things import Thing
from windlass.base import ids
from windlass.control.services.rollbacks import MAX_COMPARED_RELEASES
from windlass.core.declare.resource import Family
from windlass.families import registry
from windlass.store import Tx

SERVICES = 300
VARIABLES_OF_LEVEL = 900
MENTIONS = 3
"""Variables of each level that mention each variable of the level, and as many unknown names."""
DEPLOYMENTS = 1000
_OF_OTHER_KINDS = 30
"""Services of each kind but applications, which are the rest."""


class FilledPlot(Plot):
    """All operations have the same subjects, which have much below them."""

    async def fresh(self, family: Family, parent: Family | None = None) -> Thing:
        return await self.standing(family, parent)


@asynccontextmanager
async def filled(database_url: str) -> AsyncIterator[Stage]:
    async with staged(database_url) as stage:
        plot = stage.plot = FilledPlot(stage, stage.plot.tenant)
        application = await plot.standing(registry()["application"])
        environment = application.above[1]
        for family in registry().services:
            await _add_services(plot, environment, family)
        await _deploy(stage, environment)
        for level in reversed(application.above[:-1]):
            await _add_variables(stage, level)
        for family in registry().services:
            await plot.ran(await plot.standing(family))
        await _add_deployments(stage, application)
        yield stage


async def _deploy(stage: Stage, environment: Thing) -> None:
    path = f"/environment/{environment.id}/deploy"
    assert (await stage.world.post(path, token=stage.plot.tenant.admin)).status == 202
    await stage.world.settle()


async def _add_services(plot: Plot, environment: Thing, family: Family) -> None:
    others = len(registry().services) - 1
    is_rest = family is registry()["application"]
    number = SERVICES - others * _OF_OTHER_KINDS - 1 if is_rest else _OF_OTHER_KINDS - 1
    await plot.standing(family)
    for _ in range(number):
        await plot.below(environment, family)


async def _add_variables(stage: Stage, level: Thing) -> None:
    """A third of the variables have plain values; each has an alias, and is mentioned by a secret and,
    together with all others and with unknown names, by further variables."""
    third, scope = VARIABLES_OF_LEVEL // 3, level.family.enum_value
    names = [f"{scope}_{number}" for number in range(third)]
    mentions = {name: f"{{{{{name}}}}}" for name in (*names, *(f"UNKNOWN_{name}" for name in names))}
    await _import(stage, level, {name: f"value {name}" for name in names})
    await _import(stage, level, {f"MENTIONS_{name}": mentions[name] for name in names}, is_secret=True)
    await _import(
        stage, level, {f"ALL_{number}_{scope}": "".join(mentions.values()) for number in range(MENTIONS)}
    )
    path = f"/{level.family.name}/{level.id}/environmentVariable"
    listed = await stage.world.get(f"{path}?page_size=1000", token=stage.plot.tenant.admin)
    by_name = {variable["key"]: variable["id"] for variable in listed["results"]}
    for name in names:
        await stage.world.made(f"{path}/{by_name[name]}/alias", {"key": f"ALIAS_OF_{name}"})


async def _import(stage: Stage, level: Thing, values: dict[str, str], *, is_secret: bool = False) -> None:
    family = registry()["environmentVariable"]
    operation = operation_of("import", family, level.family)
    scope = level.family.enum_value
    entries = [
        {"name": name, "value": value, "scope": scope, "is_secret": is_secret}
        for name, value in values.items()
    ]
    answer = await stage.call(operation, (level.id,), {"vars": entries}, stage.plot.tenant.admin)
    assert answer.status == operation.status, answer


async def _add_deployments(stage: Stage, service: Thing) -> None:
    """Adds copies of the last deployment: to make them by requests would take minutes. The newest ones have
    kept the inputs with which they ran, as many as a rollback compares."""
    store = stage.world.installation.ctx.store
    [last] = await store.reads.deployments.latest(service.id, 1)
    inputs = await store.reads.deployment_inputs.get(last.id)
    assert inputs is not None

    async def add(tx: Tx) -> None:
        status = await tx.statuses.get(service.id)
        assert status is not None
        await tx.statuses.change(replace(status, deployments=DEPLOYMENTS))
        for number in range(last.number + 1, DEPLOYMENTS + 1):
            copy = replace(last, id=ids.new_id(), number=number)
            await tx.deployments.add(copy)
            if number > DEPLOYMENTS - MAX_COMPARED_RELEASES:
                await tx.deployment_inputs.set(copy.id, service.id, inputs)

    await store.write(add)


async def change_a_variable(stage: Stage, value: str) -> None:
    """Changes a variable that all services of the project see, if the project is still there."""
    project = await stage.plot.standing(registry()["project"])
    path, token = f"/project/{project.id}/environmentVariable", stage.plot.tenant.admin
    listed = await stage.world.get(f"{path}?page_size=1", token=token)
    if listed.status == 404 or not listed["results"]:
        return
    changed = await stage.world.patch(f"{path}/{listed['results'][0]['id']}", {"value": value}, token=token)
    assert changed.status in {200, 404, 409}, changed
