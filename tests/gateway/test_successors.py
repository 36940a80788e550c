"""A successor that does not take over leaves the gateway as it was."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from tests.gateway.gateway_town import GatewayTown
from tests.gateway.routers.town import request, until
from windlass.gateway import handover, link
from windlass.gateway.doors import Doors
from windlass.gateway.files import HANDOVER, JOURNAL, connect_to, listen_at
from windlass.gateway.handover import Succession
from windlass.gateway.journal import Journal
from windlass.gateway.messages import SuccessorServes, encode
from windlass.routers.router import Endpoint


async def no_elders(endpoints: Sequence[Endpoint], timeout: float) -> None:
    """This gateway is the first."""


async def test_a_silent_successor_does_not_block_route_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(handover, "_SUCCESSOR_TIMEOUT", 0.05)
    changing, relieved = asyncio.Lock(), asyncio.Event()
    listening = listen_at(tmp_path, HANDOVER, socket.SOCK_SEQPACKET)
    doors = Doors(Journal(tmp_path / JOURNAL), tmp_path)
    with closing(Succession(listening, doors, doors.sockets, changing, no_elders, relieved.set)):
        for _ in range(2):
            silent = connect_to(tmp_path, HANDOVER, socket.SOCK_SEQPACKET)
            assert silent
            with closing(silent):
                while not changing.locked():  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
                async with changing:
                    assert not relieved.is_set()
                silent.setblocking(True)
                assert await asyncio.to_thread(silent.recv, 1000)
                assert await asyncio.to_thread(silent.recv, 1000) == b""


async def test_a_route_change_during_a_handover_is_made_by_the_successor(
    town: GatewayTown, monkeypatch: pytest.MonkeyPatch
):
    await town.shop(await town.instance("one"))
    successor = connect_to(town.folder, HANDOVER, socket.SOCK_SEQPACKET)
    assert successor
    with closing(successor):
        successor.setblocking(True)
        assert await asyncio.to_thread(successor.recv, 1000)  # the sockets: changes wait from now on
        told = (town.folder / JOURNAL).read_bytes()
        with monkeypatch.context() as patched:
            patched.setattr(link, "start_gateway", lambda folder: os.getppid())
            changing = asyncio.create_task(town.shop(await town.instance("two")))
            await asyncio.wait([changing], timeout=0.2)
            successor.send(encode(SuccessorServes()))
            await until(lambda: not town.link._is_ready.is_set())
            assert not changing.done()
            assert (town.folder / JOURNAL).read_bytes() == told
    await changing
    assert (await town.ask(request())).body == b"two"
