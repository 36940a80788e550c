"""Logs over HTTP: the last lines, those that are searched for, and those that are still to come.

What a client sees of a stream is tried through a socket, with a client that reads the body piece by piece.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import pytest

from tests.schemathesis.serving import served
from tests.world import ADMIN, NOON, HandClock, World, make_world
from windlass.base.clock import DAY, stamp
from windlass.base.segments import line_filter
from windlass.control.context.log_store import Logs
from windlass.core.deploy.workload import OutputLine

FOLLOW = "/log?follow=true"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made:
        yield made


@pytest.fixture
async def app(world: World) -> str:
    return await world.application()


def say(world: World, service: str, *lines: str, at: int | None = None) -> None:
    """What a service prints arrives here."""
    now = world.clock.now() if at is None else at
    world.installation.ctx.logs.take(service, [OutputLine(now, line, "pod-1", "7") for line in lines])


def messages(answer: Any) -> list[str]:
    return [line["message"] for line in answer["results"]]


async def log(world: World, app: str, query: str = "") -> list[str]:
    answer = await world.get(f"/application/{app}/log?{query}")
    assert answer.status == 200, answer
    return messages(answer)


# Lists


async def test_a_line_has_its_instance_and_its_time(world: World, app: str):
    say(world, app, "hello")
    (line,) = (await world.get(f"/application/{app}/log"))["results"]
    assert line.pop("id")
    assert line == {"created_at": stamp(NOON), "message": "hello", "pod_name": "pod-1", "version": "7"}


async def test_without_a_number_a_thousand_lines_are_answered(world: World, app: str):
    say(world, app, *(f"line {number}" for number in range(1500)))
    assert await log(world, app) == [f"line {number}" for number in range(500, 1500)]
    assert await log(world, app, "tail=2") == ["line 1498", "line 1499"]


async def test_times_bound_the_lines_from_the_first_on_and_before_the_second(world: World, app: str):
    for number in range(10):
        say(world, app, f"line {number}", at=NOON + number)
    for since, until in ((3, 6), (0, 1), (5, 5), (9, 99)):
        wanted = [f"line {number}" for number in range(since, min(until, 10))]
        assert await log(world, app, f"since={NOON + since}&until={NOON + until}") == wanted
        stamps = f"since={stamp(NOON + since)}&until={quote(stamp(NOON + until))}"
        assert await log(world, app, stamps) == wanted
    assert await log(world, app, f"since={NOON + 4}&tail=2") == ["line 8", "line 9"]
    assert await log(world, app, "since=2027-01-01T00:00:00Z") == []
    assert await log(world, app, "until=99999999999999&tail=1&since=&search=") == ["line 9"]


async def test_a_search_is_for_a_text_in_the_message_and_nothing_else(world: World, app: str):
    say(world, app, "GET /a+b?c=1&d 200", "GET /x 500", "tab\there", 'quoted "é"', "pod-1 said created_at")
    assert await log(world, app, f"search={quote('/a+b?c=1&d')}") == ["GET /a+b?c=1&d 200"]
    assert await log(world, app, "search=GET&tail=1") == ["GET /x 500"]
    assert await log(world, app, f"search={quote(chr(9))}") == ["tab\there"]
    assert await log(world, app, "search=" + quote('"é"')) == ['quoted "é"']
    assert await log(world, app, "search=pod-1") == ["pod-1 said created_at"]
    assert await log(world, app, "search=get") == []


@pytest.mark.parametrize(
    "query",
    [
        "since=yesterday",
        "since=2026-13-01T00:00:00Z",
        "since=2026-01-01",
        "until=-1",
        "until=1e9",
        "until=2026-01-01T00:00:00.0000Z",
        "until=999999999999999",
        "follow=maybe",
        "follow=",
        f"search={'x' * 1025}",
        "tail=0&follow=true",
    ],
)
async def test_a_wrong_parameter_of_a_log_is_refused_by_name(world: World, app: str, query: str):
    answer = await world.get(f"/application/{app}/log?{query}")
    assert answer.status == 400
    assert answer.message.startswith(query.partition("=")[0] + ": ")


async def test_a_reader_without_access_cannot_follow(world: World, app: str):
    _, stranger = await world.organization()
    assert (await world.get(f"/application/{app}{FOLLOW}", token=stranger)).status == 404
    assert (await world.get(f"/application/{app}{FOLLOW}", token=None)).status == 401


# Streams


class Event(NamedTuple):
    kind: str
    id: str
    data: Any


class Client:
    """Reads server-sent events from a chunked body, as they come."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._text = b""
        self.status = 0
        self.headers: dict[str, str] = {}
        self.ended = False
        """Whether the body came to its end, and did not just break off."""
        self.comments = 0
        self.place = ""
        """The id that came last without an event."""

    async def start(self, method: str, path: str, headers: dict[str, str]) -> None:
        lines = [f"{method} {path} HTTP/1.1", "host: here", *(f"{k}: {v}" for k, v in headers.items())]
        self._writer.write("\r\n".join([*lines, "", ""]).encode())
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.status = int(head[0].split()[1])
        self.headers = dict(line.split(": ", 1) for line in head[1:] if line)

    async def _chunk(self) -> bool:
        size = int(await self._reader.readuntil(b"\r\n"), 16)
        self._text += (await self._reader.readexactly(size + 2))[:-2]
        self.ended = size == 0
        return size > 0

    async def events(self, count: int) -> list[Event]:
        found: list[Event] = []
        async with asyncio.timeout(20):
            while len(found) < count:
                while b"\n\n" not in self._text:
                    if not await self._chunk():
                        return found
                block, _, self._text = self._text.partition(b"\n\n")
                if block.startswith(b":"):
                    self.comments += 1
                elif b"data: " not in block:
                    self.place = block.decode().removeprefix("id: ")
                else:
                    fields = dict(line.split(": ", 1) for line in block.decode().split("\n"))
                    found.append(
                        Event(fields.get("event", ""), fields.get("id", ""), json.loads(fields["data"]))
                    )
        return found

    async def lines(self, count: int) -> list[str]:
        return [event.data["message"] for event in await self.events(count)]

    async def mark(self) -> str:
        """The next id that comes without an event."""
        before, self.place = self.place, ""
        async with asyncio.timeout(20):
            while not self.place:
                while b"\n\n" not in self._text:
                    assert await self._chunk(), before
                block, _, self._text = self._text.partition(b"\n\n")
                self.place = block.decode().removeprefix("id: ")
        return self.place

    async def rest(self) -> list[Event]:
        return await self.events(sys.maxsize)

    async def raw(self, least: int) -> bytes:
        """At least so many, with whatever was sent together with them; as the body is sent, in chunks."""
        found = b""
        async with asyncio.timeout(20):
            while len(found) < least:
                found += await self._reader.read(least - len(found))
        return found

    async def rest_of_body(self) -> bytes:
        return await self._reader.read()

    def hang_up(self) -> None:
        self._writer.close()


@contextlib.asynccontextmanager
async def asked(
    address: str, path: str, method: str = "GET", token: str = ADMIN, **headers: str
) -> AsyncIterator[Client]:
    where = urlsplit(address)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    client = Client(reader, writer)
    try:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        async with asyncio.timeout(20):
            await client.start(method, path, {"authorization": f"Token {token}"} | given)
        yield client
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@pytest.fixture
async def address(world: World) -> AsyncIterator[str]:
    async with served(world) as found:
        yield found
        world.installation.app.stop_streams()


async def settled(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 (of the server nobody tells us)
            await asyncio.sleep(0.002)


def following(world: World) -> int:
    return sum(len(each) for each in world.installation.ctx.logs._segments._followers.values())


async def test_a_stream_begins_with_the_last_lines_and_goes_on_with_what_comes(
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


async def test_a_stream_shows_only_what_was_searched_for(world: World, app: str, address: str):
    say(world, app, "an error", "all good")
    async with asked(address, f"/application/{app}{FOLLOW}&search=error&since={NOON}") as client:
        assert await client.lines(1) == ["an error"]
        say(world, app, "an older error", at=NOON - 1)
        say(world, app, "still good", "another error")
        assert await client.lines(1) == ["another error"]


async def test_a_reader_resumes_after_its_last_event(world: World, app: str, address: str):
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


async def test_the_head_of_a_stream_does_not_wait_for_the_first_line(world: World, app: str, address: str):
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


async def test_the_head_of_a_stream_is_answered_without_it(world: World, app: str, address: str):
    async with asked(address, f"/application/{app}{FOLLOW}", "HEAD", connection="close") as client:
        assert client.status == 200
        assert client.headers["content-type"] == "text/event-stream"
        assert await client.rest_of_body() == b""
    assert following(world) == 0


async def test_a_token_that_is_revoked_reads_no_further(world: World, app: str, address: str):
    token = await world.new_token("Read")
    tokens = (await world.get(f"/organization/{world.org}/apiToken"))["results"]
    path = f"/application/{app}{FOLLOW}"
    async with asked(address, path, token=token) as client, asked(address, path) as other:
        say(world, app, "before")
        assert await client.lines(1) == await other.lines(1) == ["before"]
        await world.delete(f"/organization/{world.org}/apiToken/{tokens[-1]['id']}")
        say(world, app, "after")
        assert await client.rest() == []
        assert client.ended
        assert await other.lines(1) == ["after"]


async def test_the_log_of_what_is_deleted_comes_to_its_end(world: World, app: str, address: str):
    async with asked(address, f"/application/{app}{FOLLOW}") as client:
        say(world, app, "last words")
        assert await client.lines(1) == ["last words"]
        world.installation.ctx.logs.forget(app)
        assert [event.kind for event in await client.rest()] == ["end"]
        assert client.ended


async def test_a_slow_reader_misses_nothing_and_the_server_keeps_no_lines_for_it(
    world: World, app: str, address: str
):
    lines = [f"{number} ".ljust(1000, ".") for number in range(20_000)]
    async with asked(address, f"/application/{app}{FOLLOW}") as client:
        say(world, app, "first")
        assert await client.lines(1) == ["first"]
        for begin in range(0, len(lines), 1000):
            say(world, app, *lines[begin : begin + 1000])
            await asyncio.sleep(0.001)
        assert await client.lines(len(lines)) == lines


async def test_streams_end_as_a_whole_when_the_server_stops(world: World, app: str):
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


def test_a_server_that_is_told_to_stop_ends_its_streams_and_stops(tmp_path: Path):
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
    app = await asyncio.to_thread(_made, address)
    async with asked(address, f"/application/{app}{FOLLOW}") as client:
        server.send_signal(signal.SIGTERM)
        await client.rest()
        assert await asyncio.to_thread(server.wait, 20) == 0
        return client.ended


def _made(address: str) -> str:
    def call(path: str, body: Any = None) -> Any:
        headers = {"authorization": f"Token {ADMIN}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(address + path, data, headers)) as answer:
            return json.loads(answer.read())

    org = call("/organization")["id"]
    project = call(f"/organization/{org}/project", {"name": "p"})["id"]
    environment = call(f"/project/{project}/environment", {"name": "e"})["id"]
    repository = {"url": "https://git.example/acme/shop.git", "branch": "main"}
    body = {"name": "a", "git_repository": repository}
    return str(call(f"/environment/{environment}/application", body)["id"])


# Builds, and what is let go


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path / "logs", 64 * 1024, 14, HandClock())


def said(logs: Logs, service: str, deployment: str | None = None) -> list[str]:
    return [json.loads(line)["message"] for line in logs.tail(service, 10_000, deployment=deployment)]


def test_a_build_has_a_log_of_its_own(logs: Logs):
    say, other = logs.build("shop", "1"), logs.build("shop", "2")
    logs.write("shop", NOON, "running")
    say("step one")
    other("another build")
    say("step two")
    assert said(logs, "shop") == ["running"]
    assert said(logs, "shop", "1") == ["step one", "step two"]
    (line,) = [
        json.loads(line) for line in logs.tail("shop", 9, line_filter(contains="another"), deployment="2")
    ]
    assert (line["pod_name"], line["version"]) == ("windlass", "2")


def test_forgetting_a_service_removes_its_logs_with_those_of_its_builds(logs: Logs, tmp_path: Path):
    logs.write("shop", NOON, "running")
    logs.build("shop", "1")("built")
    logs.write("blog", NOON, "running")
    logs.forget("shop")
    logs.forget("shop")
    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["blog"]
    assert said(logs, "shop") == said(logs, "shop", "1") == []


async def test_a_sweep_removes_the_lines_of_the_services_that_it_is_told_and_of_no_others(logs: Logs):
    for service in ("shop", "blog"):
        logs.write(service, NOON, "running")
        logs.build(service, "1")("built")
    await logs.sweep(())
    assert set(await logs.services()) == {"shop", "blog"}
    await logs.sweep(["shop"])
    assert said(logs, "shop") == said(logs, "shop", "1") == []
    assert said(logs, "blog") == ["running"]


async def test_lines_that_are_set_aside_come_back_as_they_were(logs: Logs, tmp_path: Path):
    logs.write("shop", NOON, "running")
    logs.build("shop", "1")("built")
    await logs.set_aside("shop", tmp_path / "aside")
    assert said(logs, "shop") == said(logs, "shop", "1") == []
    await logs.put_back("shop", tmp_path / "aside")
    assert (said(logs, "shop"), said(logs, "shop", "1")) == (["running"], ["built"])


async def test_lines_are_kept_for_some_days(tmp_path: Path):
    clock = HandClock()
    logs = Logs(tmp_path / "logs", 1 << 30, 14, clock)
    for number in range(40):
        logs.write("shop", clock.now(), f"day {number}")
        logs.build("shop", str(number))(f"built on day {number}")
        await logs.sweep(())
        clock.turn(DAY / 1000)
    kept = said(logs, "shop")
    assert kept[-14:] == [f"day {number}" for number in range(26, 40)]
    assert len(kept) <= 16
    assert len(list((tmp_path / "logs" / "shop").glob("build-*"))) <= 16
    clock.turn(30 * DAY / 1000)
    await logs.sweep(())
    assert said(logs, "shop") == []
    assert list((tmp_path / "logs" / "shop").glob("build-*")) == []


async def test_builds_of_a_service_have_as_much_room_as_its_log(logs: Logs, tmp_path: Path):
    for number in range(6):
        say = logs.build("shop", str(number))
        for _ in range(20):
            say("x" * 1000)
        file = next((tmp_path / "logs" / "shop" / f"build-{number}").iterdir())
        os.utime(file, (NOON / 1000 + number, NOON / 1000 + number))
    logs.write("shop", NOON, "running")
    await logs.sweep(())
    kept = [number for number in range(6) if said(logs, "shop", str(number))]
    assert kept == [4, 5] or kept == [3, 4, 5]
    assert said(logs, "shop") == ["running"]
