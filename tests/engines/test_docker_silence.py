"""A Docker engine that does not answer is away after some seconds; the kernel notices a dead host."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from windlass.docker.transports import KEEPALIVE, _end_when_silent
from windlass.engines.docker import DockerEngine, watch


@pytest.mark.parametrize(("seconds", "is_away"), [(0.0, True), (1000.0, False)])
async def test_an_engine_that_does_not_answer_is_away_after_some_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, is_away: bool
):
    monkeypatch.setattr(watch, "AWAY_AFTER", seconds)
    engine = DockerEngine(host=f"unix://{tmp_path}/nothing", folder=tmp_path, installation="test")
    assert not engine.is_away
    await engine.start(lambda service: None, lambda service, lines: None)
    assert engine.is_away == is_away
    await engine.stop()


def test_the_kernel_ends_a_connection_to_a_dead_host():
    with socket.socket() as connection:
        _end_when_silent(connection)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert {
            option: connection.getsockopt(socket.IPPROTO_TCP, option) for option in KEEPALIVE
        } == KEEPALIVE
