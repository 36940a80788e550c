"""The comparison with earlier deployments costs a request a limited time, however many variables differ."""

from __future__ import annotations

import pytest

from tests.world import World
from windlass.control.services import environment_rollbacks, release_differences, rollbacks


async def deploy(world: World, app: str) -> None:
    assert (await world.post(f"/application/{app}/deploy")).status == 202
    await world.settle()


async def test_a_rollback_compares_a_limited_number_of_variables(monkeypatch, world: World):
    app = await world.application()
    path = f"/application/{app}/environmentVariable"
    made = [await world.made(path, {"key": f"K{number}", "value": "before"}) for number in range(5)]
    await deploy(world, app)
    for number, id in enumerate(made):
        assert (await world.put(f"{path}/{id}", {"key": f"K{number}", "value": "after"})).status == 200
    await deploy(world, app)
    monkeypatch.setattr(release_differences, "MAX_COMPARED_IN_WRITE", 4)
    refused = await world.post(f"/application/{app}/rollback", {"deployment_id": "v1"})
    assert refused.status == 400
    assert refused.message.startswith("Choose single services")
    values = {variable["value"] for variable in (await world.get(path))["results"]}
    assert values == {"after"}
    difference = f"/application/{app}/rollbackDifference?deployment_id=v1"
    assert len((await world.get(difference))["changes"]) == 5
    monkeypatch.setattr(release_differences, "MAX_COMPARED", 4)
    assert (await world.get(difference)).status == 400
    monkeypatch.setattr(release_differences, "MAX_COMPARED_IN_WRITE", 5)
    assert (await world.post(f"/application/{app}/rollback", {"deployment_id": "v1"})).status == 202


async def test_the_variables_of_an_environment_are_compared_once_for_all_services(monkeypatch, world: World):
    environment = await world.environment()
    apps = [await world.application(environment) for _ in range(3)]
    path = f"/environment/{environment}/environmentVariable"
    made = await world.made(path, {"key": "SHARED", "value": "before"})
    assert (await world.post(f"/environment/{environment}/deploy")).status == 202
    await world.settle()
    assert (await world.put(f"{path}/{made}", {"key": "SHARED", "value": "after"})).status == 200
    monkeypatch.setattr(release_differences, "MAX_COMPARED", 1)
    history = await world.get(f"/application/{apps[0]}/deploymentHistoryV2")
    deployment = history["results"][0]["identifier"]["execution_id"]
    shown = await world.get(f"/environment/{environment}/rollbackDifference?deployment_id={deployment}")
    assert [change["key"] for change in shown["changes"]] == ["SHARED"]


@pytest.mark.parametrize("most", [1, rollbacks.MAX_COMPARED_RELEASES])
async def test_a_rollback_compares_a_limited_number_of_releases(monkeypatch, world: World, most: int):
    """All variables of each of them are read. Negative control: with the usual number, the first is found."""
    monkeypatch.setattr(rollbacks, "MAX_COMPARED_RELEASES", most)
    service = f"/application/{await world.application()}"
    for cpu in (500, 600, 600, 600):  # all of the same build
        assert (await world.patch(service, {"cpu": cpu})).status == 200
        await deploy(world, service.rpartition("/")[2])
    shown = await world.get(f"{service}/rollbackDifference")
    assert shown["number"] == (0 if most == 1 else 1)
    assert (await world.post(f"{service}/rollback", {})).status == (409 if most == 1 else 202)
    assert (await world.post(f"{service}/rollback", {"deployment_id": "v1"})).status == 202


@pytest.mark.parametrize("most", [3, environment_rollbacks.MAX_SEARCHED_IN_ALL])
async def test_a_rollback_of_an_environment_searches_a_limited_number_of_deployments(
    monkeypatch, world: World, most: int
):
    monkeypatch.setattr(environment_rollbacks, "MAX_SEARCHED_IN_ALL", most)
    environment = await world.environment()
    apps = [await world.application(environment) for _ in range(2)]
    for _ in range(3):
        world.clock.turn(60)
        for app in apps:
            await deploy(world, app)
    shown = await world.get(f"/environment/{environment}/rollbackDifference")
    assert shown.status == (400 if most == 3 else 200)
    back = await world.post(f"/environment/{environment}/rollback", {"settings": "present"})
    assert back.status == (400 if most == 3 else 202)
