"""The manual of the command line is true: every command in it works."""

import asyncio

from tests.cli.manual import run_examples
from tests.world import ADMIN


async def test_every_example_of_the_manual_works(windlass, tmp_path):
    shown = await asyncio.to_thread(
        run_examples, "command-line.md", tmp_path, WINDLASS_URL=windlass.url, WINDLASS_TOKEN=ADMIN
    )
    assert "shop\n" in shown
    await windlass.world.settle()
    assert (await windlass.done("application", "status", "web"))["state"] == "RUNNING"
