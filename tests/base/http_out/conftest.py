"""HTTP clients that may reach this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.base.http_out.failures import LOOPBACK
from windlass.base.http_out import HttpSender


@pytest.fixture
async def free() -> AsyncIterator[HttpSender]:
    """An HTTP client that may also call the machine itself."""
    made = HttpSender(LOOPBACK)
    yield made
    await made.close()
