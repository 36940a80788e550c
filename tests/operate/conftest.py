"""Databases to restore into."""

from __future__ import annotations

import pytest

from tests.operate.installations import furnish


@pytest.fixture
def postgres_url(postgres):
    with postgres.fresh_database() as url:
        yield url


@pytest.fixture(params=["into sqlite", "into postgres"])
def other_database(request):
    return request.getfixturevalue("postgres_url") if request.param == "into postgres" else ""


@pytest.fixture
async def furnished(world):
    await furnish(world)
    return world
