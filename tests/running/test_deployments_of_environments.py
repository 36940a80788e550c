"""One deployment of an environment is one thing: an id, stages, services, durations, a state, and one
cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes.engine import FakeEngine
from tests.running.deployments import deployments
from tests.running.test_deployment_stages import new_stage, place, stages
from tests.tables import rows
from tests.world import World, make_world

IMAGE = {"image_name": "acme/cache", "tag": "1.0"}
JOB = {
    "source": {"image": {"image_name": "acme/cache", "tag": "1.0"}},
    "schedule": {"cronjob": {"scheduled_at": "0 3 * * *", "arguments": ["true"]}},
}
_DURATION = "total_deployment_duration_in_seconds"
DEFAULTS = ["default-databases", "default-jobs", "default-applications"]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world(engine=FakeEngine("image")) as made:
        yield made


async def new_shop(world: World) -> tuple[str, str, str]:
    """An environment with a database in its first stage, and an application in its last one."""
    environment = await world.environment()
    return environment, await world.database(environment), await world.application(environment)


@pytest.fixture
async def shop(world: World) -> tuple[str, str, str]:
    return await new_shop(world)


async def start(world: World, environment: str, verb: str = "deploy", body: Any = None) -> str:
    answer = await world.post(f"/environment/{environment}/{verb}", body)
    assert answer.status == 202, answer
    return str(answer["deployment_request_id"])


async def history(world: World, environment: str, query: str = "") -> list[Any]:
    return list((await world.get(f"/environment/{environment}/deploymentHistoryV2{query}"))["results"])


async def queue(world: World, environment: str) -> list[Any]:
    return list((await world.get(f"/environment/{environment}/deploymentQueue"))["results"])


def statuses(entry: Any) -> dict[str, str]:
    return {stage["name"]: stage["status"] for stage in entry["stages"]}


async def built_at_a_gate(world: World, environment: str) -> str:
    """Starts a deployment of the environment, and returns its id when its application is being built."""
    world.builder.gate = asyncio.Event()
    request = await start(world, environment)
    async with asyncio.timeout(30):
        while not world.builder.built:
            await world.installation.worker.start_due()
            await asyncio.sleep(0.01)
    return request


async def test_a_deployment_of_an_environment_has_the_stages_of_its_services_in_their_order(
    world: World, shop
):
    environment, database, app = shop
    request = await start(world, environment)
    await world.settle()
    [entry] = await history(world, environment)
    assert entry["identifier"]["execution_id"] == request
    assert [stage["name"] for stage in entry["stages"]] == ["default-databases", "default-applications"]
    assert [stage["deployment_order"] for stage in entry["stages"]] == [1, 3]
    inside = [stage["services"][0]["identifier"]["service_id"] for stage in entry["stages"]]
    assert inside == [database, app]
    assert (entry["status"], entry["action_status"]) == ("DEPLOYED", "SUCCESS")
    assert entry["auditing_data"]["triggered_by"] == "operator"


async def test_later_changes_of_stages_do_not_change_the_history(world: World, shop):
    environment, _, app = shop
    await start(world, environment)
    await world.settle()
    before = await history(world, environment)
    first, _, last = [stage["id"] for stage in await stages(world, environment)]
    await world.put(f"/deploymentStage/{last}", {"name": "pages"})
    await world.put(f"/deploymentStage/{last}/moveBefore/{first}")
    await place(world, await new_stage(world, environment, "web"), app)
    assert await history(world, environment) == before
    world.clock.turn(60)
    await start(world, environment)
    await world.settle()
    newest, *_ = await history(world, environment)
    assert list(statuses(newest)) == ["default-databases", "web"]


async def test_durations_of_stages_leave_out_the_time_in_which_they_waited(world: World, shop):
    environment, _, _ = shop
    request = await built_at_a_gate(world, environment)
    world.clock.turn(30)
    [running] = await history(world, environment)
    assert statuses(running) == {"default-databases": "DONE", "default-applications": "ONGOING"}
    assert running["action_status"] == "ONGOING"
    world.builder.gate.set()
    await world.settle()
    [ended] = await history(world, environment, f"?executionId={request}")
    data, pages = ended["stages"]
    seconds = [int(shown[2:-1]) for shown in (ended["total_duration"], data["duration"], pages["duration"])]
    assert seconds[0] >= seconds[2] >= 30 > seconds[1]


async def test_stages_after_a_failed_one_are_skipped(world: World, shop):
    environment, _, app = shop
    world.engine.broken = "there is no room"
    await start(world, environment)
    await world.settle()
    [entry] = await history(world, environment)
    assert statuses(entry) == {"default-databases": "ERROR", "default-applications": "SKIPPED"}
    assert entry["action_status"] == "ERROR"
    [service] = entry["stages"][1]["services"]
    assert service["message"].startswith("Fix the database")
    assert (service["status"], service["total_duration"]) == ("DEPLOYMENT_ERROR", "PT0S")
    assert (await world.get(f"/application/{app}/status"))["deployment_state"] == service["status"]


async def test_the_newest_of_two_deployments_replaces_what_it_covers_and_nothing_else(world: World, shop):
    environment, database, app = shop
    beside = await world.application(environment)
    first = await built_at_a_gate(world, environment)
    world.clock.turn(1)
    second = await start(world, environment, "service/deploy", {"databases": [database]})
    world.clock.turn(1)
    third = await start(world, environment, "service/deploy", {"databases": [database]})
    assert [one["identifier"]["deployment_request_id"] for one in await queue(world, environment)] == [
        first,
        third,
    ]
    world.builder.gate.set()
    await world.settle()
    newest, middle, oldest = await history(world, environment)
    assert [one["identifier"]["execution_id"] for one in (newest, middle, oldest)] == [third, second, first]
    assert [one["action_status"] for one in (newest, middle, oldest)] == ["SUCCESS", "CANCELED", "SUCCESS"]
    assert [(await deployments(world, one))[0]["status"] for one in (app, beside)] == ["SUCCEEDED"] * 2


async def test_a_queue_keeps_the_id_of_a_deployment_whose_first_stage_has_ended(world: World, shop):
    environment, _, app = shop
    request = await built_at_a_gate(world, environment)
    [queued] = await queue(world, environment)
    assert queued["identifier"] == {"deployment_request_id": request, "environment_id": environment}
    assert statuses(queued) == {"default-applications": "ONGOING"}
    [waiting] = (await world.get(f"/service/{app}/deploymentQueue"))["results"]
    assert waiting["status_details"] == {"action": "DEPLOY", "status": "ONGOING", "sub_action": "NONE"}
    world.builder.gate.set()
    await world.settle()
    assert await queue(world, environment) == []


async def test_one_cancellation_ends_all_stages_that_are_left(world: World, shop):
    environment, _, app = shop
    last = await new_stage(world, environment, "last")
    beside = await world.application(environment)
    await place(world, last, beside)
    request = await built_at_a_gate(world, environment)
    [queued] = await queue(world, environment)
    assert statuses(queued) == {"default-applications": "ONGOING", "last": "QUEUED"}
    cancelled = await world.post(f"/deploymentQueue/{request}/cancelDeployment", {})
    assert cancelled.status == 202
    [entry] = await history(world, environment)
    assert entry["action_status"] in {"CANCELING", "CANCELED"}
    await world.settle()
    [entry] = await history(world, environment)
    assert statuses(entry) == {
        "default-databases": "DONE",
        "default-applications": "CANCELED",
        "last": "CANCELED",
    }
    assert (entry["action_status"], entry["status"]) == ("CANCELED", "CANCELED")
    assert {(await deployments(world, one))[0]["status"] for one in (app, beside)} == {"CANCELED"}


async def test_one_deployment_is_read_by_its_id_or_by_that_of_one_of_its_services(world: World, shop):
    environment, _, app = shop
    request = await start(world, environment)
    await world.settle()
    world.clock.turn(60)
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    _, whole = await history(world, environment)
    of_app = whole["stages"][1]["services"][0]["identifier"]["execution_id"]
    for id in (request, of_app):
        assert await history(world, environment, f"?executionId={id}") == [whole]
    other = await world.environment()
    assert await history(world, other, f"?executionId={request}") == []


@rows("base", ["", "/compat"])
async def test_statuses_are_listed_by_the_present_stages(world: World, base: str):
    environment, database, app = await new_shop(world)
    cache = await world.made(f"/environment/{environment}/container", {"name": world.name("cache"), **IMAGE})
    only = await new_stage(world, environment, "left out")
    await place(world, only, cache, {"is_skipped": True})
    await start(world, environment)
    await world.settle()
    answer = await world.get(f"{base}/environment/{environment}/statusesWithStages")
    shown = {one["stage"]["name"]: one for one in answer["stages"]}
    assert list(shown) == [*DEFAULTS, "left out"]
    assert [one["stage"]["status"] for one in shown.values()] == ["DONE", "SKIPPED", "DONE", "SKIPPED"]
    assert [one["id"] for one in shown["default-databases"]["databases"]] == [database]
    assert [one["id"] for one in shown["default-applications"]["applications"]] == [app]
    assert [one["id"] for one in shown["left out"]["containers"]] == [cache]
    assert shown["default-jobs"]["jobs"] == shown["default-jobs"]["helms"] == []
    plain = await world.get(f"{base}/environment/{environment}/statuses")
    assert answer["environment"] == plain["environment"] | {
        name: answer["environment"][name] for name in ("metrics", _DURATION)
    }


async def test_statuses_by_stage_have_the_times_of_the_last_deployment(world: World, shop):
    environment, _, _ = shop
    await built_at_a_gate(world, environment)
    world.clock.turn(30)
    path = f"/environment/{environment}/statusesWithStages"
    assert (await world.get(path))["environment"].get(_DURATION) is None
    world.builder.gate.set()
    await world.settle()
    answer = await world.get(path)
    assert answer["environment"][_DURATION] >= 30
    assert answer["environment"]["triggered_by"] == "operator"
    [web] = answer["stages"][2]["applications"]
    assert [(step["step_name"], step["status"]) for step in web["steps"]["details"]] == [
        ("DEPLOYMENT_QUEUEING", "SUCCESS"),
        ("BUILD", "SUCCESS"),
        ("DEPLOYMENT", "SUCCESS"),
    ]
    assert web["steps"]["details"][1]["duration_sec"] >= 30
    assert web["steps"]["total_duration_sec"] >= web["steps"]["total_computing_duration_sec"] >= 30
    steps = [one["stage"].get("steps") for one in answer["stages"]]
    assert steps[1] is None, "the stage of jobs has no service"
    assert answer["environment"]["metrics"] == [steps[0], steps[2]]
    assert steps[2]["total_duration_sec"] >= 30
    assert [(step["step_name"], step["status"]) for step in steps[2]["details"]] == [
        ("QUEUEING", "SUCCESS"),
        ("TOTAL", "SUCCESS"),
    ]


@rows("base", ["", "/compat"])
async def test_histories_have_the_words_that_clients_know_of_each_kind(world: World, base: str):
    environment, database, app = await new_shop(world)
    cache = await world.made(f"/environment/{environment}/container", {"name": world.name("cache"), **IMAGE})
    job = await world.made(f"/environment/{environment}/job", {"name": world.name("nightly"), **JOB})
    await start(world, environment)
    await world.settle()
    listed = {
        kind: (await world.get(f"{base}/{kind}/{id}/deploymentHistory"))["results"][0]
        for kind, id in (("application", app), ("database", database), ("container", cache), ("job", job))
    }
    assert listed["application"]["status"] == "SUCCESS"
    assert {listed[kind]["status"] for kind in ("database", "container", "job")} == {"DEPLOYED"}
    assert (listed["container"]["image_name"], listed["container"]["tag"]) == ("acme/cache", "1.0")
    assert listed["job"]["schedule"]["event"] == "CRON"
    assert listed["job"]["schedule"]["schedule_at"] == "0 3 * * *"
    assert listed["job"]["schedule"]["cron_job"]["arguments"] == ["true"]
