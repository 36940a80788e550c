"""Histories and queues of deployments, of a service and of a whole environment."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import pytest

from tests.fakes.engine import FakeEngine
from tests.world import REPOSITORY, World, make_world
from windlass.control.records import past_deployments

IMAGE = {"name": "cache", "image_name": "acme/cache", "tag": "1.0", "arguments": ["-v"]}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world(engine=FakeEngine("image")) as made:
        yield made


@pytest.fixture
async def shop(world: World) -> tuple[str, str, str]:
    """An environment with an application and a container, deployed together and then one alone."""
    environment = await world.environment()
    app = await world.application(environment)
    container = await world.made(f"/environment/{environment}/container", IMAGE)
    await world.post(f"/environment/{environment}/deploy")
    await world.settle()
    world.clock.turn(60)
    await world.post(f"/container/{container}/deploy", {"image_tag": "2.0"})
    await world.settle()
    return environment, app, container


async def test_deployments_of_one_request_are_one_entry_in_the_environments_history(world: World, shop):
    environment, app, _ = shop
    answer = await world.get(f"/environment/{environment}/deploymentHistory")
    alone, both = answer["results"]
    assert (answer["page"], answer["page_size"]) == (1, 20)
    assert [(len(entry["applications"]), len(entry["containers"])) for entry in (alone, both)] == [
        (0, 1),
        (1, 1),
    ]
    assert (alone["containers"][0]["tag"], both["containers"][0]["tag"]) == ("2.0", "1.0")
    assert both["applications"][0]["commit"]["git_commit_id"]
    assert {entry["status"] for entry in (alone, both)} == {"DEPLOYED"}
    assert (alone["helms"], alone["jobs"], both["triggered_by"], both["origin"]) == (
        [],
        [],
        "operator",
        "API",
    )
    deployments = (await world.get(f"/application/{app}/deployment"))["results"]
    assert both["applications"][0]["id"] == deployments[0]["id"]


async def test_the_next_page_of_a_history_begins_after_the_given_entry(world: World, shop):
    environment, app, container = shop
    for path in (
        f"/environment/{environment}/deploymentHistory",
        f"/container/{container}/deploymentHistoryV2",
    ):
        everything = (await world.get(path))["results"]
        first = await world.get(f"{path}?pageSize=1")
        assert (first["results"], first["page_size"]) == (everything[:1], 1)
        start = first["results"][0].get("id") or first["results"][0]["identifier"]["execution_id"]
        assert (await world.get(f"{path}?startId={start}"))["results"] == everything[1:]
    elsewhere = (await world.get(f"/application/{app}/deployment"))["results"][0]["id"]
    refused = await world.get(f"/container/{container}/deploymentHistoryV2?startId={elsewhere}")
    assert (refused.status, refused.message.partition(":")[0]) == (400, "startId")
    other = await world.environment()
    refused = await world.get(f"/environment/{other}/deploymentHistory?startId={elsewhere}")
    assert (refused.status, refused.message.partition(":")[0]) == (400, "startId")


async def test_history_by_stage_shows_the_action_and_version_of_each_service(world: World, shop):
    environment, _, container = shop
    alone, both = (await world.get(f"/environment/{environment}/deploymentHistoryV2"))["results"]
    [stage] = both["stages"]
    assert (stage["name"], stage["status"], len(stage["services"])) == ("default-applications", "DONE", 2)
    assert (both["trigger_action"], both["action_status"]) == ("DEPLOY", "SUCCESS")
    assert both["identifier"]["environment_id"] == environment
    [entry] = alone["stages"][0]["services"]
    assert entry["identifier"]["service_id"] == container
    assert entry["details"] == {
        "image_name": "acme/cache", "tag": "2.0", "arguments": ["-v"], "entrypoint": ""
    }  # fmt: skip
    own = (await world.get(f"/container/{container}/deploymentHistoryV2"))["results"]
    assert own[0] == entry
    assert entry["total_duration"].startswith("PT")


async def test_the_history_distinguishes_failed_and_waiting_deployments(world: World, shop):
    environment, app, _ = shop
    world.clock.turn(60)
    world.git.push("broken")
    world.builder.broken = "no such package"
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    world.clock.turn(60)
    await world.post(f"/environment/{environment}/stop")
    stop, failed, *_ = (await world.get(f"/environment/{environment}/deploymentHistory"))["results"]
    assert (stop["status"], failed["status"]) == ("STOP_QUEUED", "BUILD_ERROR")
    assert failed["applications"][0]["status"] == "BUILD_ERROR"
    of_app = (await world.get(f"/application/{app}/deploymentHistory"))["results"]
    assert not any(one.get("commit", "left out") is None for one in (stop["applications"][0], *of_app))
    [queued] = (await world.get(f"/environment/{environment}/deploymentQueue"))["results"]
    assert (queued["trigger_action"], queued["stages"][0]["status"]) == ("STOP", "QUEUED")
    assert len(queued["stages"][0]["services"]) == 2
    [waiting] = (await world.get(f"/service/{app}/deploymentQueue"))["results"]
    assert waiting["identifier"]["service_id"] == app
    assert waiting["status_details"]["status"] == "QUEUED"
    await world.settle()
    assert (await world.get(f"/environment/{environment}/deploymentQueue"))["results"] == []
    assert (await world.get(f"/service/{app}/deploymentQueue"))["results"] == []


@pytest.mark.parametrize("base", ["", "/compat"])
async def test_a_deployment_queue_has_details_only_for_jobs(world: World, base: str):
    """Existing clients require the type of a job in `details`, and refuse the whole list without it."""
    environment = await world.environment()
    app = await world.application(environment)
    job = {
        "name": "j",
        "source": {"docker": {"git_repository": {"url": REPOSITORY}}},
        "schedule": {"on_start": {}},
    }
    job_id = await world.made(f"/environment/{environment}/job", job)
    await world.post(f"/environment/{environment}/deploy")
    [queued] = (await world.get(f"{base}/environment/{environment}/deploymentQueue"))["results"]
    details = {
        service["identifier"]["service_id"]: service.get("details")
        for stage in queued["stages"]
        for service in stage["services"]
    }
    assert details[app] is None
    assert details[job_id]["job_type"] == "LIFECYCLE"


@pytest.mark.parametrize("base", ["", "/compat"])
async def test_the_next_page_of_a_service_history_begins_after_the_given_entry(world: World, shop, base: str):
    """Existing clients page with `startId`, until nothing more comes."""
    _, app, container = shop
    for _ in range(4):
        await world.post(f"/application/{app}/deploy")
        await world.settle()
    await world.post(f"/application/{app}/deploy")  # it waits, so it is not in the history
    path = f"{base}/application/{app}/deploymentHistory"
    whole = [one["id"] for one in (await world.get(path))["results"]]
    assert len(whole) >= 4
    for index, id in enumerate(whole):
        rest = await world.get(f"{path}?startId={id}")
        assert [one["id"] for one in rest["results"]] == whole[index + 1 :]
        second = await world.get(f"{path}?startId={id}&page=2&page_size=1")
        assert [one["id"] for one in second["results"]] == whole[index + 2 : index + 3]
    elsewhere = await world.get(f"{base}/container/{container}/deploymentHistory?startId={whole[0]}")
    assert (elsewhere.status, elsewhere.message.partition(":")[0]) == (400, "startId")


async def test_an_environment_without_deployments_has_an_empty_history(world: World):
    environment = await world.environment()
    for name in ("deploymentHistory", "deploymentHistoryV2", "deploymentQueue"):
        assert (await world.get(f"/environment/{environment}/{name}"))["results"] == []
    stages = (await world.get(f"/environment/{environment}/statusesWithStages"))["stages"]
    assert [stage["stage"]["status"] for stage in stages] == ["SKIPPED"] * 3


async def test_the_next_page_of_a_history_reads_no_newer_entries(world: World, shop):
    environment, _, container = shop
    for _ in range(30):
        world.clock.turn(60)
        await world.post(f"/container/{container}/deploy", {"image_tag": "3.0"})
        await world.settle()
    *_, alone, both = (await world.get(f"/environment/{environment}/deploymentHistory?pageSize=100"))[
        "results"
    ]
    reads = world.installation.ctx.store.reads.deployments
    numbers: list[int] = []
    of_environment = type(reads).of_environment

    async def watched(self, *given):
        rows = await of_environment(self, *given)
        numbers.extend(row.number for row in rows)
        return rows

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(type(reads), "of_environment", watched)
        rest = await world.get(f"/environment/{environment}/deploymentHistory?startId={alone['id']}")
    assert rest["results"] == [both]
    assert max(numbers) == 2
    assert alone["containers"][0]["id"] == alone["id"]


async def test_a_history_with_more_deployments_of_one_moment_than_are_read_at_once_is_complete(
    world: World, monkeypatch
):
    monkeypatch.setattr(past_deployments, "_OF_ENVIRONMENT_AT_ONCE", 2)
    environment = await world.environment()
    apps = [await world.application(environment) for _ in range(5)]
    for _ in range(2):
        await world.post(f"/environment/{environment}/deploy")
        await world.settle()
        world.clock.turn(60)
    whole = (await world.get(f"/environment/{environment}/deploymentHistory"))["results"]
    shown = [[part["name"] for part in entry["applications"]] for entry in whole]
    names = [(await world.get(f"/application/{app}"))["name"] for app in apps]
    assert shown == [names, names]


async def test_a_database_whose_image_is_missing_has_a_failed_deployment_and_no_failed_build(world: World):
    database = await world.database()
    world.engine.missing = "Choose another version: there is no image of it"
    await world.post(f"/database/{database}/deploy")
    await world.settle()
    assert (await world.get(f"/compat/database/{database}/status"))["state"] == "DEPLOYMENT_ERROR"
    for version in ("", "V2"):
        [failed] = (await world.get(f"/compat/database/{database}/deploymentHistory{version}"))["results"]
        assert ("DEPLOYMENT_ERROR" in str(failed), "BUILD_ERROR" in str(failed)) == (True, False)


@pytest.mark.parametrize("family", ["container", "database", "job"])
async def test_entries_of_other_histories_than_those_of_applications_have_states(world: World, family: str):
    environment = await world.environment()
    bodies: dict[str, Mapping[str, object]] = {
        "container": IMAGE,
        "database": {"name": "db", "type": "REDIS", "version": "7", "mode": "CONTAINER"},
        "job": {
            "name": "job",
            "source": {"image": {"image_name": "a/b", "tag": "1"}},
            "schedule": {"on_start": {}},
        },
    }
    service = await world.made(f"/environment/{environment}/{family}", bodies[family])
    await world.post(f"/{family}/{service}/deploy")
    await world.run(5)
    [ended] = (await world.get(f"/compat/{family}/{service}/deploymentHistory"))["results"]
    assert ended["status"] == "DEPLOYED"
