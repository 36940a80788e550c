"""A town of services with variables."""

from __future__ import annotations

import pytest

from tests.variables.town import Town, settled
from tests.world import World


@pytest.fixture
async def town(world: World) -> Town:
    return await settled(world)
