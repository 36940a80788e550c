"""One world for many tests: most of them only read, or change what was made for them alone."""

import pytest

from tests.derived.stage import staged
from tests.marks import nightly
from tests.postgres import chosen_database


@pytest.fixture(scope="module", params=["sqlite", *nightly("postgres")])
def module_database(request):
    with chosen_database(request) as url:
        yield url


@pytest.fixture(scope="module")
async def stage(module_database):
    async with staged(module_database) as made:
        yield made


@pytest.fixture
def postgres_url(postgres):
    """A database that several replicas can share."""
    with postgres.fresh_database() as url:
        yield url
