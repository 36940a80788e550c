"""A request for deployments is cancelled by its id: all that is left of it, and nothing else."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from tests.running.deployments import deploy, deployed, deployments, generations, under_way
from tests.world import Answer, World
from windlass.core.words.events import Event


async def cancel(world: World, request: str, **options: str) -> Answer:
    return await world.post(f"/deploymentQueue/{request}/cancelDeployment", {}, **options)


async def progress(world: World, app: str) -> list[str]:
    """The newest first."""
    return [one["status"] for one in await deployments(world, app)]


async def test_cancelling_a_deployment_request_cancels_only_its_own_deployments(world: World):
    environment = await world.environment()
    apps = [await world.application(environment) for _ in range(3)]
    chosen = {"applications": [{"application_id": app} for app in apps[:2]]}
    asked = await world.post(f"/environment/{environment}/service/deploy", chosen)
    world.clock.turn(1)
    await deploy(world, apps[2])
    answer = await cancel(world, asked["deployment_request_id"])
    assert (answer.status, answer.body) == (202, b"")
    assert [await progress(world, app) for app in apps] == [["CANCELED"], ["CANCELED"], ["QUEUED"]]
    await world.settle()
    assert [wanted.service for wanted in world.engine.applied] == [apps[2]]


async def test_a_deployment_request_may_be_given_by_its_id_or_that_of_any_of_its_deployments(world: World):
    environment = await world.environment()
    app, other = await world.application(environment), await world.application(environment)
    for place in ("queue", "deployment"):
        await world.post(f"/environment/{environment}/deploy")
        [queued] = (await world.get(f"/environment/{environment}/deploymentQueue"))["results"]
        names = {
            "queue": queued["identifier"]["deployment_request_id"],
            "deployment": (await deployments(world, other))[0]["id"],
        }
        assert (await cancel(world, names[place])).status == 202
        assert {(await progress(world, one))[0] for one in (app, other)} == {"CANCELED"}


async def test_cancelling_a_running_request_leaves_the_earlier_release_serving(world: World):
    app = await deployed(world)
    world.git.push("a change")
    world.builder.gate = asyncio.Event()
    request = await deploy(world, app)
    await under_way(world, lambda: len(world.builder.built) == 2)
    first, repeat = await cancel(world, request), await cancel(world, request)
    assert (first.status, repeat.status) == (202, 202)
    await world.settle()
    assert await progress(world, app) == ["CANCELED", "SUCCEEDED"]
    assert generations(world, app) == [1]
    asked = [event for event in await world.events() if event.kind == Event.CANCEL_ASKED]
    assert len(asked) == 1


async def test_a_request_that_has_ended_is_not_cancelled(world: World):
    environment = await world.environment()
    empty = (await world.post(f"/environment/{environment}/deploy"))["deployment_request_id"]
    app = await world.application(environment)
    done = await deploy(world, app)
    await world.settle()
    cancelled = await deploy(world, app)
    assert (await cancel(world, cancelled)).status == 202
    await world.settle()
    before = await progress(world, app)
    for request in (done, cancelled, empty):
        answer = await cancel(world, request)
        assert (answer.status, "this request has ended" in answer.message) == (409, True)
    assert await progress(world, app) == before


async def test_a_concurrent_start_and_cancellation_end_the_deployment_exactly_once(world: World):
    """Many cancellations at the same moment as the start: the deployment has one end, and each caller hears
    which."""
    app = await world.application()
    request = await deploy(world, app)
    start = asyncio.create_task(world.installation.worker.start_due())
    answers = await asyncio.gather(*(cancel(world, request) for _ in range(5)))
    await start
    await world.settle()
    [end] = await progress(world, app)
    assert {answer.status for answer in answers} <= {202, 409}
    assert (end == "CANCELED") == (202 in {answer.status for answer in answers})
    kinds = [event.kind for event in await world.events()]
    assert kinds.count(Event.CANCEL_ASKED) <= 1


async def test_a_deletion_is_not_cancelled(world: World):
    app = await deployed(world)
    await world.delete(f"/application/{app}")
    request = (await world.get(f"/application/{app}/status"))["deployment_request_id"]
    answer = await cancel(world, request)
    assert (answer.status, "it is being deleted" in answer.message) == (409, True)


async def test_cancelling_a_request_needs_the_right_to_deploy_all_of_it(world: World):
    environment = await world.environment()
    app, other = await world.application(environment), await world.application(environment)
    both = (await world.post(f"/environment/{environment}/deploy"))["deployment_request_id"]
    read = await world.new_token("Read")
    part = await world.new_token("Deploy", limited_to=[app])
    whole = await world.new_token("Deploy", limited_to=[environment])
    _, foreign = await world.organization()
    missing = await cancel(world, str(uuid.uuid4()))
    assert (await cancel(world, both, token=read)).status == 403
    for token in (part, foreign):
        answer = await cancel(world, both, token=token)
        assert (answer.status, answer.message) == (404, missing.message)
    assert {(await progress(world, one))[0] for one in (app, other)} == {"QUEUED"}
    assert (await cancel(world, both, token=whole)).status == 202
    world.clock.turn(1)
    alone = await deploy(world, app)
    assert (await cancel(world, alone, token=part)).status == 202


@pytest.mark.parametrize("body", [[], {"force_cancel": "yes"}, {"deployment": "all"}])
async def test_a_cancel_request_with_an_invalid_body_cancels_nothing(world: World, body):
    app = await world.application()
    request = await deploy(world, app)
    answer = await world.post(f"/deploymentQueue/{request}/cancelDeployment", body)
    assert answer.status == 400
    assert await progress(world, app) == ["QUEUED"]


async def test_deploying_chosen_services_returns_the_id_of_that_request(world: World):
    environment = await world.environment()
    app, other = await world.application(environment), await world.application(environment)
    whole = (await world.post(f"/environment/{environment}/deploy"))["deployment_request_id"]
    await world.settle()
    world.clock.turn(60)
    chosen = {"applications": [{"application_id": one} for one in (other, app)]}
    asked = await world.post(f"/environment/{environment}/service/deploy", chosen)
    entry = (await world.get(f"/environment/{environment}/deploymentHistory"))["results"][0]
    assert asked["deployment_request_id"] == asked["execution_id"] == entry["id"] != whole
    status = await world.get(f"/environment/deploymentStatus?deploymentRequestId={entry['id']}")
    assert status["status"] == "QUEUED"
    await world.settle()
    assert (await world.get(f"/environment/{environment}/status"))["deployment_request_id"] == whole
    restarted = {"application_ids": [app]}
    again = await world.post(f"/environment/{environment}/service/restart-service", restarted)
    assert again["deployment_request_id"] == (await deployments(world, app))[0]["id"]
