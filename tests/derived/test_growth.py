"""The made-up families of `make test-grown` are as good as others, and as many as asked for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
GROW = """
import asyncio, pathlib, sys
from windlass.api import account_document
from tests.made_up_families import grow
from windlass.families import find_declarations, registry, registry_of

before = len(registry_of(*find_declarations()).operations)
families, kinds = map(pathlib.Path, sys.argv[1:])
grow(families, kinds)

from tests.world import make_world

async def start():
    async with make_world() as world:
        document = (await world.get("/openapi.json")).json
        served = sum(map(len, document["paths"].values()))
        assert served == len(registry().operations) + sum(map(len, account_document.paths({}).values()))
        print(served / before)

asyncio.run(start())
"""


@pytest.mark.nightly
def test_generated_families_multiply_the_number_of_operations(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("families", "kinds")]
    for place in places:
        place.mkdir()
    grown = subprocess.run(
        [sys.executable, "-c", GROW, *map(str, places)],
        cwd=ROOT,
        env={**os.environ, "GROWTH": "1.3"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert grown.returncode == 0, grown.stderr
    assert 1.3 <= float(grown.stdout) < 1.7
