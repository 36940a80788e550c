"""The status of an application that starts well and answers its first page with an error says what to do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.running.deployments import deploy
from tests.world import World, make_world
from windlass.engines.workload import OutputLine

NO_TABLE = "sqlite3.OperationalError: no such table: post"
DATABASE = "Create a MongoDB database, such as main-db with `windlass database create"
NO_DATABASE = "Error connecting: MongooseError: The `uri` parameter to `openUri()` must be a string"


class Program:
    """Answers each request with one status, or hangs up if that is 0, after a line in its log."""

    def __init__(self, world: World, status: int | str, line: str) -> None:
        self._world, self._status, self._line = world, status, line
        self.hosts: list[str] = []
        self.knows, self.page = "", "x"
        self.answering = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.answering += 1
        try:
            await self.answer(reader, writer)
        finally:
            self.answering -= 1

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        host = next(line[6:] for line in head.splitlines() if line.startswith("Host: "))
        self.hosts.append(host)
        (workload,) = self._world.engine.running.values()
        line = OutputLine(self._world.clock.now(), self._line, "web-1-0", workload.deployment)
        self._world.engine.says(workload.service, line)
        status = 200 if host == self.knows else self._status
        if status:
            length = len(self.page)
            writer.write(f"HTTP/1.1 {status} x\r\nContent-Length: {length}\r\n\r\n".encode())
            await writer.drain()
            await asyncio.sleep(0.01)
            writer.write(self.page.encode())
        writer.close()


@asynccontextmanager
async def answering(world: World, status: int | str, line: str = "") -> AsyncIterator[Program]:
    program = Program(world, status, line)
    async with await asyncio.start_server(program.serve, "127.0.0.1", 0) as server:
        world.engine.answers_at = server.sockets[0].getsockname()[1]
        yield program
        while program.answering:  # noqa: ASYNC110 (a client may hang up before the answer is complete)
            await asyncio.sleep(0.01)


@pytest.fixture
async def world():
    async with make_world() as made:
        made.builder.names = {"command": ("serve",), "processes": {"web": ("serve",)}, "web_port": 8000}
        yield made


async def released(world: World, **fields) -> tuple[str, str, str]:
    """Returns the state, the message and the log of a deployment."""
    app = await world.application(**fields)
    id = await deploy(world, app)
    await world.settle()
    status = (await world.get(f"/application/{app}/status")).json
    log = await world.get(f"/application/{app}/deployment/{id}/log")
    return status["state"], status["message"], "\n".join(line["message"] for line in log["results"])


@pytest.mark.parametrize(
    ("status", "line", "message"),
    [
        (500, NO_TABLE, "Make the tables in start_command before the server"),
        (500, "ValueError: 3", "Fix what shop reports: `ValueError: 3`. shop answers GET / with 500"),
        (503, "", "Look at the log: shop answers GET / with 503"),
        (200, NO_DATABASE, DATABASE),
        (0, NO_DATABASE, DATABASE),
    ],
)
async def test_a_first_page_with_an_error_status_is_reported_with_a_remedy(
    world: World, status, line, message
):
    async with answering(world, status, line):
        state, told, log = await released(world, name="shop")
    assert (state, told[: len(message)]) == ("RUNNING", message)
    assert told in log


@pytest.mark.parametrize("status", [0, 200, 302, 401, 404, "9" * 5000])
async def test_a_first_page_with_the_applications_own_error_is_not_reported(world: World, status: int | str):
    async with answering(world, status, "ValueError: 3") as program:
        state, told, _ = await released(world, name="shop")
    assert (state, told, len(program.hosts)) == ("RUNNING", "", 1)
    assert program.hosts[0].startswith("shop-")


@pytest.mark.parametrize(
    ("status", "page", "knows", "is_refused"),
    [
        (400, "<title>Bad Request (400)</title>", "", True),
        (403, "Blocked request. This host is not allowed", "", True),
        (400, "x", "localhost", True),
        (400, "name: required", "", False),
        (403, "Sign in", "localhost", False),
    ],
)
async def test_a_program_that_rejects_its_public_host_name_is_reported(
    world: World, status, page, knows, is_refused
):
    async with answering(world, status) as program:
        program.knows, program.page = knows, page
        state, told, _ = await released(world, name="shop")
    host = program.hosts[0]
    assert (state, f"Let the application answer at its public host {host}," in told) == (
        "RUNNING",
        is_refused,
    )
    assert (told == "") is not is_refused


async def test_the_first_page_is_not_requested_if_the_port_was_declared(world: World):
    port = {"internal_port": 8000, "protocol": "HTTP", "publicly_accessible": True}
    async with answering(world, 500) as program:
        assert (await released(world, ports=[port]))[:2] == ("RUNNING", "")
    assert program.hosts == []


async def test_the_next_release_that_answers_has_no_message(world: World):
    async with answering(world, 500):
        app = await world.application()
        await deploy(world, app)
        await world.settle()
    assert (await world.get(f"/application/{app}/status"))["message"] != ""
    async with answering(world, 200):
        await world.patch(f"/application/{app}", {"start_command": "serve --port $PORT"})
        await deploy(world, app)
        await world.settle()
    assert (await world.get(f"/application/{app}/status"))["message"] == ""
