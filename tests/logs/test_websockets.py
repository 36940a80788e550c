"""Logs over WebSockets: their lines, and who may read them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import uuid
from typing import Any

import aiohttp
import pytest

from tests.logs.sockets import logs
from tests.logs.streams import say
from tests.websockets import connected
from tests.world import ADMIN, NOON, World
from windlass.api.sockets import follow
from windlass.api.streaming import Streams
from windlass.base.segments import Gone


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
async def test_a_log_websocket_sends_the_last_thousand_lines_and_then_new_ones(
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


async def test_a_websocket_announces_that_log_lines_are_missing(world):
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


async def test_the_websocket_handshake_follows_the_standard_and_has_rate_limit_headers(address, app):
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


async def test_a_limited_token_can_follow_logs_only_inside_its_limits(world, address, app):
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
async def test_the_log_websocket_requires_the_id_of_the_service(address, path):
    status, message = await refused(address, path)
    assert status == 400
    assert message.startswith("service: ")


async def test_other_paths_do_not_accept_websockets(address, app):
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
async def test_a_plain_request_is_answered_with_how_to_open_a_websocket(address, app, wrong):
    async with connected(address, logs(app), **wrong) as client:
        assert client.answer.status == 426
        assert client.answer.headers["upgrade"] == "websocket"
        assert client.answer.headers["sec-websocket-version"] == "13"
        assert "/application/{app_id}/log" in client.answer.message


async def test_a_websocket_counts_as_one_request(world, address, app):
    token = f"Token {await world.new_token('Read', rate_limit=2)}"
    async with connected(address, logs(app), authorization=token) as client:
        assert client.answer.headers["x-ratelimit-remaining"] == "1"
        say(world, app, *map(str, range(100)))
        for _ in range(100):
            await client.frame()
    async with connected(address, logs(app), authorization=token) as client:
        assert client.answer.headers["x-ratelimit-remaining"] == "0"
    assert (await refused(address, logs(app), authorization=token))[0] == 429
