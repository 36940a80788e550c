"""An environment with running hours is started and stopped by the clock."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tables import rows
from tests.world import World

HOUR = 3600
RULE: dict[str, Any] = {
    "auto_stop": True,
    "timezone": "UTC",
    "start_time": "1970-01-01T08:00:00.000Z",
    "stop_time": "1970-01-01T19:00:00.000Z",
    "weekdays": ["MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY"],
}


@pytest.fixture
async def running(world: World) -> tuple[str, str]:
    """An environment with running hours, and its application. It is Monday, 14:13."""
    environment = await world.environment()
    app = await world.application(environment)
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    assert (await set_rule(world, environment)).status == 200
    return environment, app


async def set_rule(world: World, environment: str, token: str = "", **changes: Any) -> Any:
    options = {"token": token} if token else {}
    return await world.put(
        f"/environment/{environment}/deploymentRule/current", {**RULE, **changes}, **options
    )


async def pass_hours(world: World, hours: float) -> None:
    world.clock.turn(hours * HOUR)
    await world.settle()


async def test_an_environment_is_stopped_and_started_at_its_hours(world: World, running: tuple[str, str]):
    _, app = running
    await pass_hours(world, 4)
    assert await world.state(f"/application/{app}") == "RUNNING"
    await pass_hours(world, 1)
    assert await world.state(f"/application/{app}") == "STOPPED"
    await pass_hours(world, 12)
    assert await world.state(f"/application/{app}") == "STOPPED"
    await pass_hours(world, 1)
    assert await world.state(f"/application/{app}") == "RUNNING"


async def test_each_start_and_stop_is_one_deployment_of_the_environment(
    world: World, running: tuple[str, str]
):
    environment, app = running
    other = await world.application(environment)
    await world.post(f"/application/{other}/deploy")
    await world.settle()
    await pass_hours(world, 5)
    await pass_hours(world, 13)
    for base, origin in (("", "WINDLASS"), ("/compat", "QOVERY_INTERNAL")):
        path = f"{base}/environment/{environment}/deploymentHistoryV2"
        start, stop, *_ = (await world.get(path))["results"]
        assert [(one["trigger_action"], one["action_status"]) for one in (start, stop)] == [
            ("DEPLOY", "SUCCESS"),
            ("STOP", "SUCCESS"),
        ]
        for entry in (start, stop):
            ids = {one["identifier"]["service_id"] for one in entry["stages"][0]["services"]}
            assert ids == {app, other}
            assert entry["auditing_data"]["origin"] == origin


async def test_it_stays_stopped_over_the_weekend(world: World, running: tuple[str, str]):
    _, app = running
    for _ in range(4 * 24 + 6):  # until Friday evening
        await pass_hours(world, 1)
    for _ in range(48):
        assert await world.state(f"/application/{app}") == "STOPPED"
        await pass_hours(world, 1)
    await pass_hours(world, 13)
    assert await world.state(f"/application/{app}") == "RUNNING"


async def test_what_a_person_starts_runs_until_the_next_stop(world: World, running: tuple[str, str]):
    _, app = running
    await pass_hours(world, 6)
    await world.post(f"/application/{app}/redeploy")
    await pass_hours(world, 10)
    assert await world.state(f"/application/{app}") == "RUNNING"
    await pass_hours(world, 14)
    assert await world.state(f"/application/{app}") == "STOPPED"


async def test_what_a_person_has_stopped_is_not_started(world: World, running: tuple[str, str]):
    _, app = running
    await world.post(f"/application/{app}/stop")
    await pass_hours(world, 6)
    await pass_hours(world, 14)
    assert await world.state(f"/application/{app}") == "STOPPED"


async def test_a_server_that_was_off_for_days_does_only_what_was_due_last(
    world: World, running: tuple[str, str]
):
    _, app = running
    before = len((await world.get(f"/application/{app}/deploymentHistory"))["results"])
    await pass_hours(world, 2 * 24 + 10)
    after = len((await world.get(f"/application/{app}/deploymentHistory"))["results"])
    assert (after - before, await world.state(f"/application/{app}")) == (1, "STOPPED")


async def test_without_running_hours_nothing_is_stopped_any_more(world: World, running: tuple[str, str]):
    environment, app = running
    assert (await set_rule(world, environment, auto_stop=False)).status == 200
    await pass_hours(world, 8)
    assert await world.state(f"/application/{app}") == "RUNNING"


async def test_new_hours_replace_the_former_ones(world: World, running: tuple[str, str]):
    environment, app = running
    await set_rule(world, environment, stop_time="1970-01-01T22:00:00.000Z")
    await pass_hours(world, 6)
    assert await world.state(f"/application/{app}") == "RUNNING"
    await pass_hours(world, 3)
    assert await world.state(f"/application/{app}") == "STOPPED"


async def test_running_hours_need_the_right_to_deploy(world: World, running: tuple[str, str]):
    environment, _ = running
    refused = await set_rule(world, environment, token=await world.new_token("write"))
    assert refused.status == 403
    assert refused.message.startswith("Use a token with the scope Deploy for the environment")
    assert (await set_rule(world, environment, token=await world.new_token("write", "deploy"))).status == 200


@rows(
    ("changes", "problem"),
    [
        ({"timezone": "Europe/Olso"}, "timezone: must be a time zone such as Europe/Oslo"),
        ({"weekdays": []}, "weekdays: name at least one day"),
        ({"stop_time": "1970-01-01T08:00:00.000Z"}, "stop_time: choose another time than start_time"),
    ],
)
async def test_hours_that_no_clock_can_follow_are_refused(
    world: World, changes: dict[str, Any], problem: str
):
    refused = await set_rule(world, await world.environment(), **changes)
    assert refused.status == 400
    assert refused.message.startswith(problem)
