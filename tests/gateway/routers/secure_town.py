"""A town with an HTTPS port, clients that speak TLS, and what refused clients see."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Sequence
from typing import Any

from tests.free_ports import free_port
from tests.gateway.routers.issuing import issue, issuing_authority
from tests.gateway.routers.town import SHOP, Caller, Said, Town, make_town

UNRECOGNIZED_NAME, NO_APPLICATION_PROTOCOL, HANDSHAKE_FAILURE, DECODE_ERROR = 112, 120, 40, 50


@contextlib.asynccontextmanager
async def make_secure_town(**options: Any) -> AsyncIterator[Town]:
    """The shop has a certificate."""
    async with make_town(https_port=free_port(), **options) as town:
        await town.router.put_certificate("shop", issue(SHOP))
        yield town


def https_port(town: Town) -> int:
    return town.router._shared.https_port


@contextlib.asynccontextmanager
async def secure_caller(
    port: int, name: str = SHOP, context: ssl.SSLContext | None = None
) -> AsyncIterator[Caller]:
    context = context or issuing_authority().client()
    caller = Caller(*await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name))
    try:
        yield caller
    finally:
        await caller.close()


async def ask_securely(port: int, data: bytes, name: str = SHOP) -> Said:
    async with secure_caller(port, name) as caller:
        return await caller.ask(data)


def hello_of(name: str, protocols: Sequence[str] = ("http/1.1",)) -> bytes:
    """The first bytes of a client."""
    context = issuing_authority().client(protocols)
    sent = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=name or None) if name else None
    if client is None:
        context.check_hostname = False
        client = context.wrap_bio(ssl.MemoryBIO(), sent)
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return sent.read()


async def said_to(port: int, data: bytes) -> bytes:
    """All that is answered to these bytes until the other side closes the connection."""
    async with raw_caller(port) as caller:
        await caller.send(data)
        return await caller.rest()


@contextlib.asynccontextmanager
async def raw_caller(port: int) -> AsyncIterator[Caller]:
    caller = Caller(*await asyncio.open_connection("127.0.0.1", port))
    try:
        yield caller
    finally:
        await caller.close()


def alert(description: int) -> bytes:
    return bytes((21, 3, 3, 0, 2, 2, description))


def reset(connection: socket.socket) -> None:
    """Closes a connection with a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
