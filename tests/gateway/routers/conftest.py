"""A town for each test."""

import pytest

from tests.gateway.routers.town import make_town


@pytest.fixture
async def town():
    async with make_town() as made:
        yield made
