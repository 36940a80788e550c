"""The two public ports with the limits that a test chooses, and clients from any address of loopback."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

from msgspec import Struct

from tests.gateway.routers.town import SHOP, Caller, make_town, until
from tests.schemathesis.serving import served
from tests.world import make_world
from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.connections import ConnectionTable, trust_check
from windlass.serve.server import protocols

PORTS = ("api", "gateway")
ASK = f"GET /healthz HTTP/1.1\r\nHost: {SHOP}\r\n\r\n".encode()
LAST = f"GET /healthz HTTP/1.1\r\nHost: {SHOP}\r\nConnection: close\r\n\r\n".encode()


class Port(Struct):
    name: str
    number: int
    table: ConnectionTable
    stack: contextlib.AsyncExitStack

    async def caller(self, address: str = "127.0.0.1", room: int = 0) -> Caller:
        """A client with one connection from this address. `room` is how much it lets arrive unread."""
        made = socket.socket()
        if room:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        made.bind((address, 0))
        made.setblocking(False)
        await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", self.number))
        caller = Caller(*await asyncio.open_connection(sock=made, limit=room or 2**16))
        self.stack.push_async_callback(caller.close)
        return caller

    async def status(self, sent: bytes) -> int:
        return (await (await self.caller()).ask(sent)).status


@contextlib.asynccontextmanager
async def opened(name: str, *, trusts: tuple[str, ...] = (), **bounds: Any) -> AsyncIterator[Port]:
    make = _api if name == "api" else _gateway
    async with make(Bounds(**bounds), trusts) as (number, table), contextlib.AsyncExitStack() as stack:
        yield Port(name, number, table, stack)


@contextlib.asynccontextmanager
async def _api(bounds: Bounds, trusts: tuple[str, ...]) -> AsyncIterator[tuple[int, ConnectionTable]]:
    async with make_world(trusted_proxies=trusts) as world:
        protocol = protocols(world.installation, bounds)
        async with served(world, protocol=protocol) as address:
            yield int(address.rpartition(":")[2]), protocol["http"].keywords["port"].table


@contextlib.asynccontextmanager
async def _gateway(bounds: Bounds, trusts: tuple[str, ...]) -> AsyncIterator[tuple[int, ConnectionTable]]:
    async with make_town(bounds, trusts=trust_check(trusts)) as town:
        await town.shop(await town.instance())
        yield town.router.port, town.router._shared.connections


async def settled(true: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        await until(true)
