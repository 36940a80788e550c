"""A town for each test, and an instance that accepts no connection."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.gateway.routers.town import make_town
from windlass.routers.router import Endpoint


@pytest.fixture
def deaf() -> Iterator[Endpoint]:
    """An instance that listens and accepts nothing: the kernel drops what exceeds its queue."""
    with socket.socket() as listening, socket.socket() as first, socket.socket() as second:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for connection in (first, second):
            connection.setblocking(False)
            connection.connect_ex(listening.getsockname())
        yield Endpoint("127.0.0.1", listening.getsockname()[1])


@pytest.fixture
async def town():
    async with make_town() as made:
        yield made
