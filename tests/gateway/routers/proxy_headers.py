"""Headers of the PROXY protocol, as proxies send them, and clients behind such a proxy."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from ipaddress import ip_address
from typing import Any

from tests.gateway.routers.issuing import issuing_authority
from tests.gateway.routers.town import SHOP, Caller

TEXT = b"PROXY TCP4 203.0.113.7 192.0.2.1 50000 443\r\n"
_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def binary(
    address: str = "", *, command: int = 0x21, family: int = 0x11, addresses: bytes = b"", more: bytes = b""
) -> bytes:
    """Returns a header of version 2, for a client with this address."""
    if address:
        packed = ip_address(address).packed
        family, addresses = (0x11 if len(packed) == 4 else 0x21), packed + packed + bytes(4)
    size = len(addresses) + len(more)
    return _SIGNATURE + bytes((command, family)) + size.to_bytes(2) + addresses + more


@contextlib.asynccontextmanager
async def caller_behind(port: int, header: bytes, *, secure: bool) -> AsyncIterator[Caller]:
    """A client whose proxy passes its bytes on, and sends this header before them."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(header)
    connection.setblocking(False)
    options: dict[str, Any] = {"ssl": issuing_authority().client(), "server_hostname": SHOP} if secure else {}
    caller = Caller(*await asyncio.open_connection(sock=connection, **options))
    try:
        yield caller
    finally:
        await caller.close()
