"""Environments are deployed and stopped as a whole, and organizations take turns."""

from __future__ import annotations

import asyncio
import logging

from hypothesis import given
from hypothesis import strategies as st

from tests.running.deployments import PORT, deploy, deployed, deployment, deployments, generations, under_way
from tests.world import World
from windlass.control.services.deployment_history import nth_without
from windlass.core.words.events import Event


async def test_databases_of_an_environment_are_deployed_before_its_applications(world: World):
    environment = await world.environment()
    app, database = await world.application(environment), await world.database(environment)
    answer = await world.post(f"/environment/{environment}/deploy")
    assert (answer.status, answer["state"]) == (202, "QUEUED")
    await world.settle()
    assert [wanted.service for wanted in world.engine.applied] == [database, app]
    status = await world.get(f"/environment/{environment}/status")
    assert (status["state"], status["deployment_state"]) == ("RUNNING", "DEPLOYED")


async def test_deploying_an_environment_without_services_marks_it_as_deployed(world: World):
    environment = await world.environment()
    assert (await world.get(f"/environment/{environment}/status"))["deployment_state"] == "READY"
    answer = await world.post(f"/environment/{environment}/deploy")
    assert answer["deployment_state"] == "DEPLOYED"


async def test_a_whole_environment_is_stopped_and_started(world: World):
    environment = await world.environment()
    app, database = await world.application(environment), await world.database(environment)
    await world.post(f"/environment/{environment}/deploy")
    await world.settle()
    await world.post(f"/environment/{environment}/stop")
    await world.settle()
    assert world.engine.instances == {}
    statuses = (await world.get(f"/environment/{environment}/statuses")).json
    assert statuses["applications"][0]["id"] == app
    assert statuses["databases"][0]["id"] == database
    assert statuses["environment"]["deployment_state"] == "STOPPED"


async def test_a_request_with_a_service_of_another_environment_changes_nothing(world: World):
    environment = await world.environment()
    mine, strange = await world.application(environment), await world.application()
    body = {"applications": [{"application_id": mine}, {"application_id": strange}]}
    answer = await world.post(f"/environment/{environment}/service/deploy", body)
    assert (answer.status, answer.message.partition(":")[0]) == (400, "applications[1]")
    assert strange in answer.message
    await world.settle()
    assert world.engine.applied == []
    body = {"applications": [{"application_id": mine}]}
    assert (await world.post(f"/environment/{environment}/service/deploy", body)).status == 202
    await world.settle()
    assert [wanted.service for wanted in world.engine.applied] == [mine]


async def test_a_chosen_service_of_another_environment_is_refused_with_its_index(world: World):
    environment, elsewhere = await world.environment(), await world.application()
    mine = await world.application(environment)
    path = f"/environment/{environment}/service"
    chosen = [{"application_id": mine}, {"application_id": elsewhere}]
    refused = await world.post(f"{path}/deploy", {"applications": chosen})
    words = f"choose an application of this environment: none has the id {elsewhere}"
    assert (refused.status, refused.message) == (400, f"applications[1]: {words}")
    refused = await world.post(f"{path}/stop", {"application_ids": [elsewhere]})
    assert (refused.status, refused.message) == (400, f"application_ids[0]: {words}")


async def test_a_refused_field_of_a_chosen_service_is_reported_with_its_index(world: World):
    """Negative control: for one service alone, the field is at the top of the body."""
    environment = await world.environment()
    first = await world.application(environment)
    uploaded = await world.made(f"/environment/{environment}/application", {"name": "u", "source": "UPLOAD"})
    commit = {"git_commit_id": "4f1d2c3b4a5968778695a4b3c2d1e0f102132435"}
    chosen = [{"application_id": first}, {"application_id": uploaded, **commit}]
    many = await world.post(f"/environment/{environment}/service/deploy", {"applications": chosen})
    alone = await world.post(f"/application/{uploaded}/deploy", commit)
    assert (many.status, many.message) == (alone.status, f"applications[1].{alone.message}")
    assert alone.message.startswith("git_commit_id: ")
    assert (await world.get(f"/application/{first}/deployment"))["results"] == []


async def test_a_crash_after_a_deployment_is_shown_with_its_reason_and_restart_count(world: World):
    app = await deployed(world)
    world.engine.ends(app, "exited with code 3")
    await noticed(world)
    status = await world.get(f"/application/{app}/status")
    assert status["state"] == "ERROR"
    assert status["message"].startswith("Look at the log: ")
    assert "exited with code 3; it was restarted once" in status["message"]
    world.engine.recovers(app)
    await noticed(world)
    status = await world.get(f"/application/{app}/status")
    assert (status["state"], "once" in status["message"]) == ("RUNNING", True)
    kinds = [event.kind for event in await world.events()]
    assert kinds.count(Event.BROKE) == kinds.count(Event.RECOVERED) == 1


async def noticed(world: World) -> None:
    """As the installation does with what an engine tells."""
    await world.installation.note_changes()
    await world.settle()


async def test_a_temporarily_unavailable_engine_only_delays_a_deployment(world: World):
    app = await world.application()
    world.engine.away = True
    await deploy(world, app)
    await under_way(world, lambda: world.builder.built)
    await asyncio.sleep(0.3)
    world.engine.away = False
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"


async def test_an_unavailable_engine_sets_a_service_to_unavailable_without_error_logs(world: World, caplog):
    app = await deployed(world)
    world.engine.ends(app, "exited with code 3")
    world.engine.away = True
    await noticed(world)
    assert "work waits" in caplog.text
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert await world.state(f"/application/{app}") == "UNAVAILABLE"
    world.engine.away = False
    world.clock.turn(2)
    await world.settle()
    assert await world.state(f"/application/{app}") == "ERROR"


async def test_a_public_port_has_a_readable_address(world: World):
    environment = await world.environment(name="Production")
    app = await world.application(environment, name="Shop API", ports=[PORT])
    await deploy(world, app)
    await world.settle()
    (link,) = (await world.get(f"/application/{app}/link"))["results"]
    assert link["url"] == "http://shop-api-production.localhost:8081"
    assert world.router.routes[app][0].hosts == ("shop-api-production.localhost",)


async def test_two_services_with_the_same_name_have_different_addresses(world: World):
    links = set()
    for _ in range(2):
        environment = await world.environment(name="production")
        app = await world.application(environment, name="shop", ports=[PORT])
        await deploy(world, app)
        await world.settle()
        links |= {link["url"] for link in (await world.get(f"/application/{app}/link"))["results"]}
    assert len(links) == 2


async def test_an_external_port_in_use_by_another_service_fails_the_deployment(world: World):
    port = {"internal_port": 5000, "external_port": 5432, "protocol": "TCP", "publicly_accessible": True}
    first = await deployed(world, ports=[port])
    app = await world.application(ports=[port])
    failed = await deploy(world, app)
    await world.settle()
    assert "5432" in (await deployment(world, app, failed))["message"]
    assert generations(world, app) == []
    assert generations(world, first) == [1]


async def test_deployments_of_different_organizations_take_turns(world: World):
    other, admin = await world.organization()
    mine = [await world.application() for _ in range(6)]
    project = await world.made(f"/organization/{other}/project", {"name": "p"}, token=admin)
    environment = await world.made(f"/project/{project}/environment", {"name": "e"}, token=admin)
    body = {"name": "late", "git_repository": {"url": "https://git.example/a/b.git"}}
    theirs = await world.made(f"/environment/{environment}/application", body, token=admin)
    for app in mine:
        await deploy(world, app)
    await world.post(f"/application/{theirs}/deploy", None, token=admin)
    world.engine.gate = asyncio.Event()
    await under_way(world, lambda: len(world.engine.applied) == 4)
    assert theirs in {wanted.service for wanted in world.engine.applied}
    world.engine.gate.set()
    await world.settle()
    assert len(world.engine.running) == 7


async def test_the_history_shows_the_outcome_of_ended_deployments(world: World):
    app = await deployed(world)
    world.builder.broken = "no"
    world.git.push("broken")
    failed = await deploy(world, app)
    await world.settle()
    world.builder.broken = ""
    await deploy(world, app)
    history = (await world.get(f"/application/{app}/deploymentHistory")).json
    assert [one["status"] for one in history["results"]] == ["FAILED", "SUCCESS"]
    assert history["results"][0]["id"] == failed
    assert history["pagination"]["total_count"] == 2


async def test_every_page_of_the_history_is_a_slice_of_it(world: World):
    """This also holds while one is under way, one waits, and some were superseded since."""
    app = await deployed(world)
    world.engine.gate = asyncio.Event()
    going = await deploy(world, app)
    await under_way(world, lambda: len(world.engine.applied) == 2)
    for _ in range(4):
        waiting = await deploy(world, app)
    ended = [one["id"] for one in await deployments(world, app) if one["id"] not in {going, waiting}]
    assert len(ended) == 4
    for size in range(1, 6):
        for page in range(1, 6):
            path = f"/application/{app}/deploymentHistory?page={page}&page_size={size}"
            shown = (await world.get(path))["results"]
            assert [one["id"] for one in shown] == ended[(page - 1) * size : page * size]
    world.engine.gate.set()


@given(st.integers(0, 30), st.integers(0, 30), st.sets(st.integers(1, 30)))
def test_paging_by_number_skips_exactly_the_missing_numbers(highest: int, skip: int, without: set[int]):
    counted = [number for number in range(highest, 0, -1) if number not in without]
    left = [
        number for number in counted if number <= nth_without(highest, skip, without & {*range(highest + 1)})
    ]
    assert left == counted[skip:]


async def test_cancelling_the_deployment_of_an_environment_follows_the_full_interface(world: World):
    environment = await world.environment()
    app = await world.application(environment)
    await deploy(world, app)
    answer = await world.post(f"/environment/{environment}/cancelDeployment", {"force_cancel": False})
    assert (answer.status, answer["deployment_state"]) == (202, "CANCELED")
    assert (await world.post(f"/environment/{environment}/cancelDeployment")).status == 409


async def test_an_overlong_dockerfile_path_is_passed_to_the_builder(world: World):
    app = await world.application(dockerfile_path="a" * 1000)
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    assert world.builder.built[-1].dockerfile == "a" * 1000
