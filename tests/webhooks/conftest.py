"""A world whose deliveries are caught."""

import pytest

from tests.webhooks.receivers import Receivers
from tests.world import make_world


@pytest.fixture
def receivers():
    return Receivers()


@pytest.fixture
async def world(database_url, receivers):
    async with make_world(database_url, out=receivers) as made:
        yield made


@pytest.fixture
def postgres_url(postgres):
    with postgres.fresh_database() as url:
        yield url
