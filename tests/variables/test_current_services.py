"""The status of an environment says whether its services are as deployed, at a cost of a few statements."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from tests.fakes.engine import FakeEngine
from tests.world import World, make_world
from windlass.control.context import variable_digests
from windlass.control.variables import current_services, inputs

IMAGE = {"image_name": "acme/cache", "tag": "1.0"}


class Shop:
    """An environment with two containers that run, one of which mentions a database."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def make(self) -> None:
        made = self.world.made
        self.project = await self.world.project()
        self.id = await self.world.environment(self.project)
        self.services = [
            await made(f"/environment/{self.id}/container", {"name": n, **IMAGE}) for n in ("a", "b")
        ]
        self.database = await self.world.database(self.id, name="orders")
        self.path = f"/container/{self.services[0]}"
        mention = {"key": "URL", "value": "{{ORDERS_URL}}"}
        self.mention = await made(f"{self.path}/environmentVariable", mention)
        self.secret = await made(f"/environment/{self.id}/secret", {"key": "KEY", "value": "correct horse"})
        self.above = await made(
            f"/project/{self.project}/environmentVariable", {"key": "CITY", "value": "Oslo"}
        )
        await self.deploy()

    async def deploy(self) -> None:
        await self.world.post(f"/environment/{self.id}/deploy")
        await self.world.settle()

    async def state(self) -> str:
        return str((await self.world.get(f"/environment/{self.id}/status"))["deployment_status"])


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    async with make_world(engine=FakeEngine("image")) as world:
        made = Shop(world)
        await made.make()
        yield made


CHANGES: dict[str, Callable[[Shop], Awaitable[object]]] = {
    "a variable": lambda shop: shop.world.patch(
        f"{shop.path}/environmentVariable/{shop.mention}", {"value": "other"}
    ),
    "a new variable": lambda shop: shop.world.made(
        f"{shop.path}/environmentVariable", {"key": "A", "value": "1"}
    ),
    "a deleted variable": lambda shop: shop.world.delete(f"{shop.path}/environmentVariable/{shop.mention}"),
    "a secret of the environment": lambda shop: shop.world.patch(
        f"/environment/{shop.id}/secret/{shop.secret}", {"value": "other"}
    ),
    "a variable of the project": lambda shop: shop.world.patch(
        f"/project/{shop.project}/environmentVariable/{shop.above}", {"value": "Bergen"}
    ),
    "a setting of a service": lambda shop: shop.world.patch(shop.path, {"memory": 600}),
    "the name of a database that is mentioned": lambda shop: shop.world.patch(
        f"/database/{shop.database}", {"name": "purchases"}
    ),
    "an advanced setting": lambda shop: shop.world.put(
        f"{shop.path}/advancedSettings", {"deployment.update_strategy.type": "Recreate"}
    ),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_each_change_of_what_services_see_makes_their_environment_out_of_date(shop: Shop, change: str):
    assert [await shop.state() for _ in range(2)] == ["UP_TO_DATE"] * 2
    await CHANGES[change](shop)
    assert [await shop.state() for _ in range(2)] == ["OUT_OF_DATE"] * 2
    await shop.deploy()
    assert [await shop.state() for _ in range(2)] == ["UP_TO_DATE"] * 2


async def test_a_change_that_no_service_sees_leaves_the_environment_up_to_date(shop: Shop):
    """The control of the test above."""
    elsewhere = await shop.world.environment(shop.project)
    await shop.world.made(f"/environment/{elsewhere}/environmentVariable", {"key": "A", "value": "1"})
    await shop.world.patch(shop.path, {"description": "of the shop"})
    assert await shop.state() == "UP_TO_DATE"


async def test_inputs_are_compared_again_only_after_a_change(shop: Shop, monkeypatch):
    asked: list[str] = []
    real = inputs.is_current

    async def counted(*arguments):
        asked.append(arguments[2].id)
        return await real(*arguments)

    monkeypatch.setattr(current_services, "is_current", counted)
    for _ in range(3):
        assert await shop.state() == "UP_TO_DATE"
    first = len(asked)
    assert first <= 3
    await shop.world.made(f"{shop.path}/environmentVariable", {"key": "A", "value": "1"})
    for _ in range(2):
        assert await shop.state() == "OUT_OF_DATE"
    assert asked[first:] == [shop.services[0]], "that of the changed one, once"


async def test_kept_answers_have_a_limit(shop: Shop, monkeypatch):
    monkeypatch.setattr(variable_digests, "_MAX_CACHED", 2)
    answers = variable_digests.CurrentAnswers()
    for number in range(5):
        answers.keep(f"service {number}", (number,), is_current=True)
        assert answers.get(f"service {number}", (number,)) is True
        assert answers.get(f"service {number}", (number + 1,)) is None
    assert len(answers._answers) <= 2
    assert await shop.state() == "UP_TO_DATE"
