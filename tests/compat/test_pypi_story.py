"""The Python package of the full interface, of 2022, uses Windlass under `/compat` and reads the answers."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tests.compat.pypi import install_package
from tests.fakes.engine import FakeEngine
from tests.schemathesis.serving import served
from tests.world import ADMIN, World, make_world

UNREADABLE = {
    "list_organization_cluster": "it knows three clouds, and not a cluster of one's own (ON_PREMISE)",
    "create_application_custom_domain": "it does not know VALIDATION_PENDING, today's only status of one",
    "update_deployment_rules_priority_order": "it takes no ids, and so cannot make this request",
    "get_project_environment_status": "it expects one status, where today's interface has a list",
    "cancel_environment_deployment": "it does not know the word CANCELED",
    "restart_environment": "its path is now /environment/{}/redeploy",
    "list_cloud_provider": "its path no longer exists in the interface",
    "list_environment_log": "it does not know the word WAITING",
}
"""Calls of the package that no server can satisfy together with clients of today, each with the reason."""


@pytest.fixture(scope="module")
def modules() -> Path:
    return install_package()


async def told(world: World, url: str, modules: Path) -> dict[str, str]:
    """Returns the calls of the story, each with what was wrong, and lets the world do its work meanwhile."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(Path(__file__).with_name("pypi_story.py")), f"{url}/compat", ADMIN, world.org,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(modules)},
    )  # fmt: skip
    communicating = asyncio.create_task(process.communicate())
    while not communicating.done():
        await world.settle()
        world.clock.turn(0.05)
        await asyncio.sleep(0.05)
    out, err = communicating.result()
    assert process.returncode == 0, err.decode()
    report: dict[str, str] = json.loads(out.splitlines()[-1])
    return report


@pytest.mark.slow
async def test_the_package_of_2022_reads_every_answer_but_those_that_no_server_can_give(modules: Path):
    async with make_world(engine=FakeEngine("image")) as world, served(world) as url:
        report = await told(world, url, modules)
    problems = {name: problem for name, problem in report.items() if problem}
    assert problems.keys() == UNREADABLE.keys(), problems
    assert len(report) > 95
