"""Databases to restore into."""

import pytest


@pytest.fixture
def postgres_url(postgres):
    with postgres.fresh_database() as url:
        yield url


@pytest.fixture(params=["into sqlite", "into postgres"])
def other_database(request):
    return request.getfixturevalue("postgres_url") if request.param == "into postgres" else ""
