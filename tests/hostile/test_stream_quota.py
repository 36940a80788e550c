"""Event streams and websockets of one caller, or of one organization, leave places for those of others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.schemathesis.serving import served
from tests.world import ADMIN, World, make_world
from windlass.api.quota import StreamPlace, StreamQuota
from windlass.base.errors import TooMany


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made:
        yield made


@pytest.fixture
async def address(world: World) -> AsyncIterator[str]:
    async with served(world) as found:
        yield found
        world.installation.app.stop_streams()


def filled(quota: StreamQuota, org: str, caller: str) -> list[StreamPlace]:
    """As many places as this caller gets."""
    places = []
    try:
        while True:
            places.append(quota.take(org, caller))
    except TooMany:
        return places


@pytest.mark.parametrize("most", [1, 2, 7, 192, 7500])
def test_callers_at_their_stream_limit_leave_streams_for_others(most):
    quota, left = StreamQuota(most), most
    for org in range(5):
        for caller in range(5):
            left -= len(filled(quota, f"org-{org}", f"caller-{org}-{caller}"))
        assert left > 0 or most < 64
    assert len(filled(quota, "another", "one")) > 0 or most < 64


def test_one_caller_may_use_a_third_and_one_organization_half_of_all_streams():
    assert len(filled(StreamQuota(300), "org", "caller")) == 100
    quota = StreamQuota(300)
    assert sum(len(filled(quota, "org", f"caller-{number}")) for number in range(50)) == 150


def test_without_the_shares_one_caller_would_take_every_place():
    quota, taken = StreamQuota(300), 0
    for number in range(300):
        quota.take(f"org-{number}", f"caller-{number}")  # each of another organization
        taken += 1
        if quota._total == quota.most:
            break
    assert taken == 300


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=80))
def test_every_ended_stream_is_returned_to_the_quota(steps):
    quota = StreamQuota(40)
    places: list[StreamPlace] = []
    for org, caller, comes in steps:
        if comes or not places:
            try:
                places.append(quota.take(str(org), f"{org}.{caller}"))
            except TooMany:
                continue
        else:
            with places.pop(org % len(places)):
                pass
        assert quota._total == len(places) == sum(quota._by_org.values()) == sum(quota._by_caller.values())
    for place in places:
        with place:
            pass
    assert (quota._total, dict(quota._by_org), dict(quota._by_caller)) == (0, {}, {})


async def paths_of(world: World, org: str, token: str) -> dict[str, str]:
    """Each kind of stream."""
    world.org, world.token = org, token
    environment = await world.environment()
    app = await world.application(environment)
    deployment = (await world.post(f"/application/{app}/deploy"))["id"]
    return {
        "events": f"/organization/{org}/events/stream",
        "statuses": f"/environment/{environment}/status/stream",
        "log": f"/application/{app}/log?follow=true",
        "deployment": f"/application/{app}/deployment/{deployment}/stream",
        "build log": f"/application/{app}/deployment/{deployment}/log?follow=true",
        "websocket": f"/service/logs?service={app}",
    }


KINDS = ("events", "statuses", "log", "deployment", "build log", "websocket")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stream_beyond_the_share_of_its_caller_is_refused_with_429(world, address, kind):
    world.installation.app.stream_quota.most = 6
    path = (await paths_of(world, world.org, ADMIN))[kind]
    headers = {"Authorization": f"Token {ADMIN}"}
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession(headers=headers))
        for _ in range(2):
            if kind == "websocket":
                await stack.enter_async_context(session.ws_connect(address + path))
            else:
                answer = await stack.enter_async_context(session.get(address + path))
                assert answer.status == 200, await answer.text()
        refused = await stack.enter_async_context(
            session.get(address + path, headers=_opening() if kind == "websocket" else {})
        )
        assert refused.status == 429
        assert int(refused.headers["retry-after"]) > 0
        assert "Close event streams" in (await refused.json())["message"]
        assert (await stack.enter_async_context(session.get(f"{address}/organization"))).status == 200
    await closed(world)
    async with aiohttp.ClientSession(headers=headers) as session:
        if kind == "websocket":
            async with session.ws_connect(address + path):
                pass
        else:
            async with session.get(address + path) as answer:
                assert answer.status == 200


def _opening() -> dict[str, str]:
    return {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }


async def closed(world: World) -> None:
    async with asyncio.timeout(10):
        while world.installation.app.stream_quota._total:  # noqa: ASYNC110 (clients leave without notice)
            await asyncio.sleep(0.01)


async def test_an_organization_at_its_stream_limit_leaves_streams_for_another(world, address):
    quota = world.installation.app.stream_quota
    quota.most = 8
    other, token = await world.organization()
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        tokens = [ADMIN, *[await world.new_token("Read") for _ in range(4)]]
        answers = []
        for one in tokens:
            for _ in range(3):
                url = f"{address}/organization/{world.org}/events/stream"
                headers = {"Authorization": f"Token {one}"}
                answers.append((await stack.enter_async_context(session.get(url, headers=headers))).status)
        assert answers.count(200) == 4
        assert set(answers) == {200, 429}
        url, headers = f"{address}/organization/{other}/events/stream", {"Authorization": f"Token {token}"}
        assert (await stack.enter_async_context(session.get(url, headers=headers))).status == 200
