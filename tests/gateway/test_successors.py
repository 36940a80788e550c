"""A successor that does not take over leaves the gateway as it was."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from windlass.gateway import handover
from windlass.gateway.doors import Doors
from windlass.gateway.files import HANDOVER, JOURNAL, connect_to, listen_at
from windlass.gateway.handover import Succession
from windlass.gateway.journal import Journal
from windlass.routers.router import Endpoint


async def no_elders(endpoints: Sequence[Endpoint], patience: float) -> None:
    """This gateway is the first."""


async def test_a_successor_that_never_answers_holds_up_no_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(handover, "_LONGEST_CHANGE", 0.05)
    path, changing, relieved = tmp_path / HANDOVER, asyncio.Lock(), asyncio.Event()
    listening = listen_at(path, socket.SOCK_SEQPACKET)
    doors = Doors(Journal(tmp_path / JOURNAL))
    with closing(Succession(listening, doors, changing, no_elders, relieved.set)):
        for _ in range(2):
            silent = connect_to(path, socket.SOCK_SEQPACKET)
            assert silent
            with closing(silent):
                while not changing.locked():  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
                async with changing:
                    assert not relieved.is_set()
                silent.setblocking(True)
                assert await asyncio.to_thread(silent.recv, 1000)
                assert await asyncio.to_thread(silent.recv, 1000) == b""
