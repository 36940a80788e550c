"""The release command runs once for a deployment, after its build and before it serves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.running.deployments import deploy, deployment, generations, under_way
from tests.world import World, make_world
from windlass.engines.workload import RELEASE_INDEX, OutputLine, Workload

RELEASE = ("/bin/sh", "-c", "exec migrate")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """On the embedded database: what is asked of a database is the same for all runs."""
    async with make_world() as made:
        yield made


class Release:
    """The release command on the fake engine: it notes what ran beside it, and ends with this code."""

    def __init__(self, world: World, code: int = 0, *, waits: bool = False) -> None:
        self.world, self.code = world, code
        self.runs: list[Workload] = []
        self.beside: list[list[int]] = []
        self.go = asyncio.Event()
        if not waits:
            self.go.set()
        world.builder.names = {"command": ("run",), "release": RELEASE}
        world.engine.work = self.work

    async def work(self, workload: Workload) -> int:
        self.runs.append(workload)
        own = [key for key in self.world.engine.instances if key[0] == workload.service]
        self.beside.append(sorted(key[1] for key in own if key[2] != RELEASE_INDEX))
        pod = f"{workload.name}-{workload.generation}-{RELEASE_INDEX}"
        line = OutputLine(self.world.clock.now(), "migrating", pod, workload.deployment)
        self.world.engine.says(workload.service, line)
        await self.go.wait()
        return self.code


async def released(world: World, app: str, **body: Any) -> Any:
    id = await deploy(world, app, **body)
    await world.settle()
    return await deployment(world, app, id)


async def log_of(world: World, app: str, id: str) -> list[str]:
    answer = await world.get(f"/application/{app}/deployment/{id}/log")
    return [line["message"] for line in answer["results"]]


async def test_a_release_command_runs_after_the_build_and_before_the_first_instance(world: World) -> None:
    release = Release(world)
    app = await world.application(ports=[{"internal_port": 80, "publicly_accessible": True}])
    for number in (1, 2):
        world.git.push(f"{number}")
        done = await released(world, app)
        assert (done["status"], done["release"]["exit_code"]) == ("SUCCEEDED", 0)
        assert generations(world, app) == [number]
    assert release.beside == [[], [1]]
    assert [run.command for run in release.runs] == [RELEASE, RELEASE]
    assert [(run.ports, run.ready, run.alive) for run in release.runs] == [((), (), ())] * 2


async def test_the_output_of_a_release_command_is_in_the_log_of_its_deployment_only(
    world: World,
) -> None:
    Release(world)
    app = await world.application()
    done = await released(world, app)
    lines = await log_of(world, app, done["id"])
    start = lines.index("Running the release command")
    assert lines[start + 1 :][:2] == ["migrating", "The release command exited with code 0"]
    service_log = await world.get(f"/application/{app}/log")
    assert "migrating" not in [line["message"] for line in service_log["results"]]


async def test_a_failed_release_command_leaves_the_earlier_version_serving(
    world: World,
) -> None:
    release = Release(world)
    app = await world.application(ports=[{"internal_port": 80, "publicly_accessible": True}])
    await released(world, app)
    release.code = 3
    world.git.push("broken")
    failed = await released(world, app)
    assert failed["status"] == "FAILED"
    assert failed["message"].startswith("Fix the release command, or what it needs: it exited with code 3")
    assert "v1 (" in failed["message"]
    assert "still serves" in failed["message"]
    assert failed["message"].endswith("migrating")
    assert failed["release"]["exit_code"] == 3
    assert generations(world, app) == [1]
    assert world.router.routes[app][0].endpoints


async def test_the_release_command_setting_replaces_that_of_the_repository(world: World) -> None:
    release = Release(world)
    app = await world.application(release_command="mine && yours", process="")
    assert (await released(world, app))["status"] == "SUCCEEDED"
    assert [run.command for run in release.runs] == [("/bin/sh", "-c", "mine && yours")]


async def test_without_a_command_nothing_is_run(world: World) -> None:
    release = Release(world)
    world.builder.names = {"command": ("run",)}
    assert "release" not in await released(world, await world.application())
    assert release.runs == []


async def test_restart_rollback_and_scaling_do_not_run_the_release_command(world: World) -> None:
    release = Release(world)
    app = await world.application()
    await released(world, app)
    world.git.push("second")
    await released(world, app)
    assert len(release.runs) == 2
    await world.post(f"/application/{app}/restart-service")
    await world.settle()
    await world.post(f"/application/{app}/rollback")
    await world.settle()
    await world.post(f"/application/{app}/restart-service")
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"
    assert len(release.runs) == 2


async def test_a_cancellation_ends_the_release_command_and_the_earlier_version_keeps_serving(
    world: World,
) -> None:
    release = Release(world)
    app = await world.application()
    await released(world, app)
    release.go.clear()
    world.git.push("second")
    id = await deploy(world, app)
    await under_way(world, lambda: len(release.runs) == 2)
    running = await deployment(world, app, id)
    assert (running["status"], running["release"]["ended_at"]) == ("DEPLOYING", None)
    assert (await world.post(f"/application/{app}/deployment/{id}/cancel")).status == 202
    await world.settle()
    assert (await deployment(world, app, id))["status"] == "CANCELED"
    assert generations(world, app) == [1]


async def test_after_a_server_was_killed_the_same_release_command_run_is_found_again(world: World) -> None:
    release = Release(world, waits=True)
    app = await world.application()
    id = await deploy(world, app)
    await under_way(world, lambda: release.runs)
    await world.installation.worker.stop()
    release.go.set()
    await world.settle()
    assert (await deployment(world, app, id))["status"] == "SUCCEEDED"
    assert len(release.runs) == 1
    assert (await log_of(world, app, id)).count("Running the release command") == 1


@pytest.mark.usefixtures("short_hold")
async def test_a_long_release_command_occupies_no_worker_slot(world: World) -> None:
    release = Release(world, waits=True)
    app = await world.application()
    id = await deploy(world, app)
    await world.settle()  # comes back although the run has not ended
    assert (await deployment(world, app, id))["status"] == "DEPLOYING"
    release.go.set()
    await asyncio.sleep(0)
    await world.installation.note_changes()
    await world.settle()
    assert (await deployment(world, app, id))["status"] == "SUCCEEDED"
    assert len(release.runs) == 1


@pytest.mark.usefixtures("short_hold")
async def test_a_release_command_has_a_time_limit(world: World) -> None:
    release = Release(world, waits=True)
    app = await world.application()
    id = await deploy(world, app)
    await under_way(world, lambda: release.runs)
    world.clock.turn(world.installation.ctx.settings.run_seconds + 1)
    await world.settle()
    failed = await deployment(world, app, id)
    assert failed["status"] == "FAILED"
    assert failed["message"].startswith(
        "Make the release command shorter, or ask the operator for more run_s"
    )
    assert generations(world, app) == []


async def test_a_newer_deployment_waits_for_a_running_release_command(world: World) -> None:
    release = Release(world, waits=True)
    app = await world.application()
    first = await deploy(world, app)
    await under_way(world, lambda: release.runs)
    second = await deploy(world, app)
    assert (await deployment(world, app, first))["status"] == "DEPLOYING"
    release.go.set()
    await world.settle()
    states = [(await deployment(world, app, id))["status"] for id in (first, second)]
    assert states == ["SUCCEEDED", "SUCCEEDED"]
