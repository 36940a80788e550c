"""Worlds with settings of their own."""

import sys
from functools import partial

import pytest

from tests.world import make_world
from windlass.control.deploying import patience
from windlass.control.deploying.steps import run


@pytest.fixture
def make_world_with(database_url):
    return partial(make_world, database_url)


@pytest.fixture
def short_hold(monkeypatch):
    """A step that can only wait gives its slot back at once, and not after seconds."""
    monkeypatch.setattr(patience, "HOLD", 0.01)
    monkeypatch.setattr(sys.modules[run.__module__], "HOLD", 0.01)
