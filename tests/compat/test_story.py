"""The npm package of the full interface uses Windlass under `/compat`; each answer fits its declarations."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.compat.npm import HERE, install_packages
from tests.fakes.charts import FakeCharts
from tests.fakes.engine import FakeEngine
from tests.interface import calls
from tests.schemathesis.serving import served
from tests.world import ADMIN, World, make_world


@pytest.fixture(scope="module")
def package() -> None:
    install_packages()


async def told(world: World, url: str) -> dict[str, Any]:
    """Returns the report of the story, and lets the world do its work meanwhile."""
    process = await asyncio.create_subprocess_exec(
        "node", "conformance.mjs", f"{url}/compat", ADMIN, world.org,
        cwd=HERE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    communicating = asyncio.create_task(process.communicate())
    while not communicating.done():
        await world.settle()
        world.clock.turn(0.05)
        await asyncio.sleep(0.05)
    out, err = communicating.result()
    assert process.returncode == 0, err.decode()
    report: dict[str, Any] = json.loads(out.splitlines()[-1])
    return report


@pytest.mark.slow
@pytest.mark.usefixtures("package")
async def test_the_published_client_reads_every_answer_as_declared():
    async with make_world(engine=FakeEngine("image"), out=FakeCharts()) as world, served(world) as url:
        report = await told(world, url)
    assert report["failed"] is None
    assert report["problems"] == []
    assert [problem.partition(":")[0] for problem in report["control"]] == [
        "wrong.id", "wrong.name", "wrong.associated_environments_count",
    ], "the check of the answers finds nothing"  # fmt: skip
    assert len({(call["method"], call["path"]) for call in report["calls"]}) > 80
    for call in report["calls"]:
        calls.note(call["method"], call["path"], call["status"])
