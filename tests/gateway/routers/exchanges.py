"""Sizes, ports and requests that several tests of the router share."""

from __future__ import annotations

import asyncio

from tests.gateway.routers.town import SHOP, request
from windlass.routers.router import Endpoint

EMPTY_PORT = Endpoint("127.0.0.1", 1)
"""An address where no program listens."""
MUCH = 64 * 1024 * 1024
BOUND = 24 * 1024 * 1024
"""Bytes that the sockets of both sides may hold; the system decides."""


def upgrade(protocol):
    return request("/", "GET", SHOP, "Connection: keep-alive, Upgrade", f"Upgrade: {protocol}")


async def standstill(measure):
    """Returns when a number no longer grows."""
    last = -1
    while measure() != last or last <= 0:
        last = measure()
        await asyncio.sleep(0.1)
