"""The metrics of a service over a day, a week and a month."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.running.deployments import deployed
from tests.running.measured import count, look, use
from tests.world import World
from windlass.base.clock import SECOND
from windlass.control.background import service_data
from windlass.control.background.sampling import Sampler
from windlass.control.context.usage_files import FINE_RESOLUTION, USAGE_FOLDER
from windlass.engines.workload import Usage

STEPS = 20
"""Samples in five minutes."""


async def metrics(world: World, service: str, span: str) -> Any:
    answer = await world.get(f"/application/{service}/metrics?span={span}")
    assert answer.status == 200, answer
    return answer.json


async def five_minutes(world: World, app: str, cpu_ms: int = 0, requests: int = 0, memory: int = 1) -> None:
    """Lets five minutes pass, with a sample four times a minute."""
    for _ in range(STEPS):
        instance = next(one.id for one in world.engine.instances.values() if one.service == app)
        before = world.engine.load.get(instance, Usage(cpu_ms=0, memory=0)).cpu_ms
        use(world.engine, app, before + cpu_ms, memory)
        answered = world.router.told[app].answers[2] if app in world.router.told else 0
        count(world, app, ok=answered + requests)
        await look(world)


async def test_a_service_that_was_never_measured_has_no_points_of_a_day(world: World):
    app = await world.application()
    for span in ("24h", "7d", "30d"):
        found = await metrics(world, app, span)
        assert (found["times"], found["instances"], found["requests"]) == ([], [], None)


async def test_a_point_of_five_minutes_has_the_mean_of_the_processor_time_and_the_highest_memory(
    world: World,
):
    app = await deployed(world)
    world.clock.turn((FINE_RESOLUTION.every - world.clock.now() % FINE_RESOLUTION.every) / SECOND)
    await five_minutes(world, app)
    await five_minutes(world, app, cpu_ms=1500, requests=30, memory=70)
    await five_minutes(world, app, cpu_ms=3000, memory=50)
    await five_minutes(world, app)
    found = await metrics(world, app, "24h")
    assert found["every_seconds"] == 300
    assert found["usage"] == {"instances": [1, 1, 1, 1], "cpu": [0, 100, 200, 0], "memory": [1, 70, 50, 1]}
    assert found["requests"]["by_status"]["2xx"] == [0, 2, 0, 0]
    assert found["requests"]["by_status"]["5xx"] == [0, 0, 0, 0]
    assert found["requests"]["p50"][1] > 0


async def test_half_an_hour_is_a_point_of_a_week_and_of_a_month(world: World):
    app = await deployed(world)
    for _ in range(13):
        await five_minutes(world, app, cpu_ms=150)
    week, month = await metrics(world, app, "7d"), await metrics(world, app, "30d")
    assert week["every_seconds"] == month["every_seconds"] == 1800
    assert week["times"] == month["times"]
    assert week["usage"]["cpu"][-1] == pytest.approx(10, abs=1)


async def test_points_survive_a_restart_and_a_pause_is_a_gap(world: World, tmp_path: Path):
    app = await deployed(world)
    for _ in range(3):
        await five_minutes(world, app, cpu_ms=150)
    before = await metrics(world, app, "24h")
    world.installation.sampler = Sampler(world.installation.ctx)
    world.clock.turn(1200)
    for _ in range(3):
        await five_minutes(world, app, cpu_ms=150)
    after = await metrics(world, app, "24h")
    assert after["times"][: len(before["times"])] == before["times"]
    assert None in after["usage"]["cpu"]
    assert after["usage"]["cpu"][-1] is not None


async def test_points_of_an_earlier_turn_of_the_ring_are_not_shown(world: World):
    app = await deployed(world)
    for _ in range(3):
        await five_minutes(world, app)
    assert (await metrics(world, app, "24h"))["times"]
    world.clock.turn(FINE_RESOLUTION.every * FINE_RESOLUTION.points / 1000)
    assert (await metrics(world, app, "24h"))["times"] == []
    assert (await metrics(world, app, "30d"))["times"] == []


async def test_a_cut_file_has_gaps_and_breaks_nothing(world: World):
    app = await deployed(world)
    for _ in range(3):
        await five_minutes(world, app)
    file = Path(world.installation.ctx.settings.data_dir) / USAGE_FOLDER / app
    os.truncate(file, 1001)
    assert (await world.get(f"/application/{app}/metrics?span=24h")).status == 200
    for _ in range(2):
        await five_minutes(world, app)
    assert (await metrics(world, app, "24h"))["usage"]["instances"][-1] == 1


async def test_a_folder_that_cannot_be_written_stops_no_measurement(world: World):
    app = await deployed(world)
    (Path(world.installation.ctx.settings.data_dir) / USAGE_FOLDER).write_text("in the way")
    for _ in range(3):
        await five_minutes(world, app)
    assert (await world.get(f"/application/{app}/metrics"))["times"]


async def test_the_file_of_a_deleted_service_is_removed_and_others_stay(world: World):
    environment = await world.environment()
    kept, deleted = (
        await deployed(world, environment=environment),
        await deployed(world, environment=environment),
    )
    use(world.engine, kept)
    use(world.engine, deleted)
    for _ in range(2 * STEPS):
        await look(world)
    folder = Path(world.installation.ctx.settings.data_dir) / USAGE_FOLDER
    assert {file.name for file in folder.iterdir()} == {kept, deleted}
    await world.delete(f"/application/{deleted}")
    await world.settle()
    await service_data.sweep(world.installation.ctx, world.installation.ctx.usage_files)
    assert {file.name for file in folder.iterdir()} == {kept}


async def test_an_unknown_span_is_refused_by_its_name(world: World):
    app = await world.application()
    answer = await world.get(f"/application/{app}/metrics?span=2y")
    assert answer.status == 400
    assert "span" in str(answer.json)
