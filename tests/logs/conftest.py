"""A world with an application that writes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.schemathesis.serving import served
from tests.world import World, make_world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made:
        yield made


@pytest.fixture
async def app(world: World) -> str:
    return await world.application()


@pytest.fixture
async def address(world: World) -> AsyncIterator[str]:
    async with served(world) as found:
        yield found
        world.installation.app.stop_streams()
