"""A gateway in a process of its own for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.gateway.gateway_town import GatewayTown, make_gateway_town


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[GatewayTown]:
    async with make_gateway_town(tmp_path) as made:
        yield made
