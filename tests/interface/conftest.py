"""A small world."""

import pytest

from tests.world import make_world


@pytest.fixture
async def embedded():
    """A world on the embedded database alone."""
    async with make_world() as made:
        yield made
