"""`windlass exec` and `shell` run a command in an instance, and end as it ended."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import termios
import threading
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, TextMessage

from tests.commands.test_stories import shop
from tests.tokens import ADMIN
from windlass.cli.everyday.terminal import TerminalRelay
from windlass.cli.websocket import CommandSocket
from windlass.engines.engine import TerminalSize


@pytest.fixture
async def service(windlass):
    id = await shop(windlass)
    await windlass.done("application", "deploy", "web")
    await windlass.world.settle()
    return id


async def started(windlass):
    """The command that was started, as the engine sees it."""
    async with asyncio.timeout(90):
        while not windlass.world.engine.executions:  # noqa: ASYNC110 (a command of another process)
            await asyncio.sleep(0.01)
    return windlass.world.engine.executions[-1]


def run(windlass, *words: str, **pipes):
    environment = {
        **os.environ,
        "WINDLASS_URL": windlass.url,
        "WINDLASS_TOKEN": ADMIN,
        "COLUMNS": "100",
        "LINES": "30",
    }
    return subprocess.Popen([sys.executable, "-m", "windlass", *words], env=environment, **pipes)


async def test_a_command_gets_its_input_and_ends_with_its_exit_code(windlass, service):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = run(windlass, "exec", "-a", "web", "--", "sort", "-r", **pipes)
    execution = await started(windlass)
    assert execution.request.command == ("sort", "-r")
    assert execution.request.terminal is None
    talking = asyncio.create_task(asyncio.to_thread(process.communicate, b"b\na\n" * 50_000))
    async with asyncio.timeout(90):
        while not execution.has_input_ended:
            execution.taken.clear()
            await execution.taken.wait()
    assert bytes(execution.input) == b"b\na\n" * 50_000
    execution.says(b"\xffout\n")
    execution.ends(3)
    out, err = await talking
    assert (process.returncode, out, err) == (3, b"\xffout\n", b"")


async def test_exec_with_a_service_name_as_the_command_suggests_the_application_option(windlass, service):
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = run(windlass, "exec", "-a", "web", "shop", "--", "sh", "-c", "ls", **pipes)
    execution = await started(windlass)
    execution.ends(127)
    _, errors = await asyncio.to_thread(process.communicate)
    assert b"If shop is the service, write `windlass exec shop -- sh -c ls`." in errors
    assert process.returncode == 127


async def test_a_shell_uses_the_terminal_in_raw_mode_and_restores_it(windlass, service):
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (30, 100))
    before = termios.tcgetattr(theirs)
    process = run(
        windlass, "shell", "web", stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    execution = await started(windlass)
    assert execution.request.terminal == TerminalSize(100, 30)
    execution.says(b"$ ")
    assert await asyncio.to_thread(os.read, ours, 100) == b"$ "
    os.write(ours, b"ls\x03")  # Ctrl-C is for the program in the instance
    async with asyncio.timeout(90):
        while bytes(execution.input) != b"ls\x03":
            execution.taken.clear()
            await execution.taken.wait()
    termios.tcsetwinsize(theirs, (40, 120))
    process.send_signal(signal.SIGWINCH)
    async with asyncio.timeout(90):
        while execution.sizes != [TerminalSize(120, 40)]:
            execution.taken.clear()
            await execution.taken.wait()
    execution.ends(0)
    assert await asyncio.to_thread(process.wait, 60) == 0
    assert termios.tcgetattr(theirs) == before
    os.close(ours)
    os.close(theirs)


async def test_exec_without_a_running_instance_or_a_valid_token_prints_the_reason(windlass):
    await shop(windlass)
    said = await windlass("exec", "-a", "web", "--", "ls")
    assert (said.code, said.out) == (1, ""), said
    assert said.err.startswith("windlass: ")
    refused = await windlass("exec", "-a", "web", "ls", token="wrong")
    assert (refused.code, "windlass login" in refused.err) == (1, True), refused


def test_a_command_that_has_ended_before_its_websocket_is_open_ends_with_its_exit_code():
    server = WSConnection(ConnectionType.SERVER)

    def answer() -> None:
        connection, _ = listening.accept()
        with connection:
            server.receive_data(connection.recv(65_536))
            list(server.events())
            words = (AcceptConnection(), TextMessage('{"exit_code": 3}'), CloseConnection(1000, "Ended"))
            connection.sendall(b"".join(map(server.send, words)))
            connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        api: Any = SimpleNamespace(url=f"http://127.0.0.1:{listening.getsockname()[1]}", headers={})
        answering = threading.Thread(target=answer)
        answering.start()
        with closing(CommandSocket(api, "/application/x/exec", {})) as opened:
            code = TerminalRelay(opened).until_end()
        answering.join()
    assert code == 3


async def test_a_port_of_this_machine_leads_to_a_database(windlass):
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read(100)).upper())
        writer.close()

    await shop(windlass)
    world = windlass.world
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        world.engine.answers_at = server.sockets[0].getsockname()[1]
        environment = (await world.get("/resource?family=environment"))["results"][0]["id"]
        database = await world.database(environment, name="main-db")
        await world.post(f"/database/{database}/deploy")
        await world.settle()
        process = run(windlass, "database", "connect", "main-db", "--json", stdout=subprocess.PIPE)
        told = json.loads(await asyncio.to_thread(_read_json, process))
        reader, writer = await asyncio.open_connection(told["host"], told["port"])
        writer.write(b"select")
        async with asyncio.timeout(90):
            assert await reader.read() == b"SELECT"
        writer.close()
        process.send_signal(signal.SIGINT)
        await asyncio.to_thread(process.communicate)


def _read_json(process: Any) -> bytes:
    """Returns the first JSON object, which may have several lines."""
    text = b""
    while line := process.stdout.readline():
        text += line
        if line.rstrip() == b"}" or text.count(b"{") == text.count(b"}") > 0:
            break
    return text
