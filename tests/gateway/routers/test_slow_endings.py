"""An answer that closes its connection arrives whole at a client that reads slowly, up to a time limit."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from tests.gateway.routers.issuing import issuing_authority
from tests.gateway.routers.secure_town import make_secure_town
from tests.gateway.routers.town import SHOP, Heard, Town, reply, request, until
from windlass.routers.builtin.client_socket import PARTING

SIZE = 60_000
"""More than the small buffers of both kernels, and less than what makes the gateway pause an instance."""
PARTING_SECONDS = 0.1


class SlowReader:
    """A client that reads nothing before it is told to."""

    def __init__(self, port: int, *, is_secure: bool) -> None:
        self.may_read = threading.Event()
        self._port, self._is_secure = port, is_secure

    def ask(self) -> bytes:
        """All that is answered. Runs in a thread."""
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(30)
            connection.connect(("127.0.0.1", self._port))
            if self._is_secure:
                context = issuing_authority().client()
                with context.wrap_socket(connection, server_hostname=SHOP) as tls:
                    return self._answer(tls)
            return self._answer(connection)

    def _answer(self, connection: socket.socket) -> bytes:
        connection.sendall(request("/", "GET", SHOP, "Connection: close"))
        assert self.may_read.wait(30)
        pieces = []
        try:
            while piece := connection.recv(1 << 16):
                pieces.append(piece)
        except OSError:
            pass  # it was cut
        return b"".join(pieces)


async def answer_to_slow_reader(town: Town, port: int, *, is_secure: bool) -> tuple[SlowReader, Any]:
    """A client whose connection closes while a part of the answer is unsent, and what it gets."""

    def client() -> Any:
        (member,) = town.router._shared.connections.members
        return member

    async def much(heard: Heard) -> None:
        kernel = client().transport.get_extra_info("socket")
        kernel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        heard.out.write(reply(b"x" * SIZE))

    await town.shop(await town.instance(answer=much), redirect=False)
    reader = SlowReader(port, is_secure=is_secure)
    asking = asyncio.create_task(asyncio.to_thread(reader.ask))
    await until(lambda: town.router.traffic()["shop"].answers[2])
    member = client()
    assert member._phase is PARTING
    assert member.transport.get_write_buffer_size() > SIZE // 2
    return reader, asking


@pytest.mark.parametrize("is_secure", [False, True], ids=["http", "https"])
async def test_a_client_that_reads_slowly_gets_the_whole_answer(is_secure: bool) -> None:
    async with make_secure_town(parting_seconds=PARTING_SECONDS) as town:
        port = town.router._shared.https_port if is_secure else town.router.port
        reader, asking = await answer_to_slow_reader(town, port, is_secure=is_secure)
        try:
            await asyncio.sleep(6 * PARTING_SECONDS)
        finally:
            reader.may_read.set()
        assert (await asking).endswith(b"x" * SIZE)
        await until(lambda: not town.router._shared.connections.members)


@pytest.mark.parametrize("is_secure", [False, True], ids=["http", "https"])
async def test_a_client_that_takes_nothing_is_cut_off_in_the_end(is_secure: bool) -> None:
    async with make_secure_town(parting_seconds=PARTING_SECONDS, stall_seconds=1) as town:
        port = town.router._shared.https_port if is_secure else town.router.port
        reader, asking = await answer_to_slow_reader(town, port, is_secure=is_secure)
        try:
            await until(lambda: not town.router._shared.connections.members)
        finally:
            reader.may_read.set()
        assert len(await asking) < SIZE
