"""A world behind a socket, and clients that read its streams as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.schemathesis.serving import served
from tests.world import World, make_world


@pytest.fixture
async def address(world: World) -> AsyncIterator[str]:
    async with served(world) as found:
        yield found
        world.installation.app.stop_streams()


@pytest.fixture
def shared_database(postgres: Any) -> Iterator[str]:
    with postgres.fresh_database() as url:
        yield url


@pytest.fixture
async def replicas(shared_database: str) -> AsyncIterator[tuple[World, World]]:
    """Two servers, one database."""
    async with make_world(shared_database) as one, make_world(shared_database, folder=one.folder) as other:
        yield one, other
