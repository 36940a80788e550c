"""Logs over HTTP, as streams of events."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.logs.streams import FOLLOW, asked, following, make_application, say, settled
from tests.schemathesis.serving import served
from tests.world import ADMIN, NOON, World


async def test_a_log_stream_begins_with_the_last_lines_and_continues_with_new_ones(
    world: World, app: str, address: str
):
    say(world, app, *(f"line {number}" for number in range(10)))
    async with asked(address, f"/application/{app}{FOLLOW}&tail=3") as client:
        assert client.status == 200
        assert client.headers["content-type"] == "text/event-stream"
        assert client.headers["cache-control"] == "no-store"
        assert client.headers["transfer-encoding"] == "chunked"
        assert {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "x-request-id"} <= (
            client.headers.keys()
        )
        first = await client.events(3)
        assert [event.data["message"] for event in first] == ["line 7", "line 8", "line 9"]
        assert all(event.id == event.data["id"] and event.kind == "" for event in first)
        for number in range(10, 200):
            say(world, app, f"line {number}", 'with "quotes"\nand lines')
        expected = [
            line for number in range(10, 200) for line in (f"line {number}", 'with "quotes"\nand lines')
        ]
        assert await client.lines(len(expected)) == expected


async def test_a_log_stream_with_a_search_sends_only_matching_lines(world: World, app: str, address: str):
    say(world, app, "an error", "all good")
    async with asked(address, f"/application/{app}{FOLLOW}&search=error&since={NOON}") as client:
        assert await client.lines(1) == ["an error"]
        say(world, app, "an older error", at=NOON - 1)
        say(world, app, "still good", "another error")
        assert await client.lines(1) == ["another error"]


async def test_a_log_stream_resumes_after_the_last_event_id(world: World, app: str, address: str):
    path = f"/application/{app}{FOLLOW}&tail=1"
    say(world, app, "one", "two", "three")
    async with asked(address, f"{path}0") as client:
        events = await client.events(3)
    say(world, app, "four")
    async with asked(address, path, last_event_id=events[1].id) as client:
        assert await client.lines(2) == ["three", "four"]
    async with asked(address, path, last_event_id="what is this") as client:
        gone, last = await client.events(2)
        assert gone.kind == "gone"
        assert "no longer kept" in gone.data["message"]
        assert last.data["message"] == "four"


async def test_an_idle_stream_sends_comments(world: World, app: str, address: str):
    world.installation.app._streams._ask = world.installation.app._streams._quiet = 0.01
    async with asked(address, f"/application/{app}{FOLLOW}") as client:
        reading = asyncio.create_task(client.lines(1))
        await settled(lambda: client.comments >= 3)
        say(world, app, "and on")
        assert await reading == ["and on"]


async def test_the_response_headers_of_a_log_stream_are_sent_before_the_first_line(
    world: World, app: str, address: str
):
    world.installation.app._streams._quiet = 3600
    async with asked(address, f"/application/{app}{FOLLOW}") as client:
        assert client.status == 200


async def test_a_stream_ends_when_its_reader_disconnects(world: World, app: str, address: str):
    async with asked(address, f"/application/{app}{FOLLOW}") as client:
        await settled(lambda: following(world) == 1)
        assert b"\nwindlass_streams 1.0\n" in (await world.get("/metrics")).body
        client.hang_up()
        await settled(lambda: following(world) == 0)
    assert b"\nwindlass_streams 0.0\n" in (await world.get("/metrics")).body
    metrics = (await world.get("/metrics")).body.decode()
    assert 'windlass_requests_total{operation="getApplicationLog",status="200"} 1.0' in metrics


async def test_a_head_request_for_a_stream_gets_no_stream(world: World, app: str, address: str):
    async with asked(address, f"/application/{app}{FOLLOW}", "HEAD", connection="close") as client:
        assert client.status == 200
        assert client.headers["content-type"] == "text/event-stream"
        assert await client.rest_of_body() == b""
    assert following(world) == 0


async def test_a_log_stream_ends_when_its_token_is_revoked(world: World, app: str, address: str):
    token = await world.new_token("Read")
    tokens = (await world.get(f"/organization/{world.org}/apiToken"))["results"]
    path = f"/application/{app}{FOLLOW}"
    async with asked(address, path, token=token) as client, asked(address, path) as other:
        say(world, app, "before")
        assert await client.lines(1) == await other.lines(1) == ["before"]
        await world.delete(f"/organization/{world.org}/apiToken/{tokens[-1]['id']}")
        say(world, app, "after")
        assert [event.kind for event in await client.rest()] == ["refused"]
        assert client.ended
        assert await other.lines(1) == ["after"]


async def test_the_log_stream_of_a_deleted_service_ends(world: World, app: str, address: str):
    async with asked(address, f"/application/{app}{FOLLOW}") as client:
        say(world, app, "last words")
        assert await client.lines(1) == ["last words"]
        world.installation.ctx.logs.forget(app)
        assert [event.kind for event in await client.rest()] == ["end"]
        assert client.ended


async def test_a_slow_client_of_a_log_stream_receives_all_lines(world: World, app: str, address: str):
    lines = [f"{number} ".ljust(1000, ".") for number in range(20_000)]
    async with asked(address, f"/application/{app}{FOLLOW}") as client:
        say(world, app, "first")
        assert await client.lines(1) == ["first"]
        for begin in range(0, len(lines), 1000):
            say(world, app, *lines[begin : begin + 1000])
            await asyncio.sleep(0.001)
        assert await client.lines(len(lines)) == lines


async def test_log_streams_end_cleanly_when_the_server_stops(world: World, app: str):
    say(world, app, "hello")
    async with served(world) as address, contextlib.AsyncExitStack() as stack:
        path = f"/application/{app}{FOLLOW}"
        clients = [await stack.enter_async_context(asked(address, path)) for _ in range(5)]
        for client in clients:
            assert await client.lines(1) == ["hello"]
        world.installation.app.stop_streams()
        for client in clients:
            assert await client.rest() == []
            assert client.ended
        async with asked(address, path) as late:
            await late.rest()
            assert late.ended


def test_a_server_stopped_by_a_signal_ends_its_streams_and_exits(tmp_path: Path):
    """As everybody runs it: with a signal, and a client that is in the middle of a stream."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WINDLASS_")}
    with subprocess.Popen(
        [sys.executable, "-m", "windlass", "serve", "--port", "0", "--data-dir", str(tmp_path)],
        env=environment | {"WINDLASS_ADMIN_TOKEN": ADMIN, "WINDLASS_GATEWAY_PORT": "0"},
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stderr
            address = next(line for line in server.stderr if "listens on" in line).split("listens on ")[1]
            ended = asyncio.run(_stopped(server, address.split()[0]))
        finally:
            server.kill()
    assert ended
    assert server.returncode == 0


async def _stopped(server: subprocess.Popen[str], address: str) -> bool:
    app = await asyncio.to_thread(make_application, address)
    async with asked(address, f"/application/{app}{FOLLOW}") as client:
        server.send_signal(signal.SIGTERM)
        await client.rest()
        assert await asyncio.to_thread(server.wait, 20) == 0
        return client.ended
