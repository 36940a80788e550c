"""A deployment that failed or was cancelled says which version serves now."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.running.deployments import deploy, deployed, deployment, deployments, under_way
from tests.world import World
from windlass.core.deploy.states import OUTPUT_FOLLOWS
from windlass.core.words.events import Event
from windlass.engines.workload import OutputLine


def broken_repository(world: World) -> None:
    world.git.broken = "there is no such repository"


def broken_build(world: World) -> None:
    world.git.push("second")
    world.builder.broken = "no such package"


def broken_engine(world: World) -> None:
    world.engine.broken = "it has no command to run"


def early_end(world: World) -> None:
    world.engine.exits = "exited with code 3"


MISFORTUNES = [broken_repository, broken_build, broken_engine, early_end]


async def failed_after(world: World, app: str, misfortune: Any) -> dict[str, Any]:
    misfortune(world)
    failed = await deploy(world, app)
    await world.settle()
    shown = await deployment(world, app, failed)
    assert shown["status"] == "FAILED"
    return dict(shown)


async def told(world: World, app: str, failed: dict[str, Any]) -> list[str]:
    """The message of a failed deployment, everywhere it is shown."""
    status = await world.get(f"/application/{app}/status")
    events = [json.loads(event.body) for event in await world.events(Event.DEPLOYMENT_FAILED)]
    return [failed["message"], status["message"], events[-1]["message"]]


@pytest.mark.parametrize("misfortune", MISFORTUNES, ids=lambda one: one.__name__)
async def test_a_release_that_failed_says_that_the_version_before_it_still_serves(
    world: World, misfortune: Any
):
    app = await deployed(world)
    (first,) = await deployments(world, app)
    failed = await failed_after(world, app, misfortune)
    version = f"v1 ({first['git_commit_id'][:7]}, deployment {first['id']}) still serves"
    for message in await told(world, app, failed):
        assert version in message.partition("\n")[0]


@pytest.mark.parametrize("misfortune", MISFORTUNES, ids=lambda one: one.__name__)
async def test_a_first_release_that_failed_says_that_nothing_serves(world: World, misfortune: Any):
    app = await world.application(name="web")
    failed = await failed_after(world, app, misfortune)
    for message in await told(world, app, failed):
        assert "No version of web serves now" in message.partition("\n")[0]


async def test_a_failed_deployment_of_a_stopped_service_says_that_no_version_serves(world: World):
    app = await deployed(world, name="web")
    await world.post(f"/application/{app}/stop")
    await world.settle()
    failed = await failed_after(world, app, broken_engine)
    assert "No version of web serves now" in failed["message"]


async def test_a_former_version_that_cannot_be_restarted_is_not_reported_as_serving(world: World):
    app = await deployed(world, storage=[{"size": 1, "mount_point": "/data"}])
    failed = await failed_after(world, app, broken_engine)
    assert "is to serve as before, but none of its instances runs now" in failed["message"]


async def test_a_failed_restart_names_the_version_that_still_serves(world: World):
    app = await deployed(world)
    early_end(world)
    answer = await world.post(f"/application/{app}/restart-service")
    await world.settle()
    shown = await deployment(world, app, answer["deployment_request_id"])
    assert shown["status"] == "FAILED"
    assert " still serves" in shown["message"]


async def test_a_cancelled_release_names_the_version_that_keeps_serving(world: World):
    app = await deployed(world)
    world.engine.gate = asyncio.Event()
    cancelled = await deploy(world, app)
    await under_way(world, lambda: len(world.engine.applied) == 2)
    await world.post(f"/application/{app}/cancelDeployment")
    world.engine.gate.set()
    await world.settle()
    shown = await deployment(world, app, cancelled)
    assert shown["status"] == "CANCELED"
    assert shown["message"].startswith("Cancelled by ")
    assert shown["message"].endswith(" still serves")


async def test_a_failed_uninstall_mentions_no_version(world: World):
    app = await deployed(world)
    world.engine.keeps = "a volume is in use"
    answer = await world.post(f"/application/{app}/uninstall")
    await world.settle()
    shown = await deployment(world, app, answer["deployment_request_id"])
    assert (shown["status"], shown["message"]) == ("FAILED", "a volume is in use")


async def test_a_stopped_service_is_meant_to_have_no_instances(world: World):
    app = await deployed(world, min_running_instances=2, max_running_instances=2)
    assert (await world.get(f"/application/{app}/status"))["instances"] == 2
    for deed in ("stop", "uninstall"):
        await world.post(f"/application/{app}/{deed}")
        await world.settle()
        status = await world.get(f"/application/{app}/status")
        assert (status["state"], status["instances"]) == ("STOPPED", 0)
        assert {one["instances"] for one in await deployments(world, app)} == {0}
    await deploy(world, app)
    await world.settle()
    assert (await world.get(f"/application/{app}/status"))["instances"] == 2


async def test_the_last_lines_of_a_failed_release_are_its_own_even_if_other_instances_write_more(
    world: World,
):
    app = await deployed(world)
    (first,) = await deployments(world, app)
    world.engine.writes, world.engine.exits = "KeyError: 'PORT'", "exited with code 3"
    world.engine.gate = asyncio.Event()
    failed = await deploy(world, app)
    settling = asyncio.create_task(world.settle())
    while world.engine.applied[-1].deployment != failed:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    now = world.clock.now()
    world.engine.says(
        app, *(OutputLine(now, f"line {number}", "web-1", first["id"]) for number in range(200))
    )
    world.engine.gate.set()
    await settling
    message = (await deployment(world, app, failed))["message"]
    assert message.partition(OUTPUT_FOLLOWS)[2] == "KeyError: 'PORT'"


async def test_a_deployment_whose_build_failed_shows_its_commit(world: World):
    app = await deployed(world)
    shown = await failed_after(world, app, broken_build)
    assert shown["git_commit_id"] == shown["commit"]["git_commit_id"] == world.git.newest
    document = (await world.get(f"/application/{app}"))["git_repository"]
    assert document["deployed_commit_id"] != world.git.newest
