"""One town for all negative controls: they look at it, and hardly change it."""

import pytest

from tests.schemathesis.town import Holding, Town
from tests.world import make_world


@pytest.fixture(scope="module")
async def town():
    async with make_world(engine=Holding()) as world:
        made = Town(world, standing=1, doomed=1)
        await made.build()
        yield made
