"""Open connections of a person end with the rights: a terminal, a followed log, a stream of events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from tests.identity.browsers import Browser
from tests.identity.issuer import invite, members, role
from tests.identity.test_provider_sign_ins import ADA, CodeIssuer, come_back, provider_of
from tests.running.deployments import deployed
from tests.schemathesis.serving import served
from tests.world import World, make_world
from windlass.api.streaming import Streams
from windlass.core.access import Scope

End = Callable[[World, Browser], Awaitable[Any]]


async def reduce(world: World, browser: Browser) -> None:
    change = {"user_id": (await members(world))[ADA]["id"], "role_id": role(Scope.READ)}
    assert (await world.put(f"/organization/{world.org}/member", change)).status == 200


async def remove(world: World, browser: Browser) -> None:
    body = {"user_id": (await members(world))[ADA]["id"]}
    assert (await world.delete(f"/organization/{world.org}/member", body)).status == 204


async def sign_out(world: World, browser: Browser) -> None:
    assert (await browser.call("DELETE", "/account/browserSession/current")).status == 204


async def rename_nothing(world: World, browser: Browser) -> None:
    """The negative control: another person changes."""
    await invite(world, "bob@example.com", Scope.READ)


ENDS: dict[str, tuple[End, bool]] = {
    "a role is reduced": (reduce, True),
    "the member is removed": (remove, True),
    "the session is ended": (sign_out, True),
    "the control": (rename_nothing, False),
}


@pytest.fixture
def issuer(clock) -> CodeIssuer:
    return CodeIssuer(clock)


@pytest.fixture
async def world(database_url, clock, issuer: CodeIssuer) -> AsyncIterator[World]:
    options = {"clock": clock, "fetcher": issuer.fetch, "out": issuer}
    async with make_world(database_url, oidc_providers=provider_of(issuer), **options) as made:
        streams = made.installation.app._streams = Streams(quiet=1000.0, ping_interval=0.05)
        made.installation.app._executions._streams = streams
        yield made


async def signed_in(world: World, issuer: CodeIssuer) -> Browser:
    await invite(world, ADA, Scope.DEPLOY)
    browser = Browser(world)
    browser.key = (await come_back(browser, issuer)).headers["location"].partition("#key=")[2]
    assert await browser.is_signed_in()
    return browser


@pytest.mark.parametrize(("end", "ends"), ENDS.values(), ids=ENDS)
async def test_quiet_terminals_and_streams_of_a_removed_member_end_with_a_reason(
    world: World, issuer: CodeIssuer, end: End, ends: bool
):
    app = await deployed(world)
    browser = await signed_in(world, issuer)
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    headers = {"cookie": cookie, "x-windlass-page-key": browser.key}
    follow = [f"/organization/{world.org}/events/stream", f"/application/{app}/log?follow=true"]
    async with served(world) as address, aiohttp.ClientSession() as http:
        socket = await http.ws_connect(
            f"{address}/application/{app}/exec",
            headers={"cookie": cookie, "origin": address},
            protocols=("windlass", browser.key),
        )
        streams = [await http.get(f"{address}{path}", headers=headers) for path in follow]
        assert [stream.status for stream in streams] == [200, 200]
        texts = [asyncio.ensure_future(stream.text()) for stream in streams]
        closing = asyncio.ensure_future(socket.receive())
        await end(world, browser)
        await asyncio.wait([closing, *texts], timeout=20 if ends else 1)
        assert [task.done() for task in (closing, *texts)] == [ends] * 3
        if ends:
            assert (closing.result().type, closing.result().data) == (aiohttp.WSMsgType.CLOSE, 1008)
            for text in texts:
                last = text.result().strip().rpartition("\n\n")[2]
                kind, _, data = last.partition("\ndata: ")
                assert kind == "event: refused"
                assert "connect again" in json.loads(data)["message"]
        for task in (closing, *texts):
            task.cancel()
        world.installation.app.stop_streams()


async def test_a_member_who_is_removed_signs_in_again_after_another_invitation(
    world: World, issuer: CodeIssuer
):
    """The session of before does not come back with the new membership."""
    before = await signed_in(world, issuer)
    await remove(world, before)
    assert not await before.is_signed_in()
    again = await signed_in(world, issuer)
    assert not await before.is_signed_in()
    assert await again.is_signed_in()


async def test_a_member_of_another_organization_stays_signed_in_there(world: World, issuer: CodeIssuer):
    """The negative control."""
    second = await world.post("/organization", {"name": "Second"})
    await invite(world, ADA, Scope.READ, second["id"], token=second["admin_token"])
    browser = await signed_in(world, issuer)
    await remove(world, browser)
    assert await browser.is_signed_in()
