"""Fixtures of the store: a place on either database, and a store in it."""

import asyncio
import itertools

import pytest

from tests.marks import slow
from tests.postgres import chosen_database
from tests.store.stores import Place, execute
from tests.world import HandClock, make_world

_numbers = itertools.count()


@pytest.fixture(params=["sqlite", *slow("postgres")])
def database_url(request):
    """The store has code of its own for each database."""
    with chosen_database(request) as url:
        yield url


@pytest.fixture
def place(database_url, tmp_path):
    return Place(database_url, tmp_path)


@pytest.fixture
def embedded(tmp_path):
    return Place("", tmp_path)


@pytest.fixture
def served(postgres, tmp_path):
    with postgres.fresh_database() as url:
        yield Place(url, tmp_path)


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
async def store(place, clock):
    async with place.opened(clock) as opened:
        yield opened


@pytest.fixture
async def world(place, clock):
    """A whole Windlass at that place."""
    async with make_world(place.url, folder=place.folder, clock=clock) as made:
        yield made


@pytest.fixture
def empty_database(postgres):
    """A PostgreSQL database without a table."""
    name = f"windlass_empty_{next(_numbers)}"
    asyncio.run(execute(postgres.url("postgres"), f"CREATE DATABASE {name}"))
    yield postgres.url(name)
    asyncio.run(execute(postgres.url("postgres"), f"DROP DATABASE {name} WITH (FORCE)"))
