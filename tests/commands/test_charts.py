"""`windlass application metrics` shows the last hour of a service."""

from __future__ import annotations

import re

import pytest

from tests.commands.test_stories import shop
from tests.running.measured import count, look, use
from windlass.cli.charts import course


async def measured(windlass) -> None:
    """`web` runs in shop/production, and was looked at three times."""
    world, app = windlass.world, await shop(windlass)
    assert (await world.post(f"/application/{app}/deploy")).status == 202
    await world.settle()
    for cpu_ms, memory, ok in ((0, 50, 0), (150, 80, 30), (3150, 60, 45)):
        use(world.engine, app, cpu_ms, memory << 20)
        count(world, app, ok)
        await look(world)


@pytest.mark.parametrize("width", [60, 140])
async def test_metrics_are_shown_as_rows_with_current_and_highest_value(windlass, width):
    await measured(windlass)
    said = await windlass("application", "metrics", "web", "--text", width=width)
    head, *rows = [re.split("  +", line) for line in said.out.splitlines()]
    assert head == ["METRIC", "NOW", "HIGHEST", "LAST HOUR"]
    assert rows[:3] == [
        ["cpu 1-0", "200.0 m", "200.0 m", "▁█"],
        ["memory 1-0", "60.0 MB", "80.0 MB", "▅█▆"],
        ["requests 2xx", "1.00/s", "2.00/s", "█▅"],
    ]
    assert rows[-1][:3] == ["latency p99", "5 ms", "5 ms"]
    assert max(map(len, said.out.splitlines())) <= width


async def test_metrics_of_a_day_show_all_instances_together(windlass):
    world, app = windlass.world, await shop(windlass)
    assert (await world.post(f"/application/{app}/deploy")).status == 202
    await world.settle()
    for sample in range(60):
        use(world.engine, app, 150 * sample, 64 << 20)
        await look(world)
    said = await windlass("application", "metrics", "web", "--span", "24h", "--text")
    head, *rows = [re.split("  +", line) for line in said.out.splitlines()]
    assert head == ["METRIC", "NOW", "HIGHEST", "LAST 1 HOUR"]
    assert [row[:2] for row in rows] == [["instances", "1"], ["cpu", "10.0 m"], ["memory", "64.0 MB"]]


async def test_metrics_as_json_equal_the_api_answer(windlass):
    await measured(windlass)
    found = await windlass.done("application", "metrics", "web")
    assert found["instances"][0]["cpu"] == [None, 10.0, 200.0]


async def test_a_service_without_metrics_prints_a_notice_on_standard_error(windlass):
    await shop(windlass)
    said = await windlass("application", "metrics", "web", "--text")
    assert (said.code, said.out, said.err) == (0, "", "Nothing was measured in this time.\n")


@pytest.mark.parametrize(
    ("numbers", "width", "drawn"),
    [
        ([None, None], 4, "  "),
        ([0, 0, 0], 4, "▁▁▁"),
        ([0, None, 7], 4, "▁ █"),
        ([0, 7, 0, 0, None, None], 3, "█▁ "),
        ([1] * 240, 60, "█" * 60),
    ],
)
def test_a_chart_shows_the_highest_number_of_each_interval(numbers, width, drawn):
    assert course(numbers, width) == drawn
