"""WebSockets end with their token, their client, their service and the server."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.logs.sockets import logs
from tests.logs.streams import following, make_application, say, settled
from tests.schemathesis.serving import served
from tests.websockets import CLOSE, PING, PONG, TEXT, connected, frame
from tests.world import ADMIN
from windlass.api.streaming import Streams

BINARY, CONTINUED = 2, 0


# How it ends


async def test_a_log_websocket_closes_when_its_token_is_revoked(world, address, app):
    token = await world.new_token("Read")
    [known] = (await world.get(f"/organization/{world.org}/apiToken"))["results"]
    async with connected(address, logs(app), authorization=f"Token {token}") as client:
        say(world, app, "before")
        assert (await client.frame()).json["message"] == "before"
        await world.delete(f"/organization/{world.org}/apiToken/{known['id']}")
        say(world, app, "after")
        closed = await client.frame()
        assert (closed.kind, closed.code) == (CLOSE, 1008)


@pytest.mark.parametrize(
    ("ask", "ends"), [(0.05, True), (1000.0, False)], ids=["token checked soon", "token checked late"]
)
async def test_a_quiet_websocket_ends_soon_after_its_token_is_revoked(world, app, ask, ends):
    world.installation.app._streams = Streams(quiet=1000.0, ping_interval=ask)
    token = await world.new_token("Read")
    [known] = (await world.get(f"/organization/{world.org}/apiToken"))["results"]
    async with (
        served(world) as address,
        connected(address, logs(app), authorization=f"Token {token}") as client,
    ):
        await settled(lambda: following(world) == 1)
        await world.delete(f"/organization/{world.org}/apiToken/{known['id']}")
        heard = asyncio.ensure_future(client.frame())
        await asyncio.wait([heard], timeout=20 if ends else 0.5)
        assert heard.done() is ends
        if ends:
            closed = heard.result()
            assert (closed.kind, closed.code) == (CLOSE, 1008)
        heard.cancel()


async def test_a_client_that_floods_its_websocket_with_pings_is_disconnected(world, app, address):
    async with connected(address, logs(app)) as client:
        for _ in range(200):
            client.send(PING, b"x" * 100)
        frames = [await client.frame()]
        while frames[-1].kind != CLOSE:
            frames.append(await client.frame())
        assert frames[-1].code == 1008
    await settled(lambda: following(world) == 0)


@pytest.mark.parametrize("tty", ["false", "true"])
async def test_a_message_to_a_command_has_64_kib_at_most(world, app, address, tty):
    assert (await world.post(f"/application/{app}/deploy")).status == 202
    await world.settle()
    half, rest = b"x" * 32_768, b"x" * 32_769
    async with connected(address, f"/application/{app}/exec?tty={tty}") as client:
        client.send(BINARY, half, final=False)
        client.send(CONTINUED, half)
        execution = world.engine.executions[-1]
        await settled(lambda: len(execution.input) == 65_536)
        client.send(BINARY, half, final=False)
        client.send(CONTINUED, rest)
        closed = await client.frame()
        assert (closed.kind, closed.code) == (CLOSE, 1009)
        assert b"maximum size (65536 bytes)" in closed.data


async def test_websocket_data_sent_before_the_handshake_is_answered_is_refused(world, app, address):
    async with connected(address, logs(app)) as client:
        assert client.answer.status == 101  # the control
    place = urlsplit(address)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    head = [
        f"GET {logs(app)} HTTP/1.1",
        "Host: x",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {base64.b64encode(bytes(16)).decode()}",
        f"Authorization: Token {ADMIN}",
    ]
    writer.write("\r\n".join([*head, "", ""]).encode() + frame(PING) * 1000)
    assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    writer.close()


async def test_the_log_websocket_of_a_deleted_service_is_closed(world, address, app):
    async with connected(address, logs(app)) as client:
        await settled(lambda: following(world) == 1)
        world.installation.ctx.logs.forget(app)
        closed = await client.frame()
        assert (closed.kind, closed.code) == (CLOSE, 1000)
        client.send(CLOSE, closed.data)
        assert await client.ended()


async def test_the_log_reader_of_a_websocket_ends_when_the_client_disconnects(world, address, app):
    async with connected(address, logs(app)) as polite, connected(address, logs(app)):
        await settled(lambda: following(world) == 2)
        assert b"\nwindlass_streams 2.0\n" in (await world.get("/metrics")).body
        polite.send(CLOSE, (1000).to_bytes(2, "big"))
        assert (await polite.frame()).code == 1000
        assert await polite.ended()
        await settled(lambda: following(world) == 1)
    await settled(lambda: following(world) == 0)
    metrics = (await world.get("/metrics")).body.decode()
    assert 'windlass_requests_total{operation="followServiceLogs",status="101"} 2.0' in metrics


def test_a_stopping_server_closes_its_websockets_and_exits(tmp_path: Path):
    """As everybody runs it: with a signal, while one client listens and another does not even answer."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    with subprocess.Popen(
        [sys.executable, "-m", "windlass", "serve", "--port", "0", "--data-dir", str(tmp_path)],
        env=environment
        | {"WINDLASS_ADMIN_TOKEN": ADMIN, "WINDLASS_GATEWAY_PORT": "0", "WINDLASS_ENGINE": "process"},
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stderr
            address = next(line for line in server.stderr if "listens on" in line).split("listens on ")[1]
            asyncio.run(_stopped(server, address.split()[0]))
        finally:
            server.kill()


async def _stopped(server: subprocess.Popen[str], address: str) -> None:
    app = await asyncio.to_thread(make_application, address)
    async with connected(address, logs(app)) as listening, connected(address, logs(app)):
        assert listening.answer.status == 101
        server.send_signal(signal.SIGTERM)
        closed = await listening.frame()
        assert (closed.kind, closed.code) == (CLOSE, 1012)
        assert closed.data[2:] == b"This server is stopping: connect again"
        assert await asyncio.to_thread(server.wait, 5) == 0


# What clients say


async def test_a_ping_is_answered_and_other_messages_on_a_log_websocket_are_ignored(world, address, app):
    async with connected(address, logs(app)) as client:
        for kind in (TEXT, BINARY):
            client.send(kind, b"hello" * 100)
        client.send(TEXT, b"in ", final=False)
        client.send(PING, b"between")
        client.send(CONTINUED, b"parts")
        client.send(PONG, b"nobody asked")
        answered = await client.frame()
        assert (answered.kind, answered.data) == (PONG, b"between")
        say(world, app, "still here")
        assert (await client.frame()).json["message"] == "still here"


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (frame(TEXT, b"hello", masked=False), 1002),
        (frame(3, b"what is this"), 1002),
        (frame(PING, b"x" * 126), 1002),
        (frame(PING, final=False), 1002),
        (bytes([0xC1, 0x80, 0, 0, 0, 0]), 1002),  # compressed, which was not agreed upon
        (frame(TEXT, b"\xff\xfe"), 1007),
        (frame(TEXT, b"x" * 5000), 1009),
        (frame(CLOSE, b"\x00"), 1002),
    ],
    ids=[
        "bare",
        "unknown",
        "long ping",
        "ping in parts",
        "compressed",
        "no text",
        "too long",
        "half a close",
    ],
)
async def test_a_protocol_error_closes_the_websocket(world, address, app, said, code):
    async with connected(address, logs(app)) as client:
        client.writer.write(said)
        closed = await client.frame()
        assert (closed.kind, closed.code) == (CLOSE, code)
        assert await client.ended()
    await settled(lambda: following(world) == 0)


async def test_a_client_without_pongs_is_disconnected(world, app):
    quickly = {"ws_ping_interval": 0.05, "ws_ping_timeout": 0.2}
    async with (
        served(world, protocol=quickly) as address,
        connected(address, logs(app)) as silent,
        connected(address, logs(app)) as lively,
    ):
        assert (await silent.frame()).kind == PING
        await settled(lambda: following(world) == 2)
        while following(world) == 2:
            lively.send(PONG, (await lively.frame()).data)
        say(world, app, "who is still here?")
        while (heard := await lively.frame()).kind == PING:
            lively.send(PONG, heard.data)
        assert heard.json["message"] == "who is still here?"


async def test_a_client_that_never_reads_is_disconnected(address, app):
    """Or else the answers would pile up here."""
    said = frame(PING, b"x" * 120) * 500
    async with connected(address, logs(app)) as client:
        line = client.writer.get_extra_info("socket")
        sent = 0
        with contextlib.suppress(TimeoutError, OSError):
            while sent < 64 * 1024 * 1024:
                sent += await asyncio.wait_for(_sent(line, said), 1)
        assert sent < 32 * 1024 * 1024


async def _sent(line: Any, data: bytes) -> int:
    copy = socket.socket(fileno=os.dup(line.fileno()))
    try:
        await asyncio.get_running_loop().sock_sendall(copy, data)
    finally:
        copy.close()
    return len(data)
