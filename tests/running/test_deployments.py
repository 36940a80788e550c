"""Deployments: queued, built, released beside the old, cancelled, repeated, taken back. Nothing is lost."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.world import World
from windlass.control.services.services import nth_without
from windlass.core.deploy.workload import OutputLine
from windlass.core.words.events import Event

PORT = {"internal_port": 8080, "protocol": "HTTP", "publicly_accessible": True}
FINAL = {
    Event.DEPLOYMENT_SUCCEEDED,
    Event.DEPLOYMENT_FAILED,
    Event.DEPLOYMENT_CANCELLED,
    Event.DEPLOYMENT_SUPERSEDED,
}


async def deployed(world: World, **fields: Any) -> str:
    """An application that runs."""
    app = await world.application(**{"ports": [PORT]} | fields)
    await deploy(world, app)
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"
    return app


async def deploy(world: World, app: str, **body: Any) -> str:
    answer = await world.post(f"/application/{app}/deploy", body or None)
    assert answer.status == 202, answer
    return str(answer["id"])


async def deployment(world: World, app: str, id: str) -> Any:
    return (await world.get(f"/application/{app}/deployment/{id}")).json


async def deployments(world: World, app: str) -> list[Any]:
    """Newest first."""
    return list((await world.get(f"/application/{app}/deployment"))["results"])


def generations(world: World, app: str) -> list[int]:
    return sorted(one.generation for one in world.engine.instances.values() if one.service == app)


async def under_way(world: World, done: Any) -> None:
    """Lets work begin, and go on until this is so."""
    await world.installation.worker.start_due()
    for _ in range(500):
        if done():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came to that")


# One after the other


async def test_a_deployment_says_what_it_built_and_when(world: World):
    app = await deployed(world)
    (one,) = await deployments(world, app)
    assert (one["status"], one["number"], one["action"]) == ("SUCCEEDED", 1, "DEPLOY")
    assert one["git_commit_id"] == world.git.newest
    assert one["commit"]["author_name"] == "Ada"
    assert one["started_at"]
    assert one["finished_at"]
    shown = (await world.get(f"/application/{app}"))["git_repository"]
    assert shown["deployed_commit_id"] == world.git.newest
    assert shown["deployed_commit_contributor"] == "Ada"


async def test_a_newer_deployment_takes_the_place_of_one_that_waits_and_follows_one_under_way(world: World):
    world.engine.gate = asyncio.Event()
    app = await world.application()
    first = await deploy(world, app)
    await under_way(world, lambda: world.engine.applied)
    second, third = await deploy(world, app), await deploy(world, app)
    assert (await deployment(world, app, second))["status"] == "SUPERSEDED"
    world.engine.gate.set()
    await world.settle()
    found = {id: (await deployment(world, app, id))["status"] for id in (first, second, third)}
    assert found == {first: "SUCCEEDED", second: "SUPERSEDED", third: "SUCCEEDED"}
    assert generations(world, app) == [3]


async def test_every_deployment_has_one_final_event(world: World):
    app = await deployed(world)
    for _ in range(3):
        await deploy(world, app)
    await world.settle()
    world.builder.broken = "no"
    world.git.push("another")
    await deploy(world, app)
    await world.settle()
    events = [event for event in await world.events() if event.kind in FINAL]
    seen = Counter(json.loads(event.body)["deployment_id"] for event in events)
    assert seen == Counter(one["id"] for one in await deployments(world, app))


# New beside old


async def test_the_old_generation_serves_until_the_new_one_is_well(world: World):
    app = await deployed(world)
    before = world.router.routes[app][0].endpoints
    world.engine.gate = asyncio.Event()
    await deploy(world, app)
    await under_way(world, lambda: len(world.engine.applied) == 2)
    assert world.router.routes[app][0].endpoints == before
    assert 1 in generations(world, app)
    world.engine.gate.set()
    await world.settle()
    assert generations(world, app) == [2]
    assert set(before) <= set(world.router.drained)


@pytest.mark.parametrize("misfortune", ["broken", "exits"])
async def test_when_the_new_generation_does_not_come_up_the_old_one_goes_on(world: World, misfortune: str):
    app = await deployed(world)
    setattr(world.engine, misfortune, "it has no command to run")
    failed = await deploy(world, app)
    await world.settle()
    assert generations(world, app) == [1]
    assert world.router.routes[app][0].endpoints
    status = await world.get(f"/application/{app}/status")
    assert status["state"] == "ERROR"
    assert "it has no command to run" in status["message"]
    assert (await deployment(world, app, failed))["status"] == "FAILED"


async def test_an_unhealthy_release_is_removed_and_its_last_lines_are_kept(make_world_with):
    async with make_world_with(ready_seconds=1) as world:
        app = await deployed(world)
        world.probes.trouble = "it does not answer on port 8080"
        failed = await deploy(world, app)
        await under_way(world, lambda: len(world.engine.applied) == 2)
        world.engine.says(app, OutputLine(world.clock.now(), "cannot read config", "pod", failed))
        await world.settle()
        message = (await deployment(world, app, failed))["message"]
        assert "it does not answer on port 8080" in message
        assert "cannot read config" in message
        assert generations(world, app) == [1]


async def test_a_lost_volume_is_reported_until_an_empty_one_is_accepted(world):
    app = await deployed(world, storage=[{"size": 1, "mount_point": "/data"}])
    world.engine.instances.clear()
    world.engine.lost.add(app)
    world.installation.noticed(app)
    await world.installation.note_changes()
    await world.settle()
    status = await world.get(f"/application/{app}/status")
    assert status["state"] == "ERROR"
    assert status["message"].startswith("Bring back the volume of ")
    [broke] = await world.events(Event.BROKE)
    assert b"to begin empty" in broke.body

    failed = await deploy(world, app)
    await world.settle()
    shown = await deployment(world, app, failed)
    assert (shown["status"], world.engine.instances) == ("FAILED", {})
    assert "uninstall" in shown["message"]

    await world.post(f"/application/{app}/uninstall")
    await world.settle()
    await deploy(world, app)
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"


async def test_a_service_without_instances_has_no_volume_that_could_be_lost(world):
    app = await deployed(world, storage=[{"size": 1, "mount_point": "/data"}], min_running_instances=0)
    world.engine.lost.add(app)
    assert (await world.patch(f"/application/{app}", {"min_running_instances": 1})).status == 200
    await deploy(world, app)
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"
    assert generations(world, app) == [2]


async def test_a_volume_that_is_back_is_used_as_before(world):
    app = await deployed(world, storage=[{"size": 1, "mount_point": "/data"}])
    world.engine.instances.clear()
    world.engine.lost.add(app)
    world.installation.noticed(app)
    await world.installation.note_changes()
    await world.settle()
    assert await world.state(f"/application/{app}") == "ERROR"
    world.engine.lost.clear()
    await world.run(60)
    assert await world.state(f"/application/{app}") == "RUNNING"


async def test_a_release_with_storage_replaces_the_earlier_one_or_brings_it_back(
    world: World,
):
    app = await deployed(world, storage=[{"size": 1, "mount_point": "/data"}])
    world.engine.gate = asyncio.Event()
    await deploy(world, app)
    await under_way(world, lambda: len(world.engine.applied) == 2)
    assert generations(world, app) == []
    world.engine.exits = "cannot read the data"
    world.engine.gate.set()
    await under_way(world, lambda: len(world.engine.applied) == 3)
    assert generations(world, app) == [1]


# Builds


async def test_the_same_commit_is_never_built_twice(world: World):
    app = await deployed(world)
    await deploy(world, app)
    await world.settle()
    assert len(world.builder.built) == 1
    world.git.push("a change")
    await deploy(world, app)
    await world.settle()
    assert len(world.builder.built) == 2


async def test_a_failed_build_says_why_and_leaves_the_old_one_running(world: World):
    app = await deployed(world)
    world.builder.broken = "requirements.txt: no such package"
    world.git.push("a change")
    failed = await deploy(world, app)
    await world.settle()
    assert (await world.get(f"/application/{app}/status"))["deployment_state"] == "BUILD_ERROR"
    assert (await deployment(world, app, failed))["message"] == "requirements.txt: no such package"
    log = await world.get(f"/application/{app}/deployment/{failed}/log")
    assert "Failed: requirements.txt: no such package" in [line["message"] for line in log["results"]]
    assert generations(world, app) == [1]


async def test_a_repository_that_cannot_be_read_fails_the_build(world: World):
    world.git.broken = "there is no such repository"
    app = await world.application()
    await deploy(world, app)
    await world.settle()
    assert (await world.get(f"/application/{app}/status"))["message"] == "there is no such repository"


async def test_a_build_that_never_ends_is_ended(make_world_with):
    async with make_world_with(build_seconds=1) as world:
        world.builder.gate = asyncio.Event()
        app = await world.application()
        await deploy(world, app)
        await world.settle()
        assert "longer than 1 seconds" in (await world.get(f"/application/{app}/status"))["message"]


async def test_only_the_last_few_builds_are_kept_and_there_is_no_going_back_to_the_others(make_world_with):
    async with make_world_with(kept_artifacts=1) as world:
        app = await deployed(world)
        first = (await deployments(world, app))[0]["id"]
        for change in ("second", "third"):
            world.git.push(change)
            await deploy(world, app)
            await world.settle()
        assert [key for _, key in world.builder.kept] == [order.key for order in world.builder.built[1:]]
        await world.post(f"/application/{app}/rollback", {"deployment_id": first})
        await world.settle()
        assert "deploy its commit again" in (await world.get(f"/application/{app}/status"))["message"]
        assert generations(world, app) == [3]


async def test_a_build_that_never_came_to_run_goes_with_the_next_release_though_that_builds_nothing(
    world: World,
):
    app = await deployed(world)
    (good,) = world.builder.kept
    world.engine.broken = "no more memory"
    await deploy(world, app, git_commit_id=world.git.push("second"))
    await world.settle()
    assert len(world.builder.kept) == 2
    world.engine.broken = ""
    await deploy(world, app, git_commit_id=world.builder.built[0].commit)
    await world.settle()
    assert [*world.builder.kept] == [good]


async def test_a_release_that_built_nothing_does_not_have_builds_looked_through(world: World):
    app = await deployed(world)
    assert world.builder.pruned == [app]
    for _ in range(2):
        await deploy(world, app, git_commit_id=world.builder.built[0].commit)
        await world.settle()
    assert world.builder.pruned == [app]
    await deploy(world, app, git_commit_id=world.git.push("second"))
    await world.settle()
    assert world.builder.pruned == [app, app]


async def test_tidying_up_takes_no_build_that_is_about_to_run(world: World):
    world.engine.gate = asyncio.Event()
    app = await world.application()
    await deploy(world, app)
    await under_way(world, lambda: world.engine.applied)
    world.clock.turn(11)
    await under_way(world, lambda: world.installation.worker.running == 1)
    assert len(world.builder.kept) == 1
    world.engine.gate.set()
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"


# Cancelled


async def test_a_waiting_deployment_is_cancelled_at_once(world: World):
    app = await world.application()
    id = await deploy(world, app)
    answer = await world.post(f"/application/{app}/cancelDeployment")
    assert answer.status == 202
    assert (await deployment(world, app, id))["status"] == "CANCELED"
    await world.settle()
    assert world.builder.built == []


@pytest.mark.parametrize("where", ["building", "starting"])
async def test_a_cancelled_deployment_leaves_the_earlier_release_running(world: World, where: str):
    app = await deployed(world)
    world.git.push("a change")
    gate = asyncio.Event()
    (world.builder if where == "building" else world.engine).gate = gate
    id = await deploy(world, app)
    begun = {
        "building": lambda: len(world.builder.built) == 2,
        "starting": lambda: len(world.engine.applied) == 2,
    }
    await under_way(world, begun[where])
    answer = await world.post(f"/application/{app}/deployment/{id}/cancel")
    assert (answer.status, answer["deployment_state"]) == (202, "CANCELING")
    await world.settle()
    one = await deployment(world, app, id)
    assert one["status"] == "CANCELED"
    assert one["message"].startswith("Cancelled by")
    assert generations(world, app) == [1]
    assert world.router.routes[app][0].endpoints


async def test_an_ended_deployment_cannot_be_cancelled(world: World):
    app = await deployed(world)
    (one,) = await deployments(world, app)
    assert (await world.post(f"/application/{app}/cancelDeployment")).status == 409
    answer = await world.post(f"/application/{app}/deployment/{one['id']}/cancel")
    assert answer.status == 409
    assert "SUCCEEDED" in answer.message


# Stopped, restarted, repeated, removed


async def test_a_stopped_application_does_not_run_and_can_be_deployed_again(world: World):
    app = await deployed(world)
    await world.post(f"/application/{app}/stop")
    await world.settle()
    assert generations(world, app) == []
    assert (await world.get(f"/application/{app}/status"))["deployment_state"] == "STOPPED"
    assert world.router.routes[app][0].endpoints == ()
    await deploy(world, app)
    await world.settle()
    assert generations(world, app) == [3]


async def test_a_restart_replaces_the_instances_and_builds_nothing(world: World):
    app = await deployed(world)
    await world.post(f"/application/{app}/environmentVariable", {"key": "LATER", "value": "1"})
    await world.post(f"/application/{app}/restart-service")
    await world.settle()
    assert generations(world, app) == [2]
    assert len(world.builder.built) == 1
    assert "LATER" not in world.engine.running[app].variables
    status = await world.get(f"/application/{app}/status")
    assert (status["deployment_state"], status["service_deployment_status"]) == ("RESTARTED", "OUT_OF_DATE")


async def test_a_redeployment_is_of_the_same_commit_with_new_settings(world: World):
    app = await deployed(world)
    first = world.git.newest
    world.git.push("a change")
    await world.post(f"/application/{app}/environmentVariable", {"key": "LATER", "value": "1"})
    await world.post(f"/application/{app}/redeploy")
    await world.settle()
    assert (await deployments(world, app))[0]["git_commit_id"] == first
    assert world.engine.running[app].variables["LATER"] == "1"


async def test_going_back_starts_what_was_built_then_and_builds_nothing(world: World):
    app = await deployed(world)
    first = (await deployments(world, app))[0]
    world.git.push("a bad change")
    await deploy(world, app)
    await world.settle()
    answer = await world.post(f"/application/{app}/rollback", {"deployment_id": first["id"]})
    assert answer.status == 202
    await world.settle()
    assert len(world.builder.built) == 2
    assert world.engine.running[app].artifact.key == world.builder.built[0].key
    newest = (await deployments(world, app))[0]
    assert (newest["git_commit_id"], newest["repeats"]) == (first["git_commit_id"], first["id"])
    shown = (await world.get(f"/application/{app}"))["git_repository"]
    assert shown["deployed_commit_id"] == first["git_commit_id"]


async def test_going_back_without_saying_where_is_to_the_version_before(world: World):
    app = await deployed(world)
    first = (await deployments(world, app))[0]["git_commit_id"]
    for change in ("second", "third"):
        world.git.push(change)
        await deploy(world, app)
        await world.settle()
    second = (await deployments(world, app))[1]["git_commit_id"]
    await world.post(f"/application/{app}/rollback")
    await world.settle()
    shown = (await world.get(f"/application/{app}"))["git_repository"]["deployed_commit_id"]
    assert shown == second != first


async def test_there_is_no_going_back_to_what_failed_or_belongs_to_another(world: World):
    app, other = await deployed(world), await deployed(world)
    strange = (await deployments(world, other))[0]["id"]
    answer = await world.post(f"/application/{app}/rollback", {"deployment_id": strange})
    assert (answer.status, answer.message.split(":")[0]) == (404, "deployment_id")
    world.builder.broken = "no"
    world.git.push("broken")
    failed = await deploy(world, app)
    await world.settle()
    assert (await world.post(f"/application/{app}/rollback", {"deployment_id": failed})).status == 409


async def test_an_uninstalled_application_leaves_only_its_settings(world: World):
    app = await deployed(world)
    await world.post(f"/application/{app}/uninstall")
    await world.settle()
    assert app in world.engine.discarded
    status = await world.get(f"/application/{app}/status")
    assert (status["deployment_state"], status["service_deployment_status"]) == ("READY", "NEVER_DEPLOYED")
    assert (await world.post(f"/application/{app}/uninstall")).status == 204


async def test_a_deleted_service_is_gone_with_all_that_was_made_for_it(world: World):
    app = await deployed(world)
    assert (await world.delete(f"/application/{app}")).status == 204
    await world.settle()
    assert (await world.get(f"/application/{app}/status")).status == 404
    assert generations(world, app) == []
    assert app in world.engine.discarded
    assert app not in world.router.routes
    assert not [key for key in world.builder.kept if key[0] == app]


async def test_deletion_during_a_deployment_leaves_nothing(world: World):
    world.engine.gate = asyncio.Event()
    app = await world.application()
    await deploy(world, app)
    await under_way(world, lambda: world.engine.applied)
    await world.delete(f"/application/{app}")
    world.engine.gate.set()
    await world.settle()
    await world.run(seconds=700)
    assert generations(world, app) == []


async def test_deleting_a_project_takes_away_what_runs_in_it(world: World):
    project = await world.project()
    environment = await world.environment(project)
    app = await world.application(environment)
    await deploy(world, app)
    await world.settle()
    await world.delete(f"/project/{project}")
    await world.settle()
    assert generations(world, app) == []


# Whole environments


async def test_databases_of_an_environment_are_up_before_its_applications_begin(world: World):
    environment = await world.environment()
    app, database = await world.application(environment), await world.database(environment)
    answer = await world.post(f"/environment/{environment}/deploy")
    assert (answer.status, answer["state"]) == (202, "QUEUED")
    await world.settle()
    assert [wanted.service for wanted in world.engine.applied] == [database, app]
    status = await world.get(f"/environment/{environment}/status")
    assert (status["state"], status["deployment_state"]) == ("RUNNING", "DEPLOYED")


async def test_an_environment_without_services_is_deployed_when_it_is_asked_to_be(world: World):
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


async def test_chosen_services_are_those_of_the_environment_or_nothing_is_done(world: World):
    environment = await world.environment()
    mine, strange = await world.application(environment), await world.application()
    body = {"applications": [{"application_id": mine}, {"application_id": strange}]}
    answer = await world.post(f"/environment/{environment}/service/deploy", body)
    assert answer.status == 404
    assert strange in answer.message
    await world.settle()
    assert world.engine.applied == []
    body = {"applications": [{"application_id": mine}]}
    assert (await world.post(f"/environment/{environment}/service/deploy", body)).status == 202
    await world.settle()
    assert [wanted.service for wanted in world.engine.applied] == [mine]


# What breaks later


async def test_later_crashes_show_in_the_state_with_their_number_and_reason(world: World):
    app = await deployed(world)
    world.engine.ends(app, "exited with code 3")
    await noticed(world)
    status = await world.get(f"/application/{app}/status")
    assert status["state"] == "ERROR"
    assert "exited with code 3; it was started anew once" in status["message"]
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


async def test_an_engine_that_is_away_for_a_while_only_delays(world: World):
    app = await world.application()
    world.engine.away = True
    await deploy(world, app)
    await under_way(world, lambda: world.builder.built)
    await asyncio.sleep(0.3)
    world.engine.away = False
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"


async def test_an_engine_that_is_away_is_waited_for_and_nothing_is_said_to_have_failed(world: World, caplog):
    app = await deployed(world)
    world.engine.ends(app, "exited with code 3")
    world.engine.away = True
    await noticed(world)
    assert "work waits" in caplog.text
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]
    assert await world.state(f"/application/{app}") == "RUNNING"
    world.engine.away = False
    world.clock.turn(2)
    await world.settle()
    assert await world.state(f"/application/{app}") == "ERROR"


# Addresses


async def test_a_public_port_has_a_readable_address(world: World):
    environment = await world.environment(name="Production")
    app = await world.application(environment, name="Shop API", ports=[PORT])
    await deploy(world, app)
    await world.settle()
    (link,) = (await world.get(f"/application/{app}/link"))["results"]
    assert link["url"] == "http://shop-api-production.localhost:8081"
    assert world.router.routes[app][0].hosts == ("shop-api-production.localhost",)


async def test_two_services_of_one_name_have_two_addresses(world: World):
    links = set()
    for _ in range(2):
        environment = await world.environment(name="production")
        app = await world.application(environment, name="shop", ports=[PORT])
        await deploy(world, app)
        await world.settle()
        links |= {link["url"] for link in (await world.get(f"/application/{app}/link"))["results"]}
    assert len(links) == 2


async def test_a_port_that_is_taken_fails_the_deployment_and_leaves_nothing(world: World):
    port = {"internal_port": 5000, "external_port": 5432, "protocol": "TCP", "publicly_accessible": True}
    first = await deployed(world, ports=[port])
    app = await world.application(ports=[port])
    failed = await deploy(world, app)
    await world.settle()
    assert "5432" in (await deployment(world, app, failed))["message"]
    assert generations(world, app) == []
    assert generations(world, first) == [1]


# Fairness


async def test_organizations_take_turns(world: World):
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


# History


async def test_the_history_tells_how_those_went_that_have_ended(world: World):
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
    """Also while one is under way, some were superseded since, and one waits."""
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
def test_numbers_are_skipped_as_if_one_had_counted_them(highest: int, skip: int, without: set[int]):
    counted = [number for number in range(highest, 0, -1) if number not in without]
    left = [
        number for number in counted if number <= nth_without(highest, skip, without & {*range(highest + 1)})
    ]
    assert left == counted[skip:]


async def test_an_environment_is_cancelled_as_existing_clients_ask_for_it(world: World):
    environment = await world.environment()
    app = await world.application(environment)
    await deploy(world, app)
    answer = await world.post(f"/environment/{environment}/cancelDeployment", {"force_cancel": False})
    assert (answer.status, answer["deployment_state"]) == (202, "CANCELED")
    assert (await world.post(f"/environment/{environment}/cancelDeployment")).status == 409


async def test_a_dockerfile_with_a_name_that_no_file_can_have_is_for_the_builder_to_judge(world: World):
    app = await world.application(dockerfile_path="a" * 1000)
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    assert world.builder.built[-1].dockerfile == "a" * 1000
