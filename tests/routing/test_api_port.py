"""The port of the API belongs to the server, also while none runs."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import socket
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from tests import free_ports
from tests.gateway.gateway_town import GatewayTown, processes_of
from tests.gateway.routers.test_held_ports import IPV6, can_be_taken
from tests.gateway.routers.town import until
from tests.repositories import Repository
from tests.routing.test_restarting import ServerProcess, deploy
from tests.whole import Place, place
from tests.whole import until as until_true
from windlass.gateway import api_listener
from windlass.gateway.api_listener import ApiListener
from windlass.gateway.api_sockets import ApiSockets, PortInUse, take_sockets
from windlass.serve.server import listen

pytestmark = pytest.mark.slow

HOST = "127.0.0.1"
EVERYWHERE = (HOST, "0.0.0.0", *IPV6)
SLEEPER = "import time\ntime.sleep(1000)\n"


@contextlib.asynccontextmanager
async def server(folder: Path, port: int, *, has_others: bool = False) -> AsyncIterator[ApiSockets]:
    """Listens as a server does. It ends as one that is killed."""
    kept = await asyncio.to_thread(take_sockets, folder, HOST, port) or {(HOST, port): listen(HOST, port)}
    sockets = ApiSockets(folder, HOST, kept, has_others=has_others)
    keeping = asyncio.create_task(sockets.keep())
    await until_true(lambda: is_kept(folder, port))
    try:
        yield sockets
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        sockets.close()


async def is_kept(folder: Path, port: int) -> bool:
    """True if the gateway knows of a server that accepts at this port."""
    try:
        kept = await asyncio.to_thread(partial(take_sockets, folder, HOST, port, listens=False))
        for held in kept.values():
            held.close()
    except PortInUse:
        return True
    return False


def is_free(port: int) -> bool:
    return any(can_be_taken(address, port) for address in EVERYWHERE)


async def test_the_gateway_holds_the_api_port_until_the_next_server_takes_it(town: GatewayTown):
    port = free_ports.free_port()
    async with server(town.folder, port):
        pass
    assert not is_free(port)
    client = await asyncio.open_connection(HOST, port)
    async with server(town.folder, port) as after:
        accepted, _ = await asyncio.get_running_loop().sock_accept(after.listening)
        accepted.close()
    client[1].close()


async def test_a_replacing_gateway_continues_to_hold_the_api_port(town: GatewayTown):
    port = free_ports.free_port()
    async with server(town.folder, port):
        pass
    before = await town.process()
    await town.replace()
    await until(lambda: before not in processes_of(town.folder))
    assert not is_free(port)
    async with server(town.folder, port):
        await town.replace()


async def test_a_restarted_gateway_holds_the_api_port_again(town: GatewayTown):
    port = free_ports.free_port()
    async with server(town.folder, port):
        await town.kill()
        await until(lambda: not town.link._is_ready.is_set())
        await town.process()
        await until_true(lambda: is_kept(town.folder, port))
    assert not is_free(port)


@pytest.mark.parametrize("host", [HOST, "0.0.0.0"])
async def test_the_former_api_port_is_released_when_a_server_starts_at_another_address(
    town: GatewayTown, host: str
):
    port, other = free_ports.free_port(), free_ports.free_port()
    async with server(town.folder, port):
        pass
    if host == HOST:
        async with server(town.folder, other):
            await until(lambda: is_free(port))
    else:
        assert not take_sockets(town.folder, host, port)
        assert is_free(port)


async def test_two_servers_on_one_data_directory_each_keep_their_api_port(town: GatewayTown):
    ports = free_ports.free_port(), free_ports.free_port()
    async with server(town.folder, ports[0]), server(town.folder, ports[1]):
        with pytest.raises(PortInUse) as refused:
            take_sockets(town.folder, HOST, ports[0])
        assert refused.value.process == os.getpid()
    assert not any(map(is_free, ports))


async def test_while_no_server_runs_api_requests_get_503_after_a_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Until then they wait, and the next server answers them."""
    monkeypatch.setattr(api_listener, "WAIT_SECONDS", 0.0)
    port = free_ports.free_port()
    door = ApiListener(tmp_path, {(HOST, port): listen(HOST, port)})
    try:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(b"GET /organization HTTP/1.1\r\nHost: x\r\nAuthorization: Token secret\r\n\r\n")
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nRetry-After: 5\r\n" in answer
        assert b"not running" in answer
        writer.close()
        async with server(tmp_path, port) as after:
            waiting, writer = await asyncio.open_connection(HOST, port)
            accepted, _ = await asyncio.get_running_loop().sock_accept(after.listening)
            accepted.send(b"server")
            assert await waiting.read(6) == b"server"
            accepted.close()
            writer.close()
    finally:
        door.close()


async def test_beside_other_servers_connections_are_refused_after_a_wait_and_the_port_stays_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A proxy then repeats changes at another server, which it does not after an answer."""
    monkeypatch.setattr(api_listener, "WAIT_SECONDS", 0.0)
    port = free_ports.free_port()
    door = ApiListener(tmp_path, {})
    try:
        async with server(tmp_path, port, has_others=True) as before:
            await end_a_connection(before)
        await until(lambda: is_refused(port))
        assert not is_free(port)
        async with server(tmp_path, port, has_others=True) as after:
            await end_a_connection(after)
    finally:
        door.close()


async def end_a_connection(sockets: ApiSockets) -> None:
    """The server closes a connection first, so that the kernel remembers it for a minute."""
    _, writer = await asyncio.open_connection(*sockets.listening.getsockname())
    accepted, _ = await asyncio.get_running_loop().sock_accept(sockets.listening)
    accepted.close()
    writer.close()


def is_refused(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((HOST, port)) == errno.ECONNREFUSED


@pytest.mark.nightly
async def test_no_other_program_can_take_the_api_port_while_the_server_restarts():
    """A service without routes is enough to try it: the gateway stays for it."""
    async with place("process") as there, sleeper(there) as server:
        for number in (signal.SIGTERM, signal.SIGKILL):
            await server.end(number)
            assert not is_free(server.port)
            asked = asyncio.create_task(server.call("GET", "/organization"))
            await server.start()
            assert "results" in await asked
        # The negative control: without the gateway, another program is faster. The server says which.
        await server.end(signal.SIGKILL)
        for process in processes_of(Path(there.folder) / "gateway"):
            os.kill(process, signal.SIGKILL)
        await until(lambda: is_free(server.port))
        taken = pytest.raises(AssertionError, match=f"process {os.getpid()} .* of the user ")
        with socket.create_server((HOST, server.port)), taken:
            await server.start()
        await server.start()
        await server.end(signal.SIGTERM)


@contextlib.asynccontextmanager
async def sleeper(there: Place) -> AsyncIterator[ServerProcess]:
    """A server with an application that has no ports."""
    repository = Repository(there.beside / "repository")
    repository.put({"requirements.txt": "", "app.py": SLEEPER, "Procfile": "worker: python app.py"}).commit()
    server = ServerProcess(there)
    server.port = free_ports.free_port()
    await server.start()
    await deploy(server, {"name": "worker", "git_repository": {"url": repository.url, "branch": "main"}})
    yield server
