"""Fixtures of the contract: a small world, and the mark that names a row."""

import pytest

from tests.world import make_world


def pytest_configure(config):
    config.addinivalue_line("markers", "row(*names): the rows of the contract that a test keeps")


@pytest.fixture
async def embedded():
    """A world on the embedded database alone, for promises in which the database has no say."""
    async with make_world() as made:
        yield made
