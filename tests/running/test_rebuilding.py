"""Services whose builds are gone, as after the loss of a data directory."""

from __future__ import annotations

import pytest

from tests.running.deployments import deployed, deployments
from tests.world import World
from windlass.core.deploy.states import Progress
from windlass.engines.engine import ArtifactLost
from windlass.process.files import copy


async def lose_builds(world: World) -> None:
    """Erases all builds and instances, and lets the server notice."""
    world.builder.kept.clear()
    world.engine.builds = world.builder.kept
    world.engine.instances.clear()
    for service in await world.installation.ctx.store.reads.statuses.services():
        world.installation.note_change(service)
    await world.installation.note_changes()


async def test_a_service_whose_build_is_gone_is_built_again_from_its_commit(world: World):
    app = await deployed(world)
    commit = (await deployments(world, app))[0]["git_commit_id"]
    world.git.push("something newer")
    await lose_builds(world)
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"
    last, first = await deployments(world, app)
    assert (last["git_commit_id"], last["repeats"]) == (commit, first["id"])
    assert len(world.builder.built) == 2
    assert [instance.generation for instance in world.engine.instances.values()] == [2]


async def test_a_failing_rebuild_is_retried_with_growing_pauses(world: World):
    app = await deployed(world)
    world.builder.broken = "the registry does not answer"
    await lose_builds(world)
    tries = []
    for _ in range(4):
        await world.run(400)
        tries.append(len(await deployments(world, app)) - 1)
    assert tries == [2, 2, 3, 3]
    world.builder.broken = ""
    await world.run(1500)
    assert await world.state(f"/application/{app}") == "RUNNING"


async def test_a_service_without_its_volume_is_built_again_as_soon_as_the_volume_is_back(world: World):
    app = await deployed(world, storage=[{"mount_point": "/data", "size": 1}])
    world.engine.lost.add(app)
    await lose_builds(world)
    await world.run(400)
    status = (await world.get(f"/application/{app}/status")).json
    assert status["message"].startswith("Bring back the volume"), status["message"]
    assert (status["state"], len(await deployments(world, app))) == ("ERROR", 1)
    world.engine.lost.clear()
    await world.run(60)
    assert await world.state(f"/application/{app}") == "RUNNING"
    assert len(await deployments(world, app)) == 2


async def test_a_build_that_cannot_be_repeated_says_why_until_the_next_try(world: World):
    app = await deployed(world)
    world.builder.broken = "the compiler is gone, too"
    await lose_builds(world)
    await world.run(100)
    status = (await world.get(f"/application/{app}/status")).json
    assert status["state"] == "ERROR"
    assert status["message"].startswith("the compiler is gone, too"), status["message"]
    assert [one["status"] for one in await deployments(world, app)] == [Progress.FAILED, Progress.SUCCEEDED]


@pytest.mark.parametrize("fails_by", ["a rebuild", "a deployment of a person"])
async def test_a_service_recovers_when_its_lost_build_is_back_even_if_a_rebuild_failed(
    world: World, fails_by: str
):
    """Such as with an engine whose disk was not mounted at boot. The control is a failed deployment of a
    person: it stays visible."""
    app = await deployed(world)
    kept = dict(world.builder.kept)
    world.builder.broken = "the registry does not answer"
    if fails_by == "a rebuild":
        await lose_builds(world)
    else:
        world.git.push("something newer")
        assert (await world.post(f"/application/{app}/deploy", {})).status == 202
    await world.run(60)
    assert await world.state(f"/application/{app}") == "ERROR"
    world.builder.kept.update(kept)
    await world.run(100)
    assert len(world.engine.instances) == 1
    status = (await world.get(f"/application/{app}/status")).json
    assert (status["state"], status["message"] == "") == (
        ("RUNNING", True) if fails_by == "a rebuild" else ("ERROR", False)
    )


@pytest.mark.parametrize("fails_by", ["a restart", "a deployment"])
async def test_a_service_recovers_when_all_its_instances_run_again_even_if_a_restart_failed(
    world: World, fails_by: str
):
    """Such as when the machine was restarted meanwhile. The control is a failed deployment: its version was
    requested, and does not run."""
    app = await deployed(world)
    world.engine.exits = "was killed by SIGKILL"
    if fails_by == "a restart":
        assert (await world.post(f"/application/{app}/restart-service")).status == 202
    else:
        world.git.push("something newer")
        assert (await world.post(f"/application/{app}/deploy", {})).status == 202
    await world.settle()
    world.engine.exits = ""
    world.engine.ends(app, "was killed by SIGKILL")
    await world.installation.note_changes()
    await world.settle()
    assert await world.state(f"/application/{app}") == "ERROR"
    world.engine.recovers(app)
    await world.installation.note_changes()
    await world.settle()
    assert await world.state(f"/application/{app}") == ("RUNNING" if fails_by == "a restart" else "ERROR")


async def test_a_service_with_an_existing_build_is_only_started_again(world: World):
    """The control of the tests above."""
    app = await deployed(world)
    world.engine.builds = world.builder.kept
    world.engine.instances.clear()
    world.installation.note_change(app)
    await world.installation.note_changes()
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"
    assert (len(await deployments(world, app)), len(world.engine.instances)) == (1, 1)


async def test_builds_that_are_lost_repeatedly_are_rebuilt_each_time(world: World):
    app = await deployed(world)
    for _ in range(2):
        await lose_builds(world)
        await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"
    assert len(await deployments(world, app)) == 3


def test_copying_a_missing_build_raises_artifact_lost(tmp_path):
    with pytest.raises(ArtifactLost):
        copy(tmp_path / "never built", tmp_path / "app")
