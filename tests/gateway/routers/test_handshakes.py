"""Limits on TLS handshakes: clients that are slow, silent or many."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from tests.gateway.routers.secure_town import (
    HANDSHAKE_FAILURE,
    UNRECOGNIZED_NAME,
    alert,
    ask_securely,
    hello_of,
    https_port,
    make_secure_town,
    raw_caller,
    reset,
    said_to,
    secure_caller,
)
from tests.gateway.routers.test_client_hello import hello_with, key_share, server_name
from tests.gateway.routers.town import SHOP, Town, request, until
from windlass.base.http_in.bounds import Bounds
from windlass.routers.builtin import https_port as module
from windlass.routers.builtin.client_hello import ClientHello, read_hello


def greetings(town: Town) -> int:
    return len(town.router._https.greetings.members)  # type: ignore[union-attr]


async def test_a_hello_that_arrives_in_pieces_is_read() -> None:
    async with make_secure_town() as town:
        data = hello_of("unknown.example.com")
        async with raw_caller(https_port(town)) as caller:
            for at in range(0, len(data), 40):
                await caller.send(data[at : at + 40])
                await asyncio.sleep(0.002)
            assert await caller.rest() == alert(UNRECOGNIZED_NAME)
        data = hello_of(SHOP)
        async with raw_caller(https_port(town)) as caller:
            for at in range(0, len(data), 40):
                await caller.send(data[at : at + 40])
                await asyncio.sleep(0.002)
            assert (await caller.reader.readexactly(1)) == b"\x16", "the handshake goes on"


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the messages that were looked at."""
    sizes: list[int] = []

    def counted(data: bytes) -> ClientHello:
        sizes.append(len(data))
        return read_hello(data)

    monkeypatch.setattr(module, "read_hello", counted)
    return sizes


async def test_waiting_for_the_rest_of_a_hello_costs_nothing(looks: list[int]) -> None:
    """The socket is readable all the time, but wakes the loop only when enough bytes are there."""
    async with make_secure_town() as town, raw_caller(https_port(town)) as caller:
        await caller.send(hello_of(SHOP)[:100])
        await until(lambda: looks)
        await asyncio.sleep(0.2)
        assert len(looks) < 10


async def test_a_client_that_ends_its_hello_early_does_not_busy_the_loop(looks: list[int]) -> None:
    async with make_secure_town(handshake_seconds=0.5) as town:
        async with raw_caller(https_port(town)) as caller:
            await caller.send(hello_of(SHOP)[:100])
            caller.out.write_eof()
            assert await caller.rest() == b""
        assert len(looks) < 50
        assert not greetings(town)


@pytest.mark.parametrize("sent", [0, 3, 100, 10_000])
async def test_a_client_has_a_time_limit_for_its_handshake(sent: int) -> None:
    """Silent, or after a part of its first message, or after all of it."""
    async with make_secure_town(handshake_seconds=0.2) as town:
        await town.shop(await town.instance())
        async with raw_caller(https_port(town)) as caller:
            await caller.send(hello_of(SHOP)[:sent])
            await caller.rest()
        await until(lambda: not greetings(town) and not town.router.connections)
        town.router._shared.bounds = Bounds()  # a busy machine needs longer than 0.2 seconds
        assert (await ask_securely(https_port(town), request())).body == b"one"


async def test_without_the_time_limit_a_silent_client_stays() -> None:
    """The negative control of the test above."""
    async with make_secure_town(handshake_seconds=100) as town, raw_caller(https_port(town)) as caller:
        await caller.send(hello_of(SHOP)[:100])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await caller.rest()
        assert greetings(town) == 1


async def test_silent_clients_give_way_to_others() -> None:
    async with make_secure_town(handshakes=10, handshake_seconds=100) as town:
        await town.shop(await town.instance())
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(30):
                await stack.enter_async_context(raw_caller(https_port(town)))
            await until(lambda: greetings(town))
            for _ in range(5):
                assert (await ask_securely(https_port(town), request())).body == b"one"
            assert greetings(town) <= 5, "an address may have half of them"


async def test_connections_whose_handshake_is_complete_do_not_count_as_handshakes() -> None:
    async with make_secure_town(handshakes=4) as town:
        await town.shop(await town.instance())
        async with contextlib.AsyncExitStack() as stack:
            callers = [await stack.enter_async_context(secure_caller(https_port(town))) for _ in range(12)]
            for caller in callers:
                assert (await caller.ask(request())).body == b"one"
            assert town.router.connections == 12
            assert not greetings(town)


async def test_the_limit_of_connections_holds_for_https_too() -> None:
    async with make_secure_town(connections=8) as town:
        await town.shop(await town.instance())
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(12):
                await stack.enter_async_context(secure_caller(https_port(town)))
            assert (await ask_securely(https_port(town), request())).body == b"one"
            assert town.router.connections <= 4


async def test_a_costly_key_exchange_is_refused() -> None:
    async with make_secure_town() as town:
        data = hello_with(server_name(SHOP.encode()), key_share(0x0104))
        assert await said_to(https_port(town), data) == alert(HANDSHAKE_FAILURE)


async def test_handshakes_that_fail_or_break_off_leave_nothing() -> None:
    async with make_secure_town(handshake_seconds=2) as town:
        await town.shop(await town.instance())
        port = https_port(town)
        hello = hello_of(SHOP)
        await said_to(port, hello + b"\x16\x03\x03\x00\x04junk")
        await said_to(port, hello_with(server_name(SHOP.encode())))
        for data in (b"", hello[:50], hello, hello + b"x" * 100):
            connection = socket.create_connection(("127.0.0.1", port))
            connection.sendall(data)
            await asyncio.sleep(0.02)
            reset(connection)
        await until(lambda: not greetings(town) and not town.router.connections)
        assert (
            not town.router._shared.loop._readers if hasattr(town.router._shared.loop, "_readers") else True
        )
        assert (await ask_securely(port, request())).body == b"one"


async def test_requests_go_on_during_a_flood_of_handshakes() -> None:
    async with make_secure_town() as town:
        await town.shop(await town.instance())
        async with secure_caller(https_port(town)) as kept:
            flood = [asyncio.create_task(said_to(https_port(town), hello_of(SHOP))) for _ in range(100)]
            for _ in range(20):
                assert (await kept.ask(request())).body == b"one"
            for task in flood:
                task.cancel()
            await asyncio.gather(*flood, return_exceptions=True)
        await until(lambda: not greetings(town))
