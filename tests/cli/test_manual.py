"""The manual of the command line is true: every command in it works."""

import asyncio

from tests.cli.manual import run_examples
from tests.world import ADMIN


async def test_every_example_of_the_manual_works(windlass, tmp_path):
    environment = {"WINDLASS_URL": windlass.url, "WINDLASS_TOKEN": ADMIN}
    running = asyncio.create_task(asyncio.to_thread(run_examples, "command-line.md", tmp_path, **environment))
    while not running.done():
        await windlass.world.run(1)
        await asyncio.sleep(0.05)
    assert "shop\n" in running.result()
    assert (await windlass.done("application", "status", "web"))["state"] == "RUNNING"
