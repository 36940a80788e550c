"""The gateway is started before the server is loaded, and it is that server's gateway."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.gateway.gateway_town import GatewayTown, processes_of
from tests.gateway.routers.town import route
from tests.whole import until
from windlass.base.private import private_folder
from windlass.gateway.files import CONTROL, connect_to, folder_of, socket_of
from windlass.gateway.link import GatewayLink
from windlass.gateway.messages import Ask, Open
from windlass.gateway.starting import start_missing_gateway
from windlass.routers.router import Endpoint, RouteError

pytestmark = pytest.mark.slow


async def test_a_server_connects_to_the_gateway_that_was_started_for_it(tmp_path: Path) -> None:
    folder = private_folder(tmp_path / "gateway")
    started = start_missing_gateway(folder)
    link = GatewayLink(folder, started)
    try:
        await link.start(Open("local", "127.0.0.1", 0))
        assert (await link.call(Ask())).process == started
    finally:
        await link.stop()
        os.kill(started, signal.SIGTERM)


async def test_a_call_on_an_unstarted_gateway_connection_fails_at_once(tmp_path: Path) -> None:
    """A start that fails before it comes to the gateway would wait for it at its end."""
    async with asyncio.timeout(1):
        with pytest.raises(RouteError, match="not connected"):
            await GatewayLink(tmp_path).call(Ask())


async def test_a_running_gateway_is_not_started_again(town: GatewayTown) -> None:
    assert start_missing_gateway(town.folder) == 0


@pytest.mark.parametrize("has_visitors", [True, False])
async def test_a_refused_server_start_leaves_a_gateway_running_only_if_it_has_routes(
    tmp_path: Path, has_visitors: bool
) -> None:
    folder = folder_of(str(tmp_path))
    if has_visitors:
        await _leave_a_route(folder)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        serve = ("serve", "--port", str(taken.getsockname()[1]), "--data-dir", str(tmp_path))
        with (tmp_path / "errors").open("wb") as errors:  # a gateway that stays would keep a pipe open
            command = (sys.executable, "-m", "windlass", *serve)
            server = await asyncio.create_subprocess_exec(*command, stderr=errors)
        assert await server.wait()

    assert "listens there already" in (tmp_path / "errors").read_text()

    async def listens() -> bool:  # the server can be refused before its gateway has loaded
        connection = connect_to(folder, CONTROL, socket.SOCK_STREAM)
        if connection:
            connection.close()
        return connection is not None

    if has_visitors:
        await until(listens)
        (process,) = processes_of(folder)
        os.kill(process, signal.SIGTERM)

    async def has_gone() -> bool:
        return not processes_of(folder)

    await until(has_gone)


async def _leave_a_route(folder: Path) -> None:
    """Leaves a gateway that was killed, with a route in its journal."""
    async with AsyncExitStack() as stack:
        town = GatewayTown(folder, stack)
        await town.router.start()
        await town.router.set("s1", [route([Endpoint("127.0.0.1", 9)], service="s1")])
        await town.router.stop()
        (process,) = processes_of(folder)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    assert socket_of(folder, CONTROL).exists()
