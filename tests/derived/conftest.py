"""One world for many tests: most of them only read, or change what was made for them alone."""

import pytest

from tests.derived.stage import staged
from tests.forms import elsewhere


@pytest.fixture(scope="module", params=["sqlite", *elsewhere("postgres")])
def module_database(request):
    if request.param == "sqlite":
        yield ""
        return
    with request.getfixturevalue("postgres").fresh_database() as url:
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
