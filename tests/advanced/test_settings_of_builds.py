"""Advanced settings of builds and of instances act where the table says that they do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.docker.watched import wanted
from tests.world import World, make_world
from windlass.builders.builder import Order
from windlass.docker.builds.builder import limits_of
from windlass.docker.create import container
from windlass.engines.workload import Instance


@pytest.fixture
async def world(database_url):
    async with make_world(database_url, build_seconds=600) as made:
        yield made


async def deployed(world: World, settings: dict[str, Any], **fields: Any) -> str:
    """The path of an application that was deployed with these settings."""
    path = f"/application/{await world.application(**fields)}"
    answer = await world.put(f"{path}/advancedSettings", settings)
    assert answer.status == 201, answer
    await world.post(f"{path}/deploy")
    await world.settle()
    return path


async def test_a_build_gets_the_limits_of_its_service(world: World) -> None:
    await deployed(world, {"build.cpu_max_in_milli": 500, "build.ram_max_in_gib": 1})
    order = world.builder.built[-1]
    assert (order.cpu, order.memory, order.uses_cache) == (500, 1024, True)


@pytest.mark.parametrize(
    ("asked", "allowed"),
    [((500, 1024), (500, 1024)), ((1_000_000, 16_384 * 1024), (2000, 2048))],
    ids=["less", "more"],
)
def test_a_service_may_lower_the_limits_of_a_build_and_not_raise_them(
    tmp_path: Path, asked: tuple[int, int], allowed: tuple[int, int]
) -> None:
    order = Order(
        service="s", org="o", name="n", deployment="d", key="k", commit="c", source=tmp_path,
        cpu=asked[0], memory=asked[1],
    )  # fmt: skip
    limits = limits_of(order)
    assert (limits["cpuquota"] * 1000 // limits["cpuperiod"], limits["memory"] >> 20) == allowed
    assert limits["memswap"] == limits["memory"]


async def test_a_build_without_the_cache_is_ordered_as_such(world: World) -> None:
    await deployed(world, {"build.disable_buildkit_cache": True})
    assert not world.builder.built[-1].uses_cache


@pytest.mark.parametrize(
    ("seconds", "remedy"),
    [
        (1, "raise the advanced setting build.timeout_max_sec"),
        (None, "ask the operator for more build_seconds"),
    ],
    ids=["of the service", "of the server"],
)
async def test_a_build_ends_after_the_shorter_of_both_limits(
    database_url: str, seconds: int | None, remedy: str
) -> None:
    async with make_world(database_url, build_seconds=600 if seconds else 1) as world:
        world.builder.gate = asyncio.Event()
        path = await deployed(world, {"build.timeout_max_sec": seconds or 900})
        status = await world.get(f"{path}/status")
    assert status["state"] == "ERROR"
    assert f"Make the build shorter, or {remedy}: it took longer than 1 seconds" in status["message"]


async def test_a_changed_limit_of_builds_leaves_a_service_up_to_date(world: World) -> None:
    path = await deployed(world, {})
    await world.put(f"{path}/advancedSettings", {"build.ram_max_in_gib": 4})
    assert (await world.get(f"{path}/status"))["service_deployment_status"] == "UP_TO_DATE"


async def test_instances_have_a_read_only_root_if_their_service_wants_it(world: World) -> None:
    await deployed(world, {})
    assert not world.engine.applied[-1].read_only
    await deployed(world, {"security.read_only_root_filesystem": True})
    assert world.engine.applied[-1].read_only


def test_a_container_with_a_read_only_root_keeps_temporary_folders() -> None:
    options: dict[str, Any] = {"installation": "i", "network": "n", "aliases": [], "publish": "127.0.0.1"}
    made = [
        container(wanted(read_only=read_only), 0, host_ports=[], image={}, **options)["HostConfig"]
        for read_only in (True, False)
    ]
    assert (made[0]["ReadonlyRootfs"], {*made[0]["Tmpfs"]}) == (True, {"/tmp", "/run", "/var/tmp"})
    assert "ReadonlyRootfs" not in made[1]


@pytest.mark.parametrize("code", [0, 1])
async def test_a_command_runs_in_instances_before_they_are_stopped(world: World, code: int) -> None:
    executed: list[tuple[int, tuple[str, ...], int]] = []

    async def execute(instance: Instance, command: Sequence[str], timeout: float) -> tuple[int, str]:
        left = sum(other.generation == instance.generation for other in world.engine.instances.values())
        executed.append((instance.generation, tuple(command), left))
        return code, "no such file"

    path = await deployed(world, {"deployment.lifecycle.pre_stop_exec_command": ["sh", "-c", "sleep 1"]})
    world.engine.execute = execute  # type: ignore[method-assign]
    await world.post(f"{path}/deploy")
    await world.settle()
    assert executed == [(1, ("sh", "-c", "sleep 1"), 1)]
    await world.post(f"{path}/stop")
    await world.settle()
    assert [generation for generation, _, _ in executed] == [1, 2]
    assert await world.state(path) == "STOPPED"
    log = (await world.get(f"{path}/log"))["results"]
    assert any("The command before the stop" in line["message"] for line in log) is bool(code)
