"""While the server cannot read its database, streams say so, tell nothing else, and give no false reason."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from tests.logs.sockets import logs
from tests.logs.streams import asked, say, settled
from tests.running.deployments import deployed
from tests.websockets import CLOSE, connected
from tests.world import ADMIN, World
from windlass.api import executions
from windlass.base.errors import Unavailable

HEADERS = {"Authorization": f"Token {ADMIN}"}


@pytest.fixture
async def app(world: World) -> str:
    return await deployed(world)


@pytest.fixture
def outage(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Begins an outage; `monkeypatch.undo` ends it."""
    authenticator = world.installation.authenticator

    async def away(*_: Any) -> None:
        raise Unavailable("The database cannot be reached")

    def begin() -> None:
        monkeypatch.setattr(authenticator, "admit", away)
        monkeypatch.setattr(authenticator, "recent_verdict", lambda *_: None)

    return begin


def hurry(world: World, quiet: float) -> None:
    streams = world.installation.app._streams
    streams._ask, streams._quiet = 0.02, quiet


async def test_an_idle_stream_reports_a_database_outage_once_and_its_end(
    world: World, address: str, app: str, outage, monkeypatch: pytest.MonkeyPatch
):
    hurry(world, quiet=0.1)
    paths = (f"/organization/{world.org}/events/stream", f"/application/{app}/log?follow=true")
    for path in paths:
        async with asked(address, path) as client:
            if path.startswith("/organization"):
                await client.mark()
            else:
                say(world, app, "a line")
                await client.events(1)
            outage()
            (told,) = await client.events(1)
            assert (told.kind, told.data["seconds"] >= 0) == ("unavailable", True)
            assert "cannot read its database" in told.data["message"]
            comments = client.comments
            heard = asyncio.ensure_future(client.events(1))
            await settled(lambda client=client, comments=comments: client.comments > comments + 2)
            monkeypatch.undo()
            assert [event.kind for event in await heard] == ["available"]


async def test_without_an_outage_an_idle_stream_sends_only_comments(world: World, address: str, app: str):
    """The negative control."""
    hurry(world, quiet=0.05)
    async with asked(address, f"/application/{app}/log?follow=true") as client:
        heard = asyncio.ensure_future(client.events(1))
        await settled(lambda: client.comments > 3)
        say(world, app, "a line")
        assert [event.kind for event in await heard] == [""]


async def test_a_log_line_during_a_database_outage_is_delivered_after_the_reconnect(
    world: World, address: str, app: str, outage, monkeypatch: pytest.MonkeyPatch
):
    path = f"/application/{app}/log?follow=true"
    async with asked(address, path) as client:
        say(world, app, "before")
        (before,) = await client.events(1)
        outage()
        say(world, app, "meanwhile")
        assert [event.kind for event in await client.rest()] == ["unavailable"]
    monkeypatch.undo()
    async with asked(address, path, last_event_id=before.id) as client:
        assert await client.lines(1) == ["meanwhile"]


@pytest.mark.parametrize("is_revoked", [False, True], ids=["database outage", "revoked token"])
async def test_a_websocket_closed_by_a_database_outage_has_another_code_than_for_a_revoked_token(
    world: World, address: str, app: str, outage, is_revoked: bool
):
    token = await world.new_token("Read")
    [known] = (await world.get(f"/organization/{world.org}/apiToken"))["results"]
    async with connected(address, logs(app), authorization=f"Token {token}") as client:
        say(world, app, "before")
        await client.frame()
        if is_revoked:
            await world.delete(f"/organization/{world.org}/apiToken/{known['id']}")
        else:
            outage()
        say(world, app, "after")
        closed = await client.frame()
        assert (closed.kind, closed.code) == (CLOSE, 1008 if is_revoked else 1013)


@pytest.mark.parametrize("is_revoked", [False, True], ids=["database outage", "revoked token"])
async def test_a_command_ended_by_a_database_outage_gets_the_reason(
    world: World, address: str, app: str, outage, is_revoked: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(executions, "UNCHECKED_TIMEOUT", 0.1)
    monkeypatch.setattr(executions, "CHECK_INTERVAL", 0.02)
    token = await world.new_token("Deploy")
    [known] = (await world.get(f"/organization/{world.org}/apiToken"))["results"]
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(
            f"{address}/application/{app}/exec", headers={"Authorization": f"Token {token}"}
        ) as socket,
    ):
        if is_revoked:
            await world.delete(f"/organization/{world.org}/apiToken/{known['id']}")
        else:
            outage()
        message = await socket.receive(timeout=20)
        assert message.type == aiohttp.WSMsgType.CLOSE
        assert message.data == (1008 if is_revoked else 1013)
        assert ("database" in str(message.extra)) is not is_revoked
