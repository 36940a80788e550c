"""Worlds with settings of their own."""

from functools import partial

import pytest

from tests.world import make_world


@pytest.fixture
def make_world_with(database_url):
    return partial(make_world, database_url)
