"""A deployment builds, starts the new generation beside the old one, and ends once."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Never

import pytest

from tests.running.deployments import (
    PORT,
    deploy,
    deployed,
    deployment,
    deployments,
    generations,
    under_way,
)
from tests.world import World
from windlass.core.words.events import Event
from windlass.engines.engine import EngineError
from windlass.engines.workload import OutputLine, Workload

FINAL = {
    Event.DEPLOYMENT_SUCCEEDED,
    Event.DEPLOYMENT_FAILED,
    Event.DEPLOYMENT_CANCELLED,
    Event.DEPLOYMENT_SUPERSEDED,
}


async def test_a_deployment_shows_its_commit_author_and_times(world: World):
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


async def test_a_newer_deployment_supersedes_a_waiting_one_and_follows_a_running_one(world: World):
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


async def test_the_old_generation_serves_until_the_new_one_is_healthy(world: World):
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
async def test_if_the_new_generation_does_not_become_ready_the_old_one_keeps_serving(
    world: World, misfortune: str
):
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
        world.probes.problem = "it does not answer on port 8080"
        failed = await deploy(world, app)
        await under_way(world, lambda: len(world.engine.applied) == 2)
        world.engine.says(app, OutputLine(world.clock.now(), "cannot read config", "pod", failed))
        await world.settle()
        message = (await deployment(world, app, failed))["message"]
        assert "it does not answer on port 8080" in message
        assert "cannot read config" in message
        assert generations(world, app) == [1]


async def test_a_readiness_probe_can_delay_a_release_by_at_most_an_hour(world):
    endless = {"period_seconds": 3600, "failure_threshold": 1_000_000, "timeout_seconds": 1_000_000}
    probe = {"type": {"http": {"port": 8080, "path": "/"}}} | endless
    app = await deployed(world, healthchecks={"readiness_probe": probe})
    shown = (await world.get(f"/application/{app}"))["healthchecks"]["readiness_probe"]
    started = world.engine.applied[-1]
    assert shown["failure_threshold"] == 1_000_000
    assert started.patience == 3600
    assert [one.timeout for one in started.ready] == [3600]


async def lose_volume(world: World, app: str) -> None:
    world.engine.instances.clear()
    world.engine.lost.add(app)
    world.installation.note_change(app)
    await world.installation.note_changes()
    await world.settle()


async def test_a_lost_volume_fails_deployments_until_an_empty_one_is_accepted(world):
    app = await deployed(world, storage=[{"size": 1, "mount_point": "/data"}])
    await lose_volume(world, app)
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


async def test_a_service_recovers_when_its_lost_volume_is_back(world):
    app = await deployed(world, storage=[{"size": 1, "mount_point": "/data"}])
    await lose_volume(world, app)
    assert await world.state(f"/application/{app}") == "ERROR"
    world.engine.lost.clear()
    await world.run(60)
    assert await world.state(f"/application/{app}") == "RUNNING"


async def test_a_failed_release_of_a_service_with_storage_restarts_the_earlier_generation(
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


async def test_the_same_commit_is_never_built_twice(world: World):
    app = await deployed(world)
    await deploy(world, app)
    await world.settle()
    assert len(world.builder.built) == 1
    world.git.push("a change")
    await deploy(world, app)
    await world.settle()
    assert len(world.builder.built) == 2


async def test_a_failed_build_shows_its_reason_and_keeps_the_earlier_version_running(world: World):
    app = await deployed(world)
    world.builder.broken = "requirements.txt: no such package"
    world.git.push("a change")
    failed = await deploy(world, app)
    await world.settle()
    assert (await world.get(f"/application/{app}/status"))["deployment_state"] == "BUILD_ERROR"
    message = (await deployment(world, app, failed))["message"]
    assert message.startswith("requirements.txt: no such package. v1 (")
    log = await world.get(f"/application/{app}/deployment/{failed}/log")
    assert "Failed: requirements.txt: no such package" in [line["message"] for line in log["results"]]
    assert generations(world, app) == [1]


async def test_a_repository_that_cannot_be_read_fails_the_build(world: World):
    world.git.broken = "there is no such repository"
    app = await world.application()
    await deploy(world, app)
    await world.settle()
    message = (await world.get(f"/application/{app}/status"))["message"]
    assert message.startswith("there is no such repository. ")


async def test_a_build_is_cancelled_after_its_timeout(make_world_with):
    async with make_world_with(build_seconds=1) as world:
        world.builder.gate = asyncio.Event()
        app = await world.application()
        await deploy(world, app)
        await world.settle()
        assert "longer than 1 seconds" in (await world.get(f"/application/{app}/status"))["message"]


async def test_waiting_for_other_builds_does_not_count_towards_the_build_timeout(make_world_with):
    async with make_world_with(build_seconds=1) as world:
        world.builder.turn = asyncio.Event()
        app = await world.application()
        await deploy(world, app)
        asyncio.get_running_loop().call_later(1.2, world.builder.turn.set)
        await world.settle()
        assert generations(world, app) == [1]


async def test_a_rollback_to_a_build_that_was_pruned_fails(make_world_with):
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
        assert "Deploy its commit again" in (await world.get(f"/application/{app}/status"))["message"]
        assert generations(world, app) == [3]


async def test_a_build_that_never_served_is_pruned_by_the_next_release_even_without_a_new_build(
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


async def test_a_release_without_a_new_build_prunes_no_builds(world: World):
    app = await deployed(world)
    assert world.builder.pruned == [app]
    for _ in range(2):
        await deploy(world, app, git_commit_id=world.builder.built[0].commit)
        await world.settle()
    assert world.builder.pruned == [app]
    await deploy(world, app, git_commit_id=world.git.push("second"))
    await world.settle()
    assert world.builder.pruned == [app, app]


async def test_releasing_an_old_build_again_prunes_no_kept_build(make_world_with):
    async with make_world_with(kept_artifacts=1) as world:
        app = await deployed(world)
        first, second = world.builder.built[0].commit, world.git.push("second")
        for commit in [second] * 12 + [first]:
            await deploy(world, app, git_commit_id=commit)
            await world.settle()
        assert {order.commit for order in world.builder.built} == {first, second}
        assert len(world.builder.kept) == 2
        assert generations(world, app) == [14]


async def test_housekeeping_does_not_prune_a_build_that_is_being_deployed(world: World):
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


async def test_a_release_fails_with_the_reason_why_its_engine_finds_no_addresses(world: World, monkeypatch):
    async def refuse(workload: Workload, internal: int) -> Never:
        raise EngineError("Ask the operator: no network is left")

    monkeypatch.setattr(world.engine, "routed_addresses", refuse)
    app = await world.application(ports=[PORT])
    id = await deploy(world, app)
    await world.settle()
    done = await deployment(world, app, id)
    assert (done["status"], done["message"].partition(".")[0]) == (
        "FAILED",
        "Ask the operator: no network is left",
    )
