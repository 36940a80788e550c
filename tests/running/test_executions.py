"""Commands in instances, over websockets: who may run one, what passes, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from tests.asgi_sockets import opened, opening
from tests.fakes.execution import FakeExecution
from tests.running.deployments import deployed
from tests.world import World
from windlass.api.executions import ExecutionSocket
from windlass.api.streaming import Streams
from windlass.control.services import executions
from windlass.engines.engine import TerminalSize
from windlass.engines.workload import StaticSite

MESSAGES, MESSAGE_BYTES = 300, 60_000
"""More than the kernel keeps of a connection."""


@pytest.fixture
async def app(world: World) -> str:
    return await deployed(world)


def command(world: World) -> FakeExecution:
    return world.engine.executions[-1]


async def told(world: World, kind: str) -> list[Any]:
    return [msgspec.json.decode(event.body) for event in await world.events(kind)]


async def test_exec_sends_output_as_bytes_and_then_the_exit_code(world, app):
    async with opened(world, f"/application/{app}/exec?command=ls&command=-l+%2Ftmp") as socket:
        assert command(world).request.command == ("ls", "-l /tmp")
        assert command(world).request.terminal is None
        command(world).says(b"\xff\x00 a file\n")
        assert await socket.output() == b"\xff\x00 a file\n"
        command(world).ends(3)
        assert await socket.closed() == ({"exit_code": 3}, 1000, "The command has ended")
    assert command(world).is_closed


async def test_exec_forwards_input_terminal_sizes_and_the_end_of_input(world, app):
    async with opened(world, f"/application/{app}/exec?tty=true&columns=100&rows=30") as socket:
        execution = command(world)
        assert execution.request.command[0] == "sh"
        assert execution.request.terminal == TerminalSize(100, 30)
        socket.send(b"ls\n")
        socket.send({"columns": 120, "rows": 40})
        socket.send({"end_of_input": True})
        while not execution.has_input_ended:
            execution.taken.clear()
            await execution.taken.wait()
    assert (bytes(execution.input), execution.sizes) == (b"ls\n", [TerminalSize(120, 40)])


async def test_a_disconnected_exec_client_ends_its_command(world, app):
    async with opened(world, f"/application/{app}/exec"):
        pass
    assert command(world).is_closed


@pytest.mark.parametrize("text", ["ls", "{}x", '{"colums": 80}', '{"columns": 0, "rows": 1}'])
async def test_an_invalid_exec_control_message_closes_the_websocket_with_the_expected_form(world, app, text):
    async with opened(world, f"/application/{app}/exec") as socket:
        socket.send(text)
        _, code, reason = await socket.closed()
        assert code == 1007
        assert "columns" in reason
    assert command(world).is_closed


async def test_a_revoked_token_ends_its_command(world, app):
    made = await world.post(f"/organization/{world.org}/apiToken", {"name": "ci", "scopes": ["Deploy"]})
    async with opened(world, f"/application/{app}/exec", made["token"]) as socket:
        assert (await world.delete(f"/organization/{world.org}/apiToken/{made['id']}")).status == 204
        _, code, reason = await socket.closed()
        assert (code, reason) == (1008, "This caller may not run commands here any more")
    assert command(world).is_closed


async def test_a_command_with_closed_output_ends_when_its_callers_token_is_revoked(world, app):
    made = await world.post(f"/organization/{world.org}/apiToken", {"name": "ci", "scopes": ["Deploy"]})
    async with opened(world, f"/application/{app}/exec", made["token"]) as socket:
        command(world).closes_its_output()
        await command(world).awaited.wait()
        assert (await world.delete(f"/organization/{world.org}/apiToken/{made['id']}")).status == 204
        _, code, _ = await socket.closed()
        assert code == 1008
    assert command(world).is_closed


async def test_a_command_with_closed_output_runs_until_it_exits(world, app):
    async with opened(world, f"/application/{app}/exec") as socket:
        command(world).closes_its_output()
        await command(world).awaited.wait()
        assert not command(world).is_closed
        command(world).ends(4)
        assert await socket.closed() == ({"exit_code": 4}, 1000, "The command has ended")


async def test_a_stopping_server_ends_executed_commands_and_gives_the_reason(world, app):
    async with opened(world, f"/application/{app}/exec") as socket:
        world.installation.app.stop_streams()
        _, code, reason = await socket.closed()
        assert (code, "stopping" in reason) == (1012, True)
    assert command(world).is_closed


async def test_a_command_without_input_and_output_is_ended_after_a_while():
    class Session:
        execution: FakeExecution = FakeExecution(None)  # type: ignore[arg-type]
        reason = ""

        async def end(self, reason: str, exit_code: int | None = None) -> None:
            self.reason = self.reason or reason

    async def never() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def allowed() -> bool:
        return True

    session, sent = Session(), []
    socket = ExecutionSocket(session, Streams(), idle=0)  # type: ignore[arg-type]

    async def put(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    await socket.run(never, put, allowed)
    assert (session.reason, sent[-1]["code"]) == ("Nothing was sent for 30 minutes", 1008)


@pytest.mark.parametrize("scopes", [["Read"], ["Write"], ["Read", "Write"]])
async def test_a_command_needs_the_scope_deploy(world, app, scopes):
    token = await world.new_token(*scopes)
    async with opening(world, f"/application/{app}/exec", token) as socket:
        answer = await socket.answer()
    assert (answer.status, answer.message) == (403, "Use a token with the scope Deploy or Admin")
    assert world.engine.executions == []


async def test_a_service_of_another_organization_is_not_found(world, app):
    _, stranger = await world.organization()
    for path in ("/application/{}/exec", "/shell/exec?service={}"):
        said = []
        for service in (app, str(uuid4())):
            async with opening(world, path.format(service), stranger) as socket:
                answer = await socket.answer()
            said.append((answer.status, answer.message))
        assert said[0] == said[1], "it tells no more of a service than of an id that there never was"
        assert said[0][0] == 404
    assert world.engine.executions == []


@pytest.mark.parametrize("path", ["/application/{app}/exec", "/service/logs?service={app}"])
async def test_pages_of_other_origins_are_refused(world, app, path):
    path = path.format(app=app)
    for origin in ("https://elsewhere.example", "null", "", "http://[", "http://w.example]"):
        async with opening(world, path, origin=origin) as socket:
            assert (await socket.answer()).status == 403, origin
    async with opening(world, path, origin="http://w.example", host="w.example") as socket:
        assert (await socket.next())["type"] == "websocket.accept"


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ("?columns=0", 400, "columns"),
        ("?tty=maybe", 400, "tty"),
        ("?tty=true&tty=true", 400, "tty"),
        ("?instance=nothing", 409, "instance: choose one that runs: app-"),
    ],
)
async def test_a_wrong_query_is_answered_before_the_websocket_opens(world, app, query, status, message):
    async with opening(world, f"/application/{app}/exec{query}") as socket:
        answer = await socket.answer()
    assert (answer.status, message in answer.message) == (status, True), answer


async def test_exec_selects_an_instance_by_its_index_or_its_log_name(world):
    app = await deployed(world, min_running_instances=2, max_running_instances=2)
    name = (await world.get(f"/application/{app}"))["name"]
    for instance in ("1", f"{name}-1-1"):
        async with opened(world, f"/application/{app}/exec?instance={instance}"):
            pass
    begun = await told(world, "SHELL")
    assert {event["instance"] for event in begun} == {f"{app}-1-1"}


async def test_exec_on_a_service_without_instances_advises_to_deploy_it(world):
    app = await world.application()
    async with opening(world, f"/application/{app}/exec") as socket:
        answer = await socket.answer()
    assert (answer.status, answer.message.startswith("Deploy ")) == (409, True)


async def test_exec_on_a_service_scaled_to_zero_advises_to_scale_it_up(world):
    app = await deployed(world, min_running_instances=0, max_running_instances=0)
    async with opening(world, f"/application/{app}/exec") as socket:
        answer = await socket.answer()
    assert (answer.status, answer.message.startswith("Give ")) == (409, True), answer.message


async def test_exec_on_a_static_site_answers_that_it_has_no_instance(world):
    world.builder.names = {"static": StaticSite(folder="dist")}
    app = await deployed(world)
    async with opening(world, f"/application/{app}/exec") as socket:
        answer = await socket.answer()
    assert (answer.status, "is a static site, which has no instance" in answer.message) == (409, True)


async def test_the_audit_records_the_start_and_the_end_of_each_executed_command(world, app):
    async with opened(world, f"/application/{app}/exec?command=ls&command=-l") as socket:
        (begun,) = await told(world, "SHELL")
        assert await told(world, "SHELL_ENDED") == []
        command(world).ends(2)
        await socket.closed()
    (ended,) = await told(world, "SHELL_ENDED")
    assert (begun["command"], begun["instance"]) == ("ls -l", f"{app}-1-0")
    assert (ended["command"], ended["exit_code"], ended["message"]) == ("ls -l", 2, "The command has ended")
    assert begun["execution_id"] == ended["execution_id"]


async def test_a_command_that_cannot_start_is_answered_with_the_reason(world, app):
    world.engine.broken = "The instance does not run"
    async with opening(world, f"/application/{app}/exec") as socket:
        answer = await socket.answer()
    assert (answer.status, answer.message) == (409, "The instance does not run")
    (ended,) = await told(world, "SHELL_ENDED")
    assert ended["message"] == "The instance does not run"


async def test_the_shell_endpoint_of_existing_clients_sends_only_bytes(world, app):
    async with opened(world, f"/shell/exec?service={app}&command=sh&tty_width=100&tty_height=30") as socket:
        execution = command(world)
        assert execution.request.terminal == TerminalSize(100, 30)
        execution.ends(1)
        assert await socket.closed() == (None, 1000, "The command has ended")


async def test_a_plain_http_request_to_exec_is_answered_with_426(world, app):
    answer = await world.get(f"/application/{app}/exec")
    assert (answer.status, answer.headers["upgrade"]) == (426, "websocket")


async def test_commands_of_one_caller_are_limited_and_leave_capacity_for_others(world, app):
    token = await world.new_token("Deploy")
    world.installation.app._executions._quota.most = 5
    async with (
        opened(world, f"/application/{app}/exec", token),
        opened(world, f"/application/{app}/exec", token),
        opening(world, f"/application/{app}/exec", token) as third,
    ):
        assert (await third.answer()).status == 429
        async with opened(world, f"/application/{app}/exec"):
            pass


@pytest.fixture
async def database(world: World) -> AsyncIterator[str]:
    """A database that answers each message with the same in capitals."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data.upper())
        writer.write(b"bye")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        world.engine.answers_at = server.sockets[0].getsockname()[1]
        id = await world.database()
        assert (await world.post(f"/database/{id}/deploy")).status == 202
        await world.settle()
        yield id


async def test_a_database_connection_forwards_bytes_in_both_directions_until_either_side_closes(
    world, database
):
    async with opened(world, f"/database/{database}/connect") as socket:
        socket.send(b"select")
        assert await socket.output() == b"SELECT"
        socket.send({"end_of_input": True})
        assert await socket.output() == b"bye"
        assert (await socket.closed())[1] == 1000
    (begun,) = await told(world, "SHELL")
    assert begun["command"] == "a connection to port 5432"
    assert len(await told(world, "SHELL_ENDED")) == 1


@pytest.mark.parametrize("reads", [False, True])
async def test_a_connection_ends_with_its_client_although_the_program_does_not_read(monkeypatch, reads):
    """Otherwise, its place would be taken for ever. The control is a program that reads, and gets all."""
    monkeypatch.setattr(executions, "_CLOSE_TIMEOUT", 60 if reads else 0.1)
    received: list[int] = []
    is_over = asyncio.Event()

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while reads and (data := await reader.read(MESSAGE_BYTES)):
            received.append(len(data))
        is_over.set()
        if not reads:
            await is_closed.wait()
        writer.close()

    is_closed = asyncio.Event()
    async with await asyncio.start_server(read, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        connection = executions.PortConnection(reader, writer)
        writing = asyncio.ensure_future(write_messages(connection))
        if reads:
            await writing
        else:
            await asyncio.sleep(0.2)
            writing.cancel()
        async with asyncio.timeout(20):
            await connection.close()
            await is_over.wait()
        is_closed.set()
    assert sum(received) == (MESSAGES * MESSAGE_BYTES if reads else 0)


async def write_messages(connection: executions.PortConnection) -> None:
    for _ in range(MESSAGES):
        await connection.write(b"x" * MESSAGE_BYTES)


async def test_a_database_connection_requires_the_deploy_scope_and_a_listening_database(world, database):
    token = await world.new_token("Read")
    async with opening(world, f"/database/{database}/connect", token) as socket:
        assert (await socket.answer()).status == 403
    world.engine.answers_at = 0
    idle = await world.database()
    async with opening(world, f"/database/{idle}/connect") as socket:
        assert (await socket.answer()).status == 409
