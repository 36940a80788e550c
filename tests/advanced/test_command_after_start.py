"""The command after the start of an instance runs before the instance gets requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from tests.world import World, make_world
from windlass.engines.workload import Instance

COMMAND = "deployment.lifecycle.post_start_exec_command"


class Executed:
    """Answers commands in instances, and remembers which instances have run one."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.code, self.output = 0, ""
        self.instances: list[tuple[int, int]] = []
        self.routed: list[object] = []
        """The addresses that got requests when a command ran."""
        world.engine.execute = self.execute  # type: ignore[method-assign]

    async def execute(self, instance: Instance, command: Sequence[str], timeout: float) -> tuple[int, str]:
        assert tuple(command) == ("sh", "-c", "./warm-up")
        self.instances.append((instance.generation, instance.index))
        self.routed += endpoints(self.world)
        self.world.probes.problem = ""
        return self.code, self.output


def endpoints(world: World) -> list[object]:
    return [one for routes in world.router.routes.values() for route in routes for one in route.endpoints]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made:
        yield made


async def application(world: World, **fields: Any) -> str:
    path = f"/application/{await world.application(**fields)}"
    answer = await world.put(f"{path}/advancedSettings", {COMMAND: ["sh", "-c", "./warm-up"]})
    assert answer.status == 201, answer
    return path


async def deploy(world: World, path: str) -> None:
    await world.post(f"{path}/deploy")
    await world.settle()


async def test_it_runs_once_in_each_instance_of_a_new_version(world: World) -> None:
    executed = Executed(world)
    ports = [{"internal_port": 8080, "publicly_accessible": True}]
    path = await application(world, min_running_instances=2, max_running_instances=2, ports=ports)
    await deploy(world, path)
    assert sorted(executed.instances) == [(1, 0), (1, 1)]
    assert executed.routed == [], "requests came before the command had ended"
    assert endpoints(world), "the control"
    await deploy(world, path)
    assert sorted(executed.instances)[2:] == [(2, 0), (2, 1)]
    assert await world.state(path) == "RUNNING"


async def test_an_instance_may_become_ready_by_it(world: World) -> None:
    Executed(world)
    path = await application(world)
    world.probes.problem = "it is not warm yet"
    await deploy(world, path)
    assert await world.state(path) == "RUNNING"


async def test_a_deployment_fails_with_its_output_if_it_fails(world: World) -> None:
    executed = Executed(world)
    path = await application(world)
    await deploy(world, path)
    await world.post(f"{path}/secret", {"key": "TOKEN", "value": "correct-horse-battery"})
    executed.code, executed.output = 3, "warming up\nno such file: correct-horse-battery"
    await deploy(world, path)
    status = await world.get(f"{path}/status")
    assert status["message"].startswith(f"Fix {COMMAND}: it exited with code 3 in instance 0 of ")
    assert [instance.generation for instance in await world.engine.all()] == [1], "the old version serves"
    log = [line["message"] for line in (await world.get(f"{path}/log"))["results"]]
    assert "warming up" in log
    assert not any("correct-horse" in line for line in log)


async def test_an_instance_that_is_started_anew_runs_it_and_a_running_one_does_not(world: World) -> None:
    executed = Executed(world)
    path = await application(world)
    await deploy(world, path)
    world.engine.loses(path.rpartition("/")[2], 9, "")
    await world.compare_instances()
    assert executed.instances == [(1, 0)]
    executed.code = 1
    world.engine.forgets_everything()
    await world.compare_instances()
    assert executed.instances == [(1, 0), (1, 0)]
    log = [line["message"] for line in (await world.get(f"{path}/log"))["results"]]
    assert any(line.startswith(f"Fix {COMMAND}") for line in log)
    assert await world.state(path) == "RUNNING"
