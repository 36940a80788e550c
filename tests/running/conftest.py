"""Worlds with settings of their own."""

import importlib
from functools import partial

import pytest

from tests.world import make_world
from windlass.control.deploying import retry_later


@pytest.fixture
def make_world_with(database_url):
    return partial(make_world, database_url)


@pytest.fixture
def postgres_url(postgres):
    """A database that several servers can share."""
    with postgres.fresh_database() as url:
        yield url


@pytest.fixture
def short_hold(monkeypatch):
    """A step that can only wait gives its slot back at once, and not after seconds."""
    outcome = importlib.import_module("windlass.control.deploying.steps.outcome")
    for module in (retry_later, outcome):
        monkeypatch.setattr(module, "SLOT_SECONDS", 0.01)
