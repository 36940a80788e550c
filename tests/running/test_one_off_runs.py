"""A command runs once in the build of an application, and changes nothing of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.running.deployments import deploy, deployed, deployment, generations, under_way
from tests.world import World
from windlass.engines.workload import RELEASE_INDEX, OutputLine, StaticSite, Workload

COMMAND = ["python", "manage.py", "migrate"]


@pytest.fixture
async def app(world: World) -> str:
    return await deployed(world, ports=[{"internal_port": 8080, "publicly_accessible": True}])


class Command:
    """A command on the fake engine: it says a line, waits to be let go, and ends with this code."""

    def __init__(self, world: World, code: int = 0) -> None:
        self.world, self.code = world, code
        self.runs: list[Workload] = []
        self.go = asyncio.Event()
        world.engine.work = self.work

    async def work(self, workload: Workload) -> int:
        self.runs.append(workload)
        pod = f"{workload.name}-{workload.generation}-{RELEASE_INDEX}"
        line = OutputLine(self.world.clock.now(), "migrating", pod, workload.deployment)
        self.world.engine.says(workload.service, line)
        await self.go.wait()
        return self.code


async def asked(world: World, app: str) -> str:
    answer = await world.post(f"/application/{app}/run", {"command": COMMAND})
    assert (answer.status, answer["action"], answer["command"]) == (202, "RUN", COMMAND), answer
    return str(answer["id"])


@contextlib.asynccontextmanager
async def running(world: World, app: str) -> AsyncIterator[tuple[str, Command]]:
    """A run under way."""
    command = Command(world)
    id = await asked(world, app)
    await world.installation.worker.start_due()
    await under_way(world, lambda: command.runs)
    yield id, command


async def ended(world: World, app: str, code: int = 0) -> tuple[Any, Command]:
    command = Command(world, code)
    command.go.set()
    id = await asked(world, app)
    await world.settle()
    return await deployment(world, app, id), command


async def status(world: World, app: str) -> dict[str, Any]:
    """The status without the number of deployments."""
    shown = (await world.get(f"/application/{app}/status")).json
    return {name: value for name, value in shown.items() if name != "deployment_requests_count"}


async def test_a_one_off_command_runs_in_the_deployed_build_and_returns_its_exit_code(world, app):
    before = await status(world, app)
    done, command = await ended(world, app)
    (run,) = command.runs
    assert (done["status"], done["run"]["exit_code"], done["run"]["output"]) == (
        "SUCCEEDED",
        0,
        ["migrating"],
    )
    assert ((*run.entrypoint, *run.command), run.ports, run.ready) == (tuple(COMMAND), (), ())
    assert run.artifact.key == world.engine.applied[0].artifact.key
    assert len(world.builder.built) == 1
    assert await status(world, app) == before
    assert generations(world, app) == [1]
    log = (await world.get(f"/application/{app}/deployment/{done['id']}/log"))["results"]
    assert "migrating" in [line["message"] for line in log]


async def test_a_failed_one_off_command_does_not_change_the_status_of_its_service(world, app):
    before = await status(world, app)
    done, _ = await ended(world, app, code=3)
    assert (done["status"], done["run"]["exit_code"]) == ("FAILED", 3)
    assert done["message"] == "The command exited with code 3"
    assert await status(world, app) == before
    assert generations(world, app) == [1]


async def test_the_service_status_is_unchanged_while_a_one_off_command_runs(world, app):
    before = await status(world, app)
    async with running(world, app) as (id, command):
        assert await status(world, app) == before
        assert (await deployment(world, app, id))["status"] == "DEPLOYING"
        command.go.set()
        await world.settle()
    assert (await deployment(world, app, id))["status"] == "SUCCEEDED"


async def test_a_cancelled_command_is_ended_and_the_service_stays(world, app):
    before = await status(world, app)
    async with running(world, app) as (id, _):
        assert (await world.post(f"/application/{app}/deployment/{id}/cancel")).status == 202
        await world.settle()
    done = await deployment(world, app, id)
    assert (done["status"], done["message"].startswith("Cancelled by")) == ("CANCELED", True)
    assert (await status(world, app), generations(world, app)) == (before, [1])


async def test_a_command_that_takes_too_long_is_ended(make_world_with, short_hold):
    async with make_world_with(run_seconds=60) as world:
        app = await deployed(world)
        Command(world)
        id = await asked(world, app)
        await world.run(70)
        done = await deployment(world, app, id)
        assert (done["status"], done["message"].startswith("Make the command shorter")) == ("FAILED", True)
        assert (await world.state(f"/application/{app}"), generations(world, app)) == ("RUNNING", [1])


async def test_commands_and_deployments_that_wait_do_not_replace_each_other(world, app):
    first, second = await asked(world, app), await asked(world, app)
    release, third = await deploy(world, app), await asked(world, app)
    Command(world).go.set()
    await world.settle()
    for id in (first, second, release, third):
        assert (await deployment(world, app, id))["status"] == "SUCCEEDED"
    assert await world.state(f"/application/{app}") == "RUNNING"


async def test_redeploy_and_rollback_ignore_one_off_commands(world, app):
    world.git.push("a change")
    await deploy(world, app)
    await world.settle()
    await ended(world, app)
    again = await world.post(f"/application/{app}/redeploy")
    assert again["git_commit_id"] == world.git.newest
    await world.settle()
    back = await world.post(f"/application/{app}/rollback")
    assert (back.status, back["git_commit_id"] != world.git.newest) == (202, True)


async def test_a_service_that_was_never_deployed_runs_no_command(world):
    app = await world.application()
    answer = await world.post(f"/application/{app}/run", {"command": ["ls"]})
    assert (answer.status, answer.message.startswith("Deploy ")) == (409, True)


async def test_a_one_off_command_of_a_stopped_service_does_not_start_the_service(world, app):
    await world.post(f"/application/{app}/stop")
    await world.settle()
    done, _ = await ended(world, app)
    assert done["status"] == "SUCCEEDED"
    assert (await world.state(f"/application/{app}"), generations(world, app)) == ("STOPPED", [])


@pytest.mark.parametrize("body", [{}, {"command": []}, {"command": "ls"}])
async def test_a_run_without_a_command_is_refused(world, app, body):
    answer = await world.post(f"/application/{app}/run", body)
    assert (answer.status, answer.message.startswith("command: ")) == (400, True)


async def test_a_command_needs_the_scope_deploy(world, app):
    token = await world.new_token("Write")
    answer = await world.post(f"/application/{app}/run", {"command": ["ls"]}, token=token)
    assert answer.status == 403


@pytest.mark.parametrize("makes", ["image", "native"])
async def test_a_one_off_command_on_a_static_site_requires_a_native_build(world, makes):
    world.builder.makes, world.builder.names = makes, {"static": StaticSite(folder="dist")}
    app = await deployed(world)
    answer = await world.post(f"/application/{app}/run", {"command": COMMAND})
    assert answer.status == (409 if makes == "image" else 202), answer
    assert makes == "native" or answer.message.startswith("Choose another service: "), answer.message
