"""HTTP clients that may reach this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.http_out.failures import LOOPBACK
from windlass.base.http_out import Outgoing


@pytest.fixture
async def free() -> AsyncIterator[Outgoing]:
    """Which may also call the machine itself."""
    made = Outgoing(LOOPBACK)
    yield made
    await made.close()
