"""The manual of the command line and that of running things are true: every command in them works."""

import asyncio

import pytest

from tests.cli.manual import run_examples
from tests.world import ADMIN


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("page", "shown"), [("command-line.md", "shop\n"), ("running.md", '"name": "shop"')])
async def test_every_example_of_the_manual_works(windlass, tmp_path, page, shown):
    environment = {"WINDLASS_URL": windlass.url, "WINDLASS_TOKEN": ADMIN}
    running = asyncio.create_task(asyncio.to_thread(run_examples, page, tmp_path, **environment))
    while not running.done():
        windlass.world.git.push(str(windlass.world.clock.now()))
        await windlass.world.run(1)
        await asyncio.sleep(0.05)
    assert shown in running.result()
    assert (await windlass.done("application", "status", "web"))["state"] == "RUNNING"
