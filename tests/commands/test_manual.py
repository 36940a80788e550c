"""The README, the manual of the command line and that of running things are true: each command works."""

import asyncio
import re

import pytest

from tests.commands.manual import ROOT, run_examples
from tests.tokens import ADMIN


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("README.md", '"name":"default"'),
        ("docs/command-line.md", "shop\n"),
        ("docs/running.md", '"name": "shop"'),
    ],
)
@pytest.mark.nightly
async def test_every_example_of_the_manual_works(windlass, tmp_path, page, shown):
    environment = {"WINDLASS_URL": windlass.url, "WINDLASS_TOKEN": ADMIN}
    running = asyncio.create_task(asyncio.to_thread(run_examples, ROOT / page, tmp_path, **environment))
    while not running.done():
        windlass.world.git.push(str(windlass.world.clock.now()))
        await windlass.world.run(1)
        await asyncio.sleep(0.05)
    assert shown in running.result()
    assert (await windlass.done("application", "status", "web"))["state"] == "RUNNING"


def test_every_target_of_make_in_the_readme_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / "README.md").read_text(), re.MULTILINE))
    assert named
    assert named <= targets
