"""A service that runs once: a deployment of it is a run, with an exit code, a log and a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.running.deployments import under_way
from tests.tasks import run_of, with_tasks
from tests.world import World, make_world
from windlass.control.records.deployments import RECONCILE
from windlass.core.words.events import Event
from windlass.engines.workload import OutputLine, Workload


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    async with make_world(database_url, **with_tasks()) as made:
        yield made


async def new_task(world: World, environment: str | None = None, **fields: Any) -> str:
    environment = environment or await world.environment()
    return str(await world.made(f"/environment/{environment}/task", {"name": world.name("task")} | fields))


async def asked(world: World, task: str, action: str = "deploy", body: Any = None) -> str:
    answer = await world.post(f"/task/{task}/{action}", body)
    assert answer.status == 202, answer
    return str(answer["id"])


async def run(world: World, task: str, action: str = "deploy", body: Any = None) -> Any:
    """The deployment, once nothing is due any more."""
    deployment = await asked(world, task, action, body)
    await world.settle()
    return await shown(world, task, deployment)


async def shown(world: World, task: str, deployment: str) -> Any:
    return (await world.get(f"/task/{task}/deployment/{deployment}")).json


async def status(world: World, task: str) -> tuple[str, str]:
    answer = await world.get(f"/task/{task}/status")
    return answer["state"], answer["deployment_state"]


class Script:
    """The work of a run on the fake engine: it waits to be let go, and ends with this code."""

    def __init__(self, world: World, code: int = 0) -> None:
        self.world = world
        self.code = code
        self.began = 0
        self.go = asyncio.Event()
        world.engine.work = self.work

    async def work(self, workload: Workload) -> int:
        self.began += 1
        line = OutputLine(at=self.world.clock.now(), message="working", version=workload.deployment)
        self.world.engine.says(workload.service, line)
        await self.go.wait()
        return self.code


async def begun(world: World, task: str, script: Script) -> str:
    """A run under way, whose worker waits for it."""
    deployment = await asked(world, task)
    await world.installation.worker.start_due()
    await under_way(world, lambda: script.began)
    return deployment


async def test_a_run_that_exits_with_0_is_a_successful_deployment(world: World):
    task = await new_task(world)
    Script(world).go.set()
    deployment = await run(world, task)
    assert (deployment["action"], deployment["status"]) == ("RUN", "SUCCEEDED")
    assert run_of(deployment) == (0, "exited with code 0", ["working"])
    assert deployment["run"]["started_at"] <= deployment["run"]["ended_at"]
    assert await status(world, task) == ("RUNNING", "DEPLOYED")
    fresh = (await world.get(f"/task/{task}/status"))["service_deployment_status"]
    assert fresh == "UP_TO_DATE"


async def test_nothing_of_a_run_is_left_on_the_engine(world: World):
    task = await new_task(world)
    await run(world, task)
    assert world.engine.instances == {}


async def test_a_run_that_exits_with_another_code_is_a_failed_deployment_with_its_last_output(world: World):
    task = await new_task(world, name="migrate")
    Script(world, code=3).go.set()
    deployment = await run(world, task)
    assert deployment["status"] == "FAILED"
    assert deployment["message"] == "migrate exited with code 3\nIts last lines were:\nworking"
    assert run_of(deployment) == (3, "exited with code 3", ["working"])
    assert await status(world, task) == ("ERROR", "DEPLOYMENT_ERROR")
    assert world.engine.instances == {}


async def test_a_run_that_could_not_start_fails_with_the_reason(world: World):
    task = await new_task(world)
    world.engine.broken = "there is no room"
    deployment = await run(world, task)
    assert (deployment["status"], deployment["message"]) == ("FAILED", "there is no room")


async def test_a_run_in_progress_shows_its_state_and_start_time(world: World):
    task, script = await new_task(world), Script(world)
    deployment = await begun(world, task, script)
    assert await status(world, task) == ("EXECUTING", "EXECUTING")
    answer = await shown(world, task, deployment)
    assert (answer["status"], answer["run"]["ended_at"]) == ("DEPLOYING", None)
    script.go.set()
    await world.settle()


async def test_each_deploy_is_a_separate_run_and_runs_do_not_overlap(world: World):
    task, script = await new_task(world), Script(world)
    await begun(world, task, script)
    second = await asked(world, task)
    assert script.began == 1
    script.go.set()
    await world.settle()
    assert script.began == 2
    assert (await shown(world, task, second))["status"] == "SUCCEEDED"


@pytest.mark.usefixtures("short_hold")
async def test_a_long_run_occupies_no_worker_slot(world: World):
    task, script = await new_task(world), Script(world)
    deployment = await asked(world, task)
    await world.settle()  # comes back although the run has not ended
    assert (await shown(world, task, deployment))["status"] == "DEPLOYING"
    app = await world.application()
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"
    script.go.set()
    await asyncio.sleep(0)
    await world.installation.note_changes()
    await world.settle()
    assert (await shown(world, task, deployment))["status"] == "SUCCEEDED"
    assert script.began == 1


@pytest.mark.usefixtures("short_hold")
async def test_a_run_past_its_time_limit_is_ended_and_says_so(world: World):
    task, script = await new_task(world, name="slow", max_duration_seconds=60), Script(world)
    deployment = await asked(world, task)
    await world.settle()
    world.clock.turn(61)
    await world.settle()
    answer = await shown(world, task, deployment)
    assert answer["status"] == "FAILED"
    way_out = "Make the run shorter, or ask the operator to raise the setting run_seconds: "
    assert answer["message"].startswith(f"{way_out}slow did not end within 60 seconds\n")
    assert answer["run"]["ended_at"] is not None
    assert world.engine.instances == {}
    assert script.began == 1


async def test_a_run_that_is_cancelled_ends(world: World):
    task, script = await new_task(world), Script(world)
    deployment = await begun(world, task, script)
    assert (await world.post(f"/task/{task}/cancelDeployment")).status == 202
    await world.settle()
    answer = await shown(world, task, deployment)
    assert (answer["status"], answer["run"]["exit_code"]) == ("CANCELED", None)
    assert answer["run"]["ended_at"] is not None
    assert world.engine.instances == {}
    assert await status(world, task) == ("CANCELED", "CANCELED")


async def test_a_postponed_run_is_cancelled_immediately(world: World):
    task, _ = await new_task(world), Script(world)
    deployment = await asked(world, task)
    await world.settle()
    await world.post(f"/task/{task}/deployment/{deployment}/cancel")
    await world.settle()
    assert (await shown(world, task, deployment))["status"] == "CANCELED"
    assert world.engine.instances == {}


async def test_after_a_server_was_killed_the_same_run_is_found_again(world: World):
    """Its worker is gone at some moment, and another takes up the work."""
    task, script = await new_task(world), Script(world)
    deployment = await begun(world, task, script)
    await world.installation.worker.stop()
    script.go.set()
    await world.settle()
    assert (await shown(world, task, deployment))["status"] == "SUCCEEDED"
    assert script.began == 1


async def test_a_run_continues_once_its_engine_is_reachable_again(world: World):
    task, script = await new_task(world), Script(world)
    deployment = await begun(world, task, script)
    world.engine.away = True
    await world.settle()
    assert (await shown(world, task, deployment))["status"] == "DEPLOYING"
    world.engine.away = False
    script.go.set()
    await world.run(10)
    assert (await shown(world, task, deployment))["status"] == "SUCCEEDED"
    assert script.began == 1


async def test_a_deletion_ends_a_run_under_way(world: World):
    task, script = await new_task(world), Script(world)
    await begun(world, task, script)
    assert (await world.delete(f"/task/{task}")).status == 204
    await world.settle()
    assert (await world.get(f"/task/{task}")).status == 404
    assert world.engine.instances == {}


async def test_a_rollback_of_a_service_that_runs_once_runs_the_earlier_version_again(world: World):
    task = await new_task(world)
    first = await run(world, task)
    again = await run(world, task, "rollback", {"deployment_id": first["id"]})
    assert (again["action"], again["status"], again["repeats"]) == ("RUN", "SUCCEEDED", first["id"])
    redone = await run(world, task, "redeploy")
    assert (redone["action"], redone["status"]) == ("RUN", "SUCCEEDED")


async def test_a_service_that_runs_once_cannot_be_restarted(world: World):
    task = await new_task(world)
    assert (await world.post(f"/task/{task}/restart-service")).status == 404


async def test_a_run_emits_the_same_events_as_other_deployments(world: World):
    task = await new_task(world)
    await run(world, task)
    Script(world, code=1).go.set()
    await run(world, task)
    kinds = [row.kind for row in await world.events() if row.subject == task]
    assert set(kinds) == {
        Event.CREATED, Event.DEPLOYMENT_QUEUED, Event.DEPLOYMENT_STARTED, Event.DEPLOYMENT_SUCCEEDED,
        Event.DEPLOYMENT_FAILED,
    }  # fmt: skip


async def test_reconciling_a_service_does_not_repeat_its_run(world: World):
    task, script = await new_task(world), Script(world)
    script.go.set()
    await run(world, task)
    await world.installation.ctx.store.write(lambda tx: tx.work.schedule(RECONCILE, task))
    await world.settle()
    assert script.began == 1
