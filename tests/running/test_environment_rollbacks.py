"""A whole environment goes back to what it ran after an earlier deployment, or at an earlier time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.running.test_rollbacks import SECRET, VALUE, declare
from tests.world import Answer, World

DAY = 24 * 3600


class Shop:
    """An environment with two applications and a database, and with variables of its own."""

    def __init__(self, world: World, environment: str, web: str, api: str, database: str) -> None:
        self.world, self.environment = world, environment
        self.web, self.api, self.database = web, api, database
        self.path = f"/environment/{environment}"

    async def deploy(self) -> str:
        """Returns the id of the deployment of the environment."""
        answer = await self.world.post(f"{self.path}/deploy")
        assert answer.status == 202, answer
        await self.world.settle()
        self.world.clock.turn(60)
        return str(answer["last_deployment_id"])

    async def roll_back(self, **body: Any) -> Answer:
        answer = await self.world.post(f"{self.path}/rollback", body)
        await self.world.settle()
        return answer

    def runs(self, service: str) -> tuple[int, str | None, str]:
        """Returns memory, COLOUR and build of what runs."""
        running = self.world.engine.running[service]
        return running.memory, running.variables.get("COLOUR"), running.artifact.key

    async def numbers(self) -> dict[str, int]:
        """Returns the number of deployments of each service."""
        services = {"application": (self.web, self.api), "database": (self.database,)}
        return {
            id: (await self.world.get(f"/{family}/{id}/deployment"))["pagination"]["total_count"]
            for family, ids in services.items()
            for id in ids
        }


@pytest.fixture
async def shop(world: World) -> Shop:
    environment = await world.environment()
    await declare(world, f"environment/{environment}", "COLOUR", "red")
    web, api = [await world.application(environment, name=name, memory=256) for name in ("web", "api")]
    return Shop(world, environment, web, api, await world.database(environment, name="orders"))


async def change(shop: Shop) -> None:
    """Changes the environment and one of its services, and deploys."""
    world = shop.world
    [colour] = (await world.get(f"{shop.path}/{VALUE}"))["results"]
    await world.patch(f"{shop.path}/{VALUE}/{colour['id']}", {"value": "blue"})
    await world.patch(f"/application/{shop.web}", {"memory": 1024})
    world.git.push("a change")
    await shop.deploy()


async def test_an_environment_goes_back_to_an_earlier_deployment_in_one_request(shop: Shop):
    first = await shop.deploy()
    before = shop.runs(shop.web), shop.runs(shop.api)
    await change(shop)
    assert shop.runs(shop.web)[:2] == (1024, "blue")
    answer = await shop.roll_back(deployment_id=first)
    assert answer.status == 202, answer
    assert (shop.runs(shop.web), shop.runs(shop.api)) == before
    assert (await shop.world.get(f"/application/{shop.web}"))["memory"] == 256
    assert await shop.numbers() == {shop.web: 3, shop.api: 3, shop.database: 2}, "the database still runs so"
    [entry, *_] = (await shop.world.get(f"{shop.path}/deploymentHistory"))["results"]
    assert entry["id"] == answer["last_deployment_id"]
    assert len(entry["applications"]) == 2, "it is one deployment of the environment"


async def test_an_environment_goes_back_to_yesterday(shop: Shop):
    await shop.deploy()
    before = shop.runs(shop.web), shop.runs(shop.api)
    yesterday = shop.world.clock.now()
    shop.world.clock.turn(DAY)
    await change(shop)
    assert (await shop.roll_back(at=str(yesterday))).status == 202
    assert (shop.runs(shop.web), shop.runs(shop.api)) == before


async def test_a_rollback_of_an_environment_goes_back_before_its_newest_deployment_by_default(shop: Shop):
    await shop.deploy()
    before = shop.runs(shop.web)
    await change(shop)
    assert (await shop.roll_back()).status == 202
    assert shop.runs(shop.web) == before


async def test_a_service_that_was_not_deployed_then_goes_back_to_its_last_version_before(shop: Shop):
    await shop.deploy()
    api = shop.runs(shop.api)
    await shop.world.patch(f"/application/{shop.web}", {"memory": 512})
    answer = await shop.world.post(f"/application/{shop.web}/deploy")
    await shop.world.settle()
    shop.world.clock.turn(60)
    await change(shop)
    assert (await shop.roll_back(deployment_id=answer["id"])).status == 202
    assert (shop.runs(shop.web)[:2], shop.runs(shop.api)) == ((512, "red"), api)


async def test_the_difference_of_an_environment_shows_each_service(shop: Shop):
    first = await shop.deploy()
    await change(shop)
    later = await shop.world.application(shop.environment, name="later")
    answer = await shop.world.get(f"{shop.path}/rollbackDifference?deployment_id={first}")
    assert [(row["key"], row["present"], row["former"]) for row in answer["changes"]] == [
        ("COLOUR", "blue", "red")
    ]
    services = {row["service_name"]: row for row in answer["services"]}
    assert [row["key"] for row in services["web"]["changes"]] == ["memory"]
    assert services["api"]["changes"] == []
    assert {name: row["is_deployed"] for name, row in services.items()} == {
        "web": True,
        "api": True,
        "later": False,
        "orders": False,
    }
    assert services["later"]["reason"] == "It had no version yet"
    assert (services["later"]["missing"], services["later"]["changes"]) == ([], []), "clients read both"
    await shop.world.post(f"/application/{later}/deploy")
    await shop.world.settle()
    await shop.roll_back(deployment_id=first)
    assert later in shop.world.engine.running, "a newer service keeps running"


async def test_a_rollback_of_an_environment_is_all_or_nothing(shop: Shop):
    token = await declare(shop.world, f"application/{shop.api}", "TOKEN", "first", SECRET)
    first = await shop.deploy()
    await change(shop)
    await shop.world.delete(f"/application/{shop.api}/{SECRET}/{token}")
    refused = await shop.roll_back(deployment_id=first)
    assert (refused.status, "TOKEN" in refused.message) == (409, True)
    assert (await shop.world.get(f"/application/{shop.web}"))["memory"] == 1024
    assert (await shop.roll_back(deployment_id=first, settings="present")).status == 202
    assert shop.runs(shop.web)[:2] == (1024, "blue")


async def test_a_wrong_choice_of_a_rollback_of_an_environment_is_refused(shop: Shop):
    empty = await shop.roll_back()
    assert (empty.status, empty.message.partition(":")[0]) == (409, "Deploy the environment first")
    await shop.deploy()
    assert (await shop.roll_back(at="0")).status == 409, "nothing ran then"
    other = await shop.world.application()
    foreign = await shop.world.post(f"/application/{other}/deploy")
    assert (await shop.roll_back(deployment_id=foreign["id"])).status == 404


async def test_a_token_without_write_cannot_bring_variables_of_an_environment_back(shop: Shop):
    first = await shop.deploy()
    await change(shop)
    token = await shop.world.new_token("DEPLOY", "READ")
    body = {"deployment_id": first}
    assert (await shop.world.post(f"{shop.path}/rollback", body, token=token)).status == 403
    body["settings"] = "present"
    assert (await shop.world.post(f"{shop.path}/rollback", body, token=token)).status == 202
