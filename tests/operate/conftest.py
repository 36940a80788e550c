"""Databases to restore into."""

from __future__ import annotations

import asyncio

import pytest

from tests.operate.installations import furnish
from tests.operate.key_rotations import sealed_installation
from windlass.config import Settings


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


@pytest.fixture
def settings(database_url, tmp_path) -> Settings:
    """An installation that does not run, with every sort of sealed value."""
    return asyncio.run(sealed_installation(database_url, tmp_path / "data"))
