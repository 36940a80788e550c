from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.jobs.sites import images_world
from tests.world import World


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    async with images_world(database_url) as made:
        yield made
