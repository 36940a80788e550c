"""A Docker engine that does not answer is away after some seconds; the kernel notices a dead host."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from tests.certificates import authority
from tests.hostile.engines import HostileEngine, hangs, says
from windlass.docker import watch
from windlass.docker.client import client
from windlass.docker.client.transports import KEEPALIVE, _end_when_silent
from windlass.docker.engine import DockerEngine


async def until(is_true: Callable[[], bool]) -> None:
    while not is_true():  # noqa: ASYNC110 (nothing notifies of a change)
        await asyncio.sleep(0.01)


@asynccontextmanager
async def engine_at(folder: Path) -> AsyncIterator[tuple[DockerEngine, HostileEngine]]:
    """An engine whose Docker answers what a test says, on a socket file."""
    answering = HostileEngine(authority(folder / "ca"))
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answering.answer)
    runner = web.AppRunner(app, shutdown_timeout=0, handler_cancellation=True)
    await runner.setup()
    await web.UnixSite(runner, folder / "docker.sock").start()
    engine = DockerEngine(host=f"unix://{folder}/docker.sock", folder=folder / "engine", installation="test")
    await engine.start(lambda service: None, lambda service, lines: None)
    try:
        yield engine, answering
    finally:
        await engine.stop()
        await runner.cleanup()


@pytest.mark.parametrize(("seconds", "is_unavailable"), [(0.0, True), (1000.0, False)])
async def test_an_engine_that_never_answered_is_unavailable_after_a_delay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, is_unavailable: bool
):
    monkeypatch.setattr(watch, "AWAY_AFTER", seconds)
    engine = DockerEngine(host=f"unix://{tmp_path}/nothing", folder=tmp_path, installation="test")
    assert not engine.is_unavailable
    await engine.start(lambda service: None, lambda service, lines: None)
    assert engine.is_unavailable == is_unavailable
    await engine.stop()


async def test_a_hanging_engine_is_unavailable_until_it_answers_a_ping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(watch, "AWAY_AFTER", 0.0)
    monkeypatch.setattr(watch, "CHECK_INTERVAL", 0.01)
    monkeypatch.setattr(client, "CONNECT_TIMEOUT", 0.2)
    async with engine_at(tmp_path) as (engine, hostile):
        answered = len(hostile.asked)
        await until(lambda: hostile.asked[answered:].count("GET /_ping") > 5)
        assert not engine.is_unavailable, "the control: it answers"
        hostile.answers["/_ping"] = hangs
        await until(lambda: engine.is_unavailable)
        hostile.answers["/_ping"] = says("OK")
        await until(lambda: not engine.is_unavailable)


def test_the_kernel_ends_a_connection_to_a_dead_host():
    with socket.socket() as connection:
        _end_when_silent(connection)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert {
            option: connection.getsockopt(socket.IPPROTO_TCP, option) for option in KEEPALIVE
        } == KEEPALIVE
