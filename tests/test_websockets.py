"""`/service/logs`: existing command lines follow the log of a service over a websocket."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import os
import signal
import socket
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import aiohttp
import pytest

from tests.schemathesis.serving import served
from tests.test_logs import _made, following, say, settled
from tests.websockets import CLOSE, PING, PONG, TEXT, connected, frame
from tests.world import ADMIN, NOON, World, make_world
from windlass.api.sockets import follow
from windlass.api.streaming import Streams
from windlass.base.segments import Gone

BINARY, CONTINUED = 2, 0


@pytest.fixture
async def world():
    """What the database has to say in this is said in the tests of streams."""
    async with make_world() as made:
        yield made


@pytest.fixture
async def app(world: World) -> str:
    return await world.application()


@pytest.fixture
async def address(world: World):
    async with served(world) as found:
        yield found


def logs(service: str, **others: str) -> str:
    return f"/service/logs?{urlencode({'service': service} | others)}"


async def place_of(world: World, app: str) -> dict[str, str]:
    """All that an existing command line says."""
    environment = (await world.get(f"/application/{app}"))["environment"]["id"]
    document = (await world.get(f"/environment/{environment}")).json
    return {
        "cluster": document["cluster_id"],
        "environment": environment,
        "organization": world.org,
        "project": document["project"]["id"],
    }


# What is said


@pytest.mark.parametrize("base", ["", "/api/v1", "/compat"])
@pytest.mark.parametrize("scheme", ["Token", "Bearer"])
async def test_existing_clients_get_the_last_thousand_lines_and_then_what_comes(
    world, app, address, base, scheme
):
    say(world, app, *(f"line {number}" for number in range(1500)))
    url = address + base + logs(app, **await place_of(world, app))
    headers = {"Authorization": f"{scheme} {ADMIN}"}
    async with aiohttp.ClientSession() as session, session.ws_connect(url, headers=headers) as socket:
        came = [await socket.receive_json(timeout=20) for _ in range(1000)]
        assert came[0] == {"created_at": NOON, "message": "line 500", "version": "7", "pod_name": "pod-1"}
        assert [line["message"] for line in came] == [f"line {number}" for number in range(500, 1500)]
        say(world, app, 'and "é"\nmore', at=NOON + 1)
        assert await socket.receive_json(timeout=20) == came[0] | {
            "created_at": NOON + 1,
            "message": 'and "é"\nmore',
        }


async def test_lines_that_are_missing_are_said_to_be_missing(world):
    async def lines():
        yield Gone()

    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def yes() -> bool:
        return True

    await follow(lines(), Streams(), world.clock, asyncio.Event().wait, send, yes)  # type: ignore[arg-type]
    assert "no longer kept" in sent[0]["text"]
    assert sent[1] == {"type": "websocket.close", "code": 1000, "reason": "Nothing more comes"}


# Who may


async def test_the_handshake_is_answered_as_the_standard_says_with_the_limits(address, app):
    async with connected(address, logs(app)) as client:
        assert client.answer.status == 101
        headers = client.answer.headers
        proof = hashlib.sha1(f"{client.key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()
        assert headers["sec-websocket-accept"] == base64.b64encode(proof).decode().lower()
        assert (headers["upgrade"].lower(), headers["connection"].lower()) == ("websocket", "upgrade")
        assert {
            "x-ratelimit-limit",
            "x-ratelimit-remaining",
            "x-ratelimit-reset",
            "x-request-id",
        } <= headers.keys()
        assert "sec-websocket-extensions" not in headers


async def refused(address: str, path: str, **headers: Any) -> tuple[int, str]:
    async with connected(address, path, **headers) as client:
        answer = client.answer
        assert answer["status"] == answer.status
        assert answer["detail"] == answer.message
        assert answer.headers["content-type"] == "application/json"
        assert {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"} <= answer.headers.keys()
        return answer.status, answer.message


async def test_a_websocket_needs_a_valid_token(address, app):
    assert (await refused(address, logs(app), authorization=None))[0] == 401
    assert (await refused(address, logs(app), authorization="Token wrong"))[0] == 401


async def test_a_service_of_another_organization_is_answered_like_a_missing_one(world, address, app):
    _, stranger = await world.organization()
    nothing = await refused(address, logs(str(uuid.uuid4())))
    assert nothing[0] == 404
    assert await refused(address, logs(app), authorization=f"Token {stranger}") == nothing


async def test_a_limited_token_hears_only_its_part(world, address, app):
    token = f"Token {await world.new_token('Read', limited_to=[app])}"
    async with connected(address, logs(app), authorization=token) as client:
        assert client.answer.status == 101
    assert (await refused(address, logs(await world.application()), authorization=token))[0] == 404


@pytest.mark.parametrize("name", ["cluster", "environment", "organization", "project"])
async def test_a_wrong_project_or_environment_is_refused(world, address, app, name):
    place = await place_of(world, app)
    async with connected(address, logs(app, **place)) as client:
        assert client.answer.status == 101
    assert (await refused(address, logs(app, **(place | {name: str(uuid.uuid4())}))))[0] == 404


async def test_a_database_has_a_log_too(world, address):
    database = await world.database()
    say(world, database, "ready to accept connections")
    async with connected(address, logs(database)) as client:
        assert (await client.frame()).json["message"] == "ready to accept connections"


@pytest.mark.parametrize("path", ["/service/logs", "/service/logs?service=", "/service/logs?service=web"])
async def test_a_service_has_to_be_named_by_its_id(address, path):
    status, message = await refused(address, path)
    assert status == 400
    assert message.startswith("service: ")


async def test_elsewhere_there_is_no_websocket(address, app):
    assert (await refused(address, "/organization"))[0] == 404
    assert (await refused(address, f"/application/{app}/log"))[0] == 404


@pytest.mark.parametrize(
    "wrong",
    [
        {"upgrade": None, "connection": None},
        {"sec_websocket_version": "8"},
        {"sec_websocket_version": None},
        {"sec_websocket_key": None},
        {"sec_websocket_key": "c2hvcnQ="},
        {"sec_websocket_key": "not base64 at all, but just as long as it"},
    ],
)
async def test_a_plain_request_is_told_how_to_open_a_websocket(address, app, wrong):
    async with connected(address, logs(app), **wrong) as client:
        assert client.answer.status == 426
        assert client.answer.headers["upgrade"] == "websocket"
        assert client.answer.headers["sec-websocket-version"] == "13"
        assert "/application/{app_id}/log" in client.answer.message


async def test_a_websocket_costs_one_request(world, address, app):
    token = f"Token {await world.new_token('Read', rate_limit=2)}"
    async with connected(address, logs(app), authorization=token) as client:
        assert client.answer.headers["x-ratelimit-remaining"] == "1"
        say(world, app, *map(str, range(100)))
        for _ in range(100):
            await client.frame()
    async with connected(address, logs(app), authorization=token) as client:
        assert client.answer.headers["x-ratelimit-remaining"] == "0"
    assert (await refused(address, logs(app), authorization=token))[0] == 429


# How it ends


async def test_a_token_that_is_revoked_hears_nothing_more(world, address, app):
    token = await world.new_token("Read")
    [known] = (await world.get(f"/organization/{world.org}/apiToken"))["results"]
    async with connected(address, logs(app), authorization=f"Token {token}") as client:
        say(world, app, "before")
        assert (await client.frame()).json["message"] == "before"
        await world.delete(f"/organization/{world.org}/apiToken/{known['id']}")
        say(world, app, "after")
        closed = await client.frame()
        assert (closed.kind, closed.code) == (CLOSE, 1008)


@pytest.mark.parametrize(("ask", "ends"), [(0.05, True), (1000.0, False)], ids=["asked", "the control"])
async def test_a_quiet_websocket_ends_soon_after_its_token_is_revoked(world, app, ask, ends):
    world.installation.app._streams = Streams(quiet=1000.0, ask=ask)
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


async def test_a_client_that_floods_its_websocket_is_closed(world, app, address):
    async with connected(address, logs(app)) as client:
        for _ in range(200):
            client.send(PING, b"x" * 100)
        frames = [await client.frame()]
        while frames[-1].kind != CLOSE:
            frames.append(await client.frame())
        assert frames[-1].code == 1008
    await settled(lambda: following(world) == 0)


async def test_bytes_before_a_websocket_is_open_are_refused(world, app, address):
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


async def test_the_log_of_what_is_deleted_comes_to_its_end(world, address, app):
    async with connected(address, logs(app)) as client:
        await settled(lambda: following(world) == 1)
        world.installation.ctx.logs.forget(app)
        closed = await client.frame()
        assert (closed.kind, closed.code) == (CLOSE, 1000)
        client.send(CLOSE, closed.data)
        assert await client.ended()


async def test_following_ends_when_the_client_leaves(world, address, app):
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


def test_a_server_that_is_told_to_stop_says_so_and_stops(tmp_path: Path):
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
    app = await asyncio.to_thread(_made, address)
    async with connected(address, logs(app)) as listening, connected(address, logs(app)):
        assert listening.answer.status == 101
        server.send_signal(signal.SIGTERM)
        closed = await listening.frame()
        assert (closed.kind, closed.code) == (CLOSE, 1012)
        assert await asyncio.to_thread(server.wait, 5) == 0


# What clients say


async def test_a_ping_is_answered_and_everything_else_is_ignored(world, address, app):
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
