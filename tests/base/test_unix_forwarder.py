"""A socket in the file system leads to a port of the machine, and replaces a socket that an earlier program
has left."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from windlass.base import unix_forwarder
from windlass.base.unix_forwarder import UnixForwarder, short_path


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def ask(path: Path) -> bytes:
    with short_path(path) as address:
        reader, writer = await asyncio.open_unix_connection(address)
    writer.write(b"hello")
    writer.write_eof()
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    return answer


async def test_a_new_forwarder_replaces_the_socket_of_a_killed_one_which_then_does_not_remove_it(
    tmp_path, port
):
    path = tmp_path / ("deep" * 30) / "socket"
    killed, later = UnixForwarder(path, "127.0.0.1", 1), UnixForwarder(path, "127.0.0.1", port)
    await killed.open()
    assert await ask(path) == b"", "nothing listens at its port"
    await later.open()
    assert await ask(path) == b"HELLO"
    await killed.close()
    assert await ask(path) == b"HELLO"
    await later.close()
    assert not path.exists()


CONNECTS = """
import os, socket, sys
os.chdir(sys.argv[1])
with socket.socket(socket.AF_UNIX) as connected:
    connected.connect("socket")
    connected.sendall(b"hello")
    connected.shutdown(socket.SHUT_WR)
    print(connected.recv(10).decode())
"""


@pytest.mark.parametrize(("is_in_own_cell", "answer"), [(True, "HELLO"), (False, "")])
async def test_connections_of_one_cell_do_not_use_up_those_of_another_cell_of_the_same_user(
    tmp_path, port, is_in_own_cell, answer
):
    path = tmp_path / "socket"
    forwarder = UnixForwarder(path, "127.0.0.1", port)
    await forwarder.open()
    held = [await connect(path) for _ in range(8)]
    cell = ("unshare", "--user", "--pid", "--fork") if is_in_own_cell else ()
    if cell and subprocess.run([*cell, "true"], check=False).returncode:
        pytest.skip("needs user namespaces")
    words = [*cell, sys.executable, "-c", CONNECTS, str(tmp_path)]
    other = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
    async with asyncio.timeout(20):
        said, _ = await other.communicate()
    assert said.decode().strip() == answer
    for _, one in held:
        one.close()
    await forwarder.close()


async def test_a_cells_connection_limit_shrinks_as_the_total_fills(tmp_path, port, monkeypatch):
    monkeypatch.setattr(unix_forwarder, "_MAX_CONNECTIONS", 128)
    path = tmp_path / "socket"
    forwarder = UnixForwarder(path, "127.0.0.1", port)
    await forwarder.open()
    held = [await connect(path) for _ in range(8)]
    async with asyncio.timeout(10):
        assert await held[-1][0].read() == b"", "closed at once"
    assert forwarder._open.total() == 4
    for _, one in held:
        one.close()
    await forwarder.close()


async def test_connections_of_a_cell_beyond_its_limit_are_closed(tmp_path, port):
    path = tmp_path / "socket"
    forwarder = UnixForwarder(path, "127.0.0.1", port)
    await forwarder.open()
    held = [await connect(path) for _ in range(8)]
    reader, writer = await connect(path)
    async with asyncio.timeout(10):
        assert await reader.read() == b"", "closed at once"
    for _, one in (*held, (reader, writer)):
        one.close()
    async with asyncio.timeout(10):
        while forwarder._open.total():  # noqa: ASYNC110 (it tells nobody)
            await asyncio.sleep(0.01)
    assert await ask(path) == b"HELLO"
    await forwarder.close()


async def connect(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    with short_path(path) as address:
        return await asyncio.open_unix_connection(address)


async def test_programs_behind_the_socket_do_not_look_like_a_proxy_of_this_machine(tmp_path):
    """A server that trusts a proxy at 127.0.0.1 would believe the client address that they name."""
    seen: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("peername")[0])
        writer.write(await reader.read())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        forwarder = UnixForwarder(tmp_path / "socket", "127.0.0.1", port)
        await forwarder.open()
        assert await ask(tmp_path / "socket") == b"hello"
        reader, direct = await asyncio.open_connection("127.0.0.1", port)  # the control
        direct.write_eof()
        await reader.read()
        direct.close()
        await forwarder.close()
    assert (seen[0] == "127.0.0.1", seen[1]) == (False, "127.0.0.1")
