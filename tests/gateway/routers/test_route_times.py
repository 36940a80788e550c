"""Time limits of a route's connections, in place of those of the gateway."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tests.gateway.routers.exchanges import MUCH
from tests.gateway.routers.town import SHOP, Heard, Town, make_town, reply, request, until
from windlass.routers.rules import RouteRetry, RouteRules, RouteTimes


async def shop(town: Town, answer: Any = None, times: RouteTimes | None = None, **options: Any) -> Any:
    instance = await town.instance(answer=answer, **options)
    await town.shop(instance, rules=RouteRules(times=times or RouteTimes()))
    return instance


@pytest.fixture
async def town():
    async with make_town(pause_seconds=0.04) as made:  # limits are checked four times as often
        yield made


async def test_a_connection_without_requests_is_closed_after_the_time_of_its_route(town: Town) -> None:
    await shop(town, times=RouteTimes(idle=0.05))
    caller = await town.caller()
    await caller.ask(request())
    assert await caller.rest() == b""


async def test_a_connection_may_stay_longer_than_usual() -> None:
    async with make_town(idle_seconds=0.05) as town:
        await shop(town, times=RouteTimes(idle=30))
        caller = await town.caller()
        await caller.ask(request())
        await asyncio.sleep(0.2)
        assert (await caller.ask(request())).status == 200


async def test_an_old_connection_takes_one_last_request(town: Town) -> None:
    await shop(town, times=RouteTimes(connection=3600))
    caller = await town.caller()
    assert "connection" not in (await caller.ask(request())).fields
    (client,) = cast(Any, town.router._shared.connections.members)
    client._opened -= 3601
    assert (await caller.ask(request())).fields["connection"] == "close"
    assert await caller.rest() == b""


async def test_an_instance_that_takes_nothing_of_a_request_is_given_up(town: Town) -> None:
    async def wait(heard: Heard) -> None:
        await asyncio.sleep(30)

    await shop(town, wait, RouteTimes(take_request=0.2), reads_bodies=False)
    caller = await town.caller()
    await caller.send(request("/", "POST", SHOP, f"Content-Length: {MUCH}"))
    writing = asyncio.create_task(caller.send(b"x" * MUCH))
    assert (await caller.said()).status == 504
    writing.cancel()
    await until(lambda: town.active() == 0)


async def test_a_client_that_takes_nothing_of_an_answer_is_cut_off(town: Town) -> None:
    async def much(heard: Heard) -> None:
        heard.out.write(reply(b"x" * MUCH))

    await shop(town, much, RouteTimes(take_answer=0.2))
    caller = await town.caller()
    await caller.send(request())
    await until(lambda: town.router.traffic()["shop"].requests == 1)
    await until(lambda: town.active() == 0)
    assert len(await caller.rest()) < MUCH


async def test_a_client_may_pause_for_longer_than_usual() -> None:
    async def much(heard: Heard) -> None:
        heard.out.write(reply(b"x" * MUCH))

    async with make_town(stall_seconds=0.1) as town:
        await shop(town, much, RouteTimes(take_answer=30))
        caller = await town.caller()
        await caller.send(request())
        await until(lambda: town.active() == 1)
        await asyncio.sleep(0.4)
        assert town.active() == 1
        assert len((await caller.said()).body) == MUCH


async def test_an_answer_without_end_has_no_limit(town: Town) -> None:
    async def stream(heard: Heard) -> None:
        heard.out.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(4):
            await asyncio.sleep(0.1)
            heard.out.write(b"1\r\nx\r\n")
        heard.out.write(b"0\r\n\r\n")

    times = RouteTimes(take_request=0.05, take_answer=0.05, idle=0.05, connection=0.05)
    await shop(town, stream, times)
    assert (await town.ask(request())).body == b"xxxx"


LIMITED = [
    RouteRules(answer_seconds=cast(Any, 0.5)),
    RouteRules(retry=RouteRetry(1, ("reset",), try_seconds=0.5)),
]


@pytest.mark.parametrize("rules", LIMITED, ids=["in all", "one try"])
async def test_the_limit_for_an_answer_begins_when_the_request_has_arrived(
    town: Town, rules: RouteRules
) -> None:
    async def answer(heard: Heard) -> None:
        if heard.target == "/slow":
            await asyncio.sleep(30)
        heard.out.write(reply(heard.body))

    await town.shop(await town.instance(answer=answer), rules=rules)
    for target, status in (("/quick", 200), ("/slow", 504)):
        caller = await town.caller()
        await caller.send(request(target, "POST", SHOP, "Content-Length: 8"))
        for _ in range(8):
            await asyncio.sleep(0.1)
            await caller.send(b"x")
        assert (await caller.said()).status == status
    await until(lambda: town.active() == 0)


@pytest.mark.parametrize("rules", LIMITED, ids=["in all", "one try"])
async def test_an_instance_that_takes_nothing_of_an_upload_is_late(town: Town, rules: RouteRules) -> None:
    async def wait(heard: Heard) -> None:
        await asyncio.sleep(30)

    await town.shop(await town.instance(answer=wait, reads_bodies=False), rules=rules)
    caller = await town.caller()
    await caller.send(request("/", "POST", SHOP, f"Content-Length: {MUCH}"))
    writing = asyncio.create_task(caller.send(b"x" * MUCH))
    assert (await caller.said()).status == 504
    writing.cancel()


async def test_the_limit_for_connecting_is_that_of_the_route(town: Town, monkeypatch) -> None:
    limits = []

    async def dial(peer: Any, make: Any, done: Any, refused: Any, seconds: float) -> None:
        limits.append(seconds)
        refused(peer)

    monkeypatch.setattr(town.router._shared, "_connect_to_peer", dial)
    for times in (RouteTimes(), RouteTimes(connect=30)):
        await shop(town, times=times)
        assert (await town.ask(request())).status == 503
    assert limits == [5.0, 30]
