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

from tests.gateway.conftest import GatewayTown, processes_of
from tests.routers.town import route
from tests.whole import until
from windlass.base.private import private_folder
from windlass.gateway.files import CONTROL, folder_of
from windlass.gateway.link import GatewayLink
from windlass.gateway.messages import Ask, Open
from windlass.gateway.starting import end_gateway, start_missing_gateway
from windlass.routers.router import Endpoint

pytestmark = pytest.mark.elsewhere


async def test_a_server_uses_the_gateway_that_was_started_for_it(tmp_path: Path) -> None:
    folder = private_folder(tmp_path / "gateway")
    started = start_missing_gateway(folder)
    link = GatewayLink(folder, started)
    try:
        await link.start(Open("local", "127.0.0.1", 0))
        assert (await link.call(Ask())).process == started
    finally:
        await link.stop()
        end_gateway(started)


async def test_a_gateway_that_runs_is_not_started_again(town: GatewayTown) -> None:
    assert start_missing_gateway(town.folder) == 0


async def test_a_server_that_is_refused_leaves_no_gateway(tmp_path: Path) -> None:
    await _leave_a_route(folder_of(str(tmp_path)))  # a gateway without any would end by itself

    with socket.create_server(("127.0.0.1", 0)) as taken:
        serve = ("serve", "--port", str(taken.getsockname()[1]), "--data-dir", str(tmp_path))
        server = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "windlass", *serve), stderr=asyncio.subprocess.PIPE
        )
        _, errors = await server.communicate()

    assert server.returncode
    assert b"listens there already" in errors

    async def has_gone() -> bool:
        return not processes_of(folder_of(str(tmp_path)))

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
    assert (folder / CONTROL).exists()
