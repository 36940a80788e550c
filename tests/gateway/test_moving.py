"""The door of a gateway moves when the settings of its server change."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from tests.gateway.gateway_town import GatewayTown, body
from tests.gateway.routers.town import request
from windlass.gateway.router import GatewayRouter
from windlass.routers.router import Listen, RouteError


@contextlib.asynccontextmanager
async def server(town: GatewayTown, host: str, port: int) -> AsyncIterator[GatewayRouter]:
    """The next server, with other settings."""
    await town.router.stop()
    async with town.second_server(host, port) as router:
        yield router


async def shop(town: GatewayTown, port: int) -> None:
    await town.router.reserve("shop", [Listen(port)])
    await town.shop(await town.instance("one"), external=port)


@pytest.mark.parametrize("host", ["0.0.0.0", "localhost"])
async def test_the_listen_address_of_a_gateway_changes_while_services_run(
    town: GatewayTown, free_port: int, host: str
):
    await shop(town, free_port)
    port = town.router.port
    async with server(town, host, port):
        assert [await body(port), await body(free_port)] == [b"one", b"one"]


async def test_the_listen_port_of_a_gateway_changes_while_services_run(town: GatewayTown, free_port: int):
    await shop(town, free_port)
    former = town.router.port
    async with server(town, "127.0.0.1", 0) as router:
        assert router.port == former
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        other = free.getsockname()[1]
    async with server(town, "127.0.0.1", other):
        assert [await body(other), await body(free_port)] == [b"one", b"one"]
        with pytest.raises(ConnectionError):
            await body(former)


async def test_a_gateway_that_cannot_bind_the_new_address_keeps_the_old_one(
    town: GatewayTown, free_port: int
):
    await shop(town, free_port)
    port = town.router.port
    with pytest.raises(RouteError, match="is no address of this machine"):
        async with server(town, "203.0.113.9", port):
            pass
    assert [await body(port), await body(free_port)] == [b"one", b"one"]


async def test_a_gateway_that_cannot_move_to_a_port_keeps_its_connections(town: GatewayTown):
    await town.shop(await town.instance("one"))
    caller, port = await town.caller(), town.router.port
    await caller.ask(request())
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(RouteError, match="is in use by another program"):
            async with server(town, "127.0.0.1", taken.getsockname()[1]):
                pass
    assert (await caller.ask(request())).body == b"one"
    assert await body(port) == b"one"
