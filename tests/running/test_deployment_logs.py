"""The log of a deployment of an environment, and the state of what one request has started."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest

from tests.fakes.engine import FakeEngine
from tests.world import World, make_world

IMAGE = {"name": "cache", "image_name": "acme/cache", "tag": "1.0"}
STATUS = "/environment/deploymentStatus?deploymentRequestId="


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world(engine=FakeEngine("image")) as made:
        yield made


@pytest.fixture
async def shop(world: World) -> tuple[str, str, str]:
    """An environment with an application and a container, deployed together."""
    environment = await world.environment()
    app = await world.application(environment, name="web")
    container = await world.made(f"/environment/{environment}/container", IMAGE)
    await world.post(f"/environment/{environment}/deploy")
    await world.settle()
    return environment, app, container


async def test_an_environments_deployment_log_has_each_services_states_and_build_lines(world: World, shop):
    environment, app, container = shop
    lines = (await world.get(f"/environment/{environment}/log"))["results"]
    web = [line for line in lines if line["scope"]["id"] == app]
    assert web[0]["message"] == "DEPLOY v1 of web was asked for by operator"
    assert [line["state"] for line in (web[0], web[-1])] == ["WAITING", "DEPLOYED"]
    assert {line["state"] for line in web[1:-1]} == {"DEPLOYMENT_IN_PROGRESS"}
    deployment = (await world.get(f"/application/{app}/deployment"))["results"][0]["id"]
    built = (await world.get(f"/application/{app}/deployment/{deployment}/log"))["results"]
    assert built
    assert [line["message"] for line in built] == [line["message"] for line in web[2:-1]]
    assert {line["scope"]["id"] for line in lines} == {app, container}
    assert len({line["id"] for line in lines}) == len(lines)
    entry = (await world.get(f"/environment/{environment}/deploymentHistory"))["results"][0]
    assert {line["execution_id"] for line in lines} == {entry["id"]}


async def test_each_entry_names_the_step_and_the_service(world: World, shop):
    environment, app, _ = shop
    entries = (await world.get(f"/environment/{environment}/logs")).json
    lines = (await world.get(f"/environment/{environment}/log"))["results"]
    assert [entry["message"]["safe_message"] for entry in entries] == [line["message"] for line in lines]
    assert [entry["timestamp"] for entry in entries] == [line["created_at"] for line in lines]
    web = [entry["details"] for entry in entries if entry["details"]["transmitter"]["id"] == app]
    steps = [details["stage"]["step"] for details in web]
    assert list(dict.fromkeys(steps)) == ["QUEUED", "BUILDING", "DEPLOYING"]
    assert web[0]["transmitter"] == {"id": app, "name": "web", "type": "APPLICATION"}
    assert web[0]["stage"]["name"] == "default-applications"
    assert web[0]["organization_id"] == world.org
    shown = await world.get(f"/environment/{environment}")
    assert web[0]["cluster_id"] == shown["cluster_id"]
    assert {entry["type"] for entry in entries} == {"info"}


async def test_a_failure_is_an_error_with_its_reason(world: World, shop):
    environment, app, _ = shop
    world.clock.turn(60)
    world.git.push("broken")
    world.builder.broken = "no such package"
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    *before, failed = (await world.get(f"/environment/{environment}/logs")).json
    assert failed["type"] == "error"
    assert failed["error"]["tag"] == "BUILD_ERROR"
    assert "no such package" in failed["error"]["user_log_message"]
    assert failed["details"]["stage"]["step"] == "BUILDING"
    assert {entry["error"] for entry in before} == {None}
    lines = (await world.get(f"/environment/{environment}/log"))["results"]
    assert lines[-1]["state"] == "DEPLOYMENT_ERROR"
    assert {line["scope"]["id"] for line in lines} == {app}


async def test_an_earlier_deployment_is_chosen_by_any_of_its_ids(world: World, shop):
    environment, app, container = shop
    first = (await world.get(f"/environment/{environment}/log")).json
    ids = [
        (await world.get(f"/{path}/deployment"))["results"][0]["id"]
        for path in (f"application/{app}", f"container/{container}")
    ]
    world.clock.turn(60)
    await world.post(f"/environment/{environment}/stop")
    await world.settle()
    stopped = (await world.get(f"/environment/{environment}/log"))["results"]
    assert stopped[-1]["state"] == "PAUSED"
    for id in ids:
        assert (await world.get(f"/environment/{environment}/log?version={id}")).json == first
        assert (await world.get(f"/environment/{environment}/logs?version={id}")).json
    other = await world.environment()
    for path in (f"/environment/{other}/log", f"/environment/{other}/logs"):
        for id in (ids[0], str(uuid.uuid4()), "v1"):
            refused = await world.get(f"{path}?version={id}")
            assert (refused.status, refused.message.partition(":")[0]) == (400, "version")


async def test_the_tail_parameter_returns_the_last_lines_of_a_deployment_log(world: World, shop):
    environment, _, _ = shop
    lines = (await world.get(f"/environment/{environment}/log"))["results"]
    assert (await world.get(f"/environment/{environment}/log?tail=3"))["results"] == lines[-3:]
    assert len((await world.get(f"/environment/{environment}/logs?tail=3")).json) == 3
    assert (await world.get(f"/environment/{environment}/logs?tail=0")).status == 400


async def test_an_environment_without_deployments_has_an_empty_log(world: World):
    environment = await world.environment()
    assert (await world.get(f"/environment/{environment}/log")).json == {"results": []}
    for base in ("", "/api/v1", "/compat"):
        assert (await world.get(f"{base}/environment/{environment}/logs")).json == []


async def test_a_service_type_unknown_to_the_full_interface_is_omitted_under_compat(world: World, shop):
    environment, app, container = shop
    plain = (await world.get(f"/environment/{environment}/log"))["results"]
    shown = (await world.get(f"/compat/environment/{environment}/log"))["results"]
    assert {line["scope"]["id"]: line["scope"]["type"] for line in plain} == {
        app: "APPLICATION", container: "CONTAINER"
    }  # fmt: skip
    assert {line["scope"]["id"]: line["scope"].get("type") for line in shown} == {
        app: "APPLICATION", container: None
    }  # fmt: skip


async def test_the_deployment_log_needs_access_to_the_environment(world: World, shop):
    environment, app, _ = shop
    here = await world.new_token("Read", limited_to=[environment])
    elsewhere = await world.new_token("Admin", limited_to=[await world.project()])
    one = await world.new_token("Admin", limited_to=[app])
    _, foreign = await world.organization()
    request = (await world.get(f"/environment/{environment}/status"))["deployment_request_id"]
    for path in (f"/environment/{environment}/log", f"/environment/{environment}/logs", STATUS + request):
        assert (await world.get(path, token=here)).status == 200
        missing = await world.get(
            path.replace(environment, str(uuid.uuid4())).replace(request, str(uuid.uuid4()))
        )
        for token in (elsewhere, one, foreign):
            answer = await world.get(path, token=token)
            assert (answer.status, answer.message) == (404, missing.message)
        assert (await world.get(path, token=None)).status == 401


async def test_the_state_of_a_deployment_request_is_that_of_all_its_deployments(world: World):
    environment = await world.environment()
    app = await world.application(environment)
    await world.database(environment)
    asked = await world.post(f"/environment/{environment}/deploy")
    request = asked["deployment_request_id"]
    answer = await world.get(STATUS + request)
    assert answer.json == {
        "deployment_request_id": request, "environment_id": environment, "status": "QUEUED"
    }  # fmt: skip
    assert (await world.get(f"/compat{STATUS}{request}"))["status"] == "DEPLOYMENT_QUEUED"
    await world.settle()
    assert (await world.get(STATUS + request))["status"] == "DEPLOYED"
    entry = (await world.get(f"/environment/{environment}/deploymentHistory"))["results"][0]
    assert entry["id"] == request
    world.clock.turn(60)
    stop = (await world.post(f"/application/{app}/stop"))["deployment_request_id"]
    await world.settle()
    assert (await world.get(STATUS + stop))["status"] == "STOPPED"
    assert (await world.get(STATUS + request))["status"] == "DEPLOYED"
    world.clock.turn(60)
    stop = (await world.post(f"/environment/{environment}/stop"))["deployment_request_id"]
    assert (await world.get(f"/environment/{environment}/deploymentQueue"))["results"][0]["identifier"][
        "deployment_request_id"
    ] == stop


async def test_a_request_for_an_environment_without_services_is_done_at_once(world: World):
    environment = await world.environment()
    assert (await world.get(STATUS + environment)).status == 404
    request = (await world.post(f"/environment/{environment}/deploy"))["deployment_request_id"]
    answer = await world.get(STATUS + request)
    assert (answer["environment_id"], answer["status"]) == (environment, "DEPLOYED")


async def test_a_deployment_request_status_requires_an_id(world: World):
    for query in ("", "?deploymentRequestId=", "?deploymentRequestId=v1"):
        refused = await world.get(f"/environment/deploymentStatus{query}")
        assert (refused.status, refused.message.partition(":")[0]) == (400, "deploymentRequestId")
