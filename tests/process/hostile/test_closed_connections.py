"""A service with very many connections that it has closed, and that still send, is ended before the kernel
resets those of others."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.engines.processes import ProcessRig
from tests.engines.stations import Station, until, wanted
from tests.needs import needs_root
from windlass.base import closed_connections

CLOSES_50 = """
import signal, socket, time
listening = socket.socket()
listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
listening.bind(("127.0.0.1", 9000))
listening.listen(64)
never_read = []
for _ in range(50):
    sender = socket.socket()
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2304)
    sender.connect(("127.0.0.1", 9000))
    never_read.append(listening.accept()[0])
    sender.setblocking(False)
    try:
        while True:
            sender.send(b"x" * 8192)
    except BlockingIOError:
        sender.close()
print("has closed 50", flush=True)
signal.pause()
"""
WAITS_FOR_50 = """
import signal, socket
listening = socket.create_server(("127.0.0.1", 9000), backlog=64)
never_closed = []
for _ in range(50):
    sender = socket.create_connection(("127.0.0.1", 9000))
    sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_LINGER2, SECONDS)
    never_closed.append(listening.accept()[0])
    sender.close()
print("has closed 50", flush=True)
signal.pause()
"""
MOST = 60


@needs_root
@pytest.mark.parametrize(("present", "is_ended"), [(MOST // 2 + 1, True), (MOST // 2, False)])
async def test_the_service_with_the_most_half_closed_connections_is_ended_once_half_the_limit_is_used(
    tmp_path, monkeypatch, present, is_ended
):
    async with Station(ProcessRig(tmp_path)) as station:
        it = wanted(await station.rig.artifact(CLOSES_50))
        await station.apply(it)
        await station.hears("has closed 50")
        monkeypatch.setattr(closed_connections, "most", lambda: MOST)
        monkeypatch.setattr(closed_connections, "present", lambda: present)
        if is_ended:
            assert "closed 50 connections whose other side" in (await station.ended(it.service)).reason
        else:
            engine: Any = station.engine
            await engine._resource_monitor._share_closed_connections()
            assert not (await station.one(it.service)).reason
        monkeypatch.undo()
        await station.engine.sweep(await station.engine.services())


@needs_root
@pytest.mark.parametrize(("seconds", "count"), [(120, 50), (30, 0)])
async def test_only_connections_that_still_wait_for_the_peer_count(tmp_path, seconds, count):
    """The kernel keeps no more than a note of those that wait for a minute at most."""
    async with Station(ProcessRig(tmp_path)) as station:
        it = wanted(await station.rig.artifact(WAITS_FOR_50.replace("SECONDS", str(seconds))))
        await station.apply(it)
        await station.hears("has closed 50")
        engine: Any = station.engine
        [record] = [engine._records.read(key) for key in engine._records.find()]

        async def are_so_many() -> bool:  # once the other side has confirmed all
            return bool(closed_connections.in_network_of(record.process.pid) == count)

        await until(are_so_many)
        await station.engine.sweep(await station.engine.services())


def test_the_kernel_reports_the_limit_of_half_closed_connections() -> None:
    assert 0 <= closed_connections.present() < closed_connections.most() < 1 << 40
    assert closed_connections.in_network_of(os.getpid()) <= closed_connections.present()
