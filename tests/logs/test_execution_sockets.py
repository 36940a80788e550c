"""Commands over websockets of a server: large messages, and clients or commands that do not read."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from tests.running.deployments import deployed
from tests.turns import counted_turns
from tests.world import ADMIN
from windlass.base.errors import Unavailable
from windlass.core.words.events import Event
from windlass.serve import websocket

HEADERS = {"Authorization": f"Token {ADMIN}"}
PINGS = 30_000


@pytest.fixture
async def app(world):
    return await deployed(world)


async def test_a_command_receives_more_input_than_the_flood_limit_of_log_websockets(world, app, address):
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{address}/application/{app}/exec", headers=HEADERS) as socket,
    ):
        execution = world.engine.executions[-1]
        sent = b"x" * 60_000
        for _ in range(10):
            await socket.send_bytes(sent)
        async with asyncio.timeout(20):
            while len(execution.input) < 10 * len(sent):
                execution.taken.clear()
                await execution.taken.wait()
        execution.ends(0)
        assert await socket.receive_json(timeout=20) == {"exit_code": 0}


async def test_a_message_that_is_too_large_ends_the_websocket_and_the_command(world, app, address):
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{address}/application/{app}/exec", headers=HEADERS) as socket,
    ):
        await socket.send_bytes(b"x" * 70_000)
        message = await socket.receive(timeout=20)
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1009)
    async with asyncio.timeout(20):
        await world.engine.executions[-1].closed.wait()


@pytest.mark.parametrize("is_written", [False, True], ids=["database outage", "database available"])
async def test_a_client_learns_the_exit_code_also_while_the_database_is_away(
    world, app, address, monkeypatch, is_written
):
    store = world.installation.ctx.store

    async def away(*_: object, **__: object) -> None:
        raise Unavailable("the database is away")

    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{address}/application/{app}/exec", headers=HEADERS) as socket,
    ):
        if not is_written:
            monkeypatch.setattr(store, "write", away)
        world.engine.executions[-1].ends(3)
        assert await socket.receive_json(timeout=20) == {"exit_code": 3}
    monkeypatch.undo()
    kinds = [event.kind for event in await store.reads.events.after(world.org)]
    assert (Event.COMMAND_ENDED in kinds) is is_written


async def test_output_of_a_command_is_not_read_while_the_client_does_not_read(world, app, address):
    reader, writer = await asyncio.open_connection(*address.removeprefix("http://").split(":"))
    try:
        lines = [
            f"GET /application/{app}/exec HTTP/1.1",
            "host: x",
            "connection: Upgrade",
            "upgrade: websocket",
        ]
        lines += ["sec-websocket-version: 13", "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA=="]
        lines += [f"authorization: Token {ADMIN}", "", ""]
        writer.write("\r\n".join(lines).encode())
        assert b" 101 " in await reader.readline()
        execution = world.engine.executions[-1]
        pieces = 1000
        for _ in range(pieces):
            execution.says(b"x" * 32_768)
        waiting = execution.waiting
        while waiting() == pieces:  # noqa: ASYNC110 (nothing notifies of a read)
            await asyncio.sleep(0)
        for _ in range(10 * pieces):  # turns enough to take all of it
            await asyncio.sleep(0)
        assert waiting() > 0
    finally:
        writer.close()


@pytest.mark.parametrize("seconds", [0.001, 60.0], ids=["yielding", "without yielding"])
async def test_answering_many_pings_yields_to_other_clients(world, app, address, monkeypatch, seconds):
    monkeypatch.setattr(websocket, "_AT_ONCE", seconds)
    answer_ping = websocket.WebSocket.handle_ping
    all_answered = asyncio.Event()

    def counting(socket, event):
        counts.add(1)
        if counts.total == PINGS:
            all_answered.set()
        answer_ping(socket, event)

    monkeypatch.setattr(websocket.WebSocket, "handle_ping", counting)
    reader, writer = await asyncio.open_connection(*address.removeprefix("http://").split(":"))
    lines = (
        f"GET /application/{app}/exec HTTP/1.1",
        "Host: x",
        f"Authorization: Token {ADMIN}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
    )
    writer.write("\r\n".join((*lines, "", "")).encode())
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
    async with counted_turns() as counts:
        writer.write(b"\x89\x80abcd" * PINGS)
        await all_answered.wait()
    writer.transport.abort()
    assert counts.most > 5000 if seconds > 1 else counts.most < 2500
