"""Each line of the log of a deployment names its stage, whatever the line says."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from tests.running.deployments import deployed, deployments
from tests.running.test_release_commands import Release
from tests.world import World
from windlass.engines.workload import OutputLine

MISLEADING = ("Fetching abc", "Running the release command", "Starting shop")
"""Lines of a build that read like those of other stages."""


async def lines_of_newest(world: World, app: str) -> list[Any]:
    newest = (await deployments(world, app))[0]
    return list((await world.get(f"/application/{app}/deployment/{newest['id']}/log"))["results"])


async def stages_of_newest(world: World, app: str) -> list[str]:
    return [stage for stage, _ in groupby(line["stage"] for line in await lines_of_newest(world, app))]


async def test_the_log_of_a_deployment_has_the_stages_fetch_build_command_start_in_order(
    world: World,
) -> None:
    Release(world)
    world.builder.lines = MISLEADING
    app = await deployed(world)
    assert await stages_of_newest(world, app) == ["FETCH", "BUILD", "COMMAND", "START"]


@pytest.mark.parametrize("action", ["restart-service", "rollback"])
async def test_the_log_of_a_restart_or_rollback_has_only_the_start_stage(world: World, action: str) -> None:
    app = await deployed(world)
    first = (await deployments(world, app))[0]["id"]
    body = {"deployment_id": first} if action == "rollback" else None
    answer = await world.post(f"/application/{app}/{action}", body)
    assert answer.status == 202, answer
    await world.settle()
    assert await stages_of_newest(world, app) == ["START"]


async def test_the_last_log_line_of_a_failed_build_is_in_the_build_stage(world: World) -> None:
    app = await deployed(world)
    world.builder.broken = "no such package"
    world.git.push("next")
    await world.post(f"/application/{app}/deploy", None)
    await world.settle()
    last = (await lines_of_newest(world, app))[-1]
    assert (last["message"], last["stage"]) == ("Failed: no such package", "BUILD")


async def test_log_lines_of_instances_have_no_stage(world: World) -> None:
    app = await deployed(world)
    world.engine.says(app, OutputLine(world.clock.now(), "ready", "shop-1-0", "1"))
    lines = (await world.get(f"/application/{app}/log"))["results"]
    assert [(line["message"], line.get("stage")) for line in lines if line["pod_name"] == "shop-1-0"] == [
        ("ready", None)
    ]
