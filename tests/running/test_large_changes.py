"""Changes are stored one after the other, so no request makes one for which all others wait long."""

from __future__ import annotations

from typing import Any

import pytest

from tests.running.deployments import deploy
from tests.world import REPOSITORY, World
from windlass.control.request import dispatch
from windlass.control.request.creating import NewResource, create_in
from windlass.control.services import cloning
from windlass.control.variables import deriving, variables
from windlass.store import MAX_REQUEST_COST

APPLICATIONS, VARIABLES = 3, 4
COPY = {"name": "copy", "mode": "DEVELOPMENT"}
IN_PARTS = "Send several smaller requests, such as one for each service"


class Street:
    """An environment whose services have variables."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def build(self) -> None:
        self.project = await self.world.project()
        self.id = await self.world.environment(self.project)
        made, self.applications = self.world.made, list[str]()
        for number in range(APPLICATIONS):
            spec = {"name": f"web-{number}", "git_repository": {"url": REPOSITORY}}
            self.applications.append(await made(f"/environment/{self.id}/application", spec))
        for application in self.applications:
            for number in range(VARIABLES):
                body = {"key": f"KEY_{number}", "value": "a"}
                await made(f"/application/{application}/environmentVariable", body)

    async def variables_of(self, application: str) -> list[dict[str, Any]]:
        listed = await self.world.get(f"/application/{application}/environmentVariable")
        own: list[dict[str, Any]] = listed["results"]
        return own

    async def environments(self) -> int:
        return len((await self.world.get(f"/project/{self.project}/environment"))["results"])


@pytest.fixture
async def street(world: World) -> Street:
    made = Street(world)
    await made.build()
    return made


@pytest.mark.parametrize("largest", [40, MAX_REQUEST_COST])
async def test_cloning_an_environment_with_too_many_resources_in_one_request_is_refused(
    street, monkeypatch, largest
):
    """Negative control: without so small a limit, the same request copies it."""
    monkeypatch.setattr(dispatch, "MAX_REQUEST_COST", largest)
    answer = await street.world.post(f"/environment/{street.id}/clone", COPY)
    if largest == MAX_REQUEST_COST:
        assert (answer.status, await street.environments()) == (202, 2)
        return
    assert (answer.status, answer.message.partition(":")[0]) == (409, IN_PARTS)
    assert await street.environments() == 1
    one = street.applications[0]
    copied = await street.world.post(
        f"/application/{one}/clone", {"name": "second", "environment_id": street.id}
    )
    assert copied.status == 202, "in parts, all of it can be copied"


async def test_a_clone_that_is_too_large_is_refused_before_anything_is_written(street, monkeypatch):
    """What was written by a refused change is undone, and other changes of that moment are made again."""
    touched: list[str] = []

    async def create(ctx: Any, tx: Any, new: NewResource) -> Any:
        touched.append(new.family.name)
        return await create_in(ctx, tx, new)

    monkeypatch.setattr(cloning, "create_in", create)
    monkeypatch.setattr(dispatch, "MAX_REQUEST_COST", 40)
    assert (await street.world.post(f"/environment/{street.id}/clone", COPY)).status == 409
    assert touched == []
    monkeypatch.setattr(dispatch, "MAX_REQUEST_COST", MAX_REQUEST_COST)
    assert (await street.world.post(f"/environment/{street.id}/clone", COPY)).status == 202
    assert touched.count("application") == APPLICATIONS


@pytest.mark.parametrize("largest", [10, MAX_REQUEST_COST])
async def test_deploying_too_many_services_in_one_request_is_refused(street, monkeypatch, largest):
    """Negative control: without so small a limit, they are."""
    monkeypatch.setattr(dispatch, "MAX_REQUEST_COST", largest)
    answer = await street.world.post(f"/environment/{street.id}/deploy")
    assert answer.status == (202 if largest == MAX_REQUEST_COST else 409)
    await street.world.settle()
    assert len(street.world.engine.applied) == (APPLICATIONS if largest == MAX_REQUEST_COST else 0)
    one = street.applications[0]
    assert (await street.world.post(f"/application/{one}/deploy")).status == 202, "in parts, they can be"


async def test_a_long_value_counts_as_several_resources_towards_the_change_limit(street, monkeypatch):
    monkeypatch.setattr(dispatch, "MAX_REQUEST_COST", 40)
    one = street.applications[0]
    path = f"/application/{one}/environmentVariable"
    assert (await street.world.post(path, {"key": "SHORT", "value": "a"})).status == 201
    assert (await street.world.post(path, {"key": "LONG", "value": "a" * 50_000})).status == 409


@pytest.mark.parametrize("largest", [10, MAX_REQUEST_COST])
@pytest.mark.parametrize("is_deployed", [True, False])
async def test_an_environment_with_very_much_in_it_is_deleted_in_parts(
    street, monkeypatch, is_deployed, largest
):
    """Negative control: without so small a limit, one request deletes it. Where a service is deployed, the
    rest is removed later, by no request."""
    if is_deployed:
        await deploy(street.world, street.applications[0])
    monkeypatch.setattr(dispatch, "MAX_REQUEST_COST", largest)
    answer = await street.world.delete(f"/environment/{street.id}")
    if largest == MAX_REQUEST_COST:
        assert answer.status == 204
        await street.world.settle()
        assert await street.environments() == 0
        return
    assert (answer.status, answer.message.partition(":")[0]) == (409, IN_PARTS)
    for application in street.applications:
        assert (await street.world.delete(f"/application/{application}")).status == 204
        await street.world.settle()
    assert (await street.world.delete(f"/environment/{street.id}")).status == 204
    await street.world.settle()
    assert await street.environments() == 0


async def test_the_change_limit_does_not_stop_background_work(street, monkeypatch):
    await deploy(street.world, street.applications[0])
    assert (await street.world.delete(f"/environment/{street.id}")).status == 204
    monkeypatch.setattr(dispatch, "MAX_REQUEST_COST", 0)
    await street.world.settle()
    assert await street.environments() == 0


@pytest.mark.parametrize("most", [3, deriving.MAX_ALIASES])
async def test_a_variable_has_a_limited_number_of_aliases(street, monkeypatch, most):
    """Aliases of aliases count, too. Negative control: without so small a number, there is another one."""
    monkeypatch.setattr(deriving, "MAX_ALIASES", most)
    path = f"/application/{street.applications[0]}/environmentVariable"
    first = (await street.variables_of(street.applications[0]))[0]
    target = first["id"]
    for number in range(3):
        target = await street.world.made(f"{path}/{target}/alias", {"key": f"ALIAS_{number}"})
    answer = await street.world.post(f"{path}/{target}/alias", {"key": "ONE_MORE"})
    assert answer.status == (409 if most == 3 else 201)
    changed = await street.world.patch(f"{path}/{first['id']}", {"value": "b"})
    assert changed.status == 200
    assert (await street.world.get(f"{path}/{target}"))["value"] == "b"


async def test_a_built_in_variable_has_a_lower_limit_of_aliases(street, monkeypatch):
    monkeypatch.setattr(deriving, "MAX_ALIASES_OF_BUILT_IN", 1)
    path = f"/application/{street.applications[0]}/environmentVariable"
    listed = (await street.world.get(f"/compat{path}"))["results"]
    built_in = next(one for one in listed if one["scope"] == "BUILT_IN")
    assert (await street.world.post(f"{path}/{built_in['id']}/alias", {"key": "ONE"})).status == 201
    assert (await street.world.post(f"{path}/{built_in['id']}/alias", {"key": "TWO"})).status == 409


@pytest.mark.parametrize("most", [VARIABLES, variables.MAX_VARIABLES_OF_LEVEL])
async def test_the_number_of_variables_per_level_is_limited(street, monkeypatch, most):
    """Negative control: without so small a number, there is another one."""
    monkeypatch.setattr(variables, "MAX_VARIABLES_OF_LEVEL", most)
    service = f"/application/{street.applications[0]}"
    answer = await street.world.post(f"{service}/environmentVariable", {"key": "MORE", "value": "a"})
    assert answer.status == (409 if most == VARIABLES else 201)
    assert (await street.world.post(f"{service}/secret", {"key": "OTHER", "value": "a"})).status == 201
