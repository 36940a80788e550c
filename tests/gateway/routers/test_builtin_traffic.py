"""Requests are counted by service and status, and timed."""

from __future__ import annotations

import pytest

from tests.gateway.routers.exchanges import EMPTY_PORT
from tests.gateway.routers.town import (
    SHOP,
    Heard,
    Town,
    make_town,
    notice_leaving_clients,
    reply,
    request,
    route,
    until,
)
from windlass.routers.builtin import traffic as counting
from windlass.routers.builtin.traffic import Traffic


async def test_answers_are_counted_by_the_first_digit_of_their_status():
    statuses = iter(["200 OK", "302 Found", "404 Not Found", "500 Oh", "201 Created"])

    async def answer(heard: Heard) -> None:
        heard.out.write(reply(b"x", next(statuses)))

    async with make_town() as town:
        await town.shop(await town.instance("one", answer))
        caller = await town.caller()
        for _ in range(5):
            await caller.ask(request())
        traffic = town.router.traffic()["shop"]
        assert traffic.answers == [0, 0, 2, 1, 1, 1]
        assert traffic.requests == 5


async def test_error_answers_of_the_router_are_counted_for_the_service(town: Town):
    await town.router.set("shop", [route([EMPTY_PORT])])
    await town.ask(request())
    await town.shop()
    await town.ask(request())
    assert town.router.traffic()["shop"].answers == [0, 0, 0, 0, 0, 2]


async def test_a_client_that_leaves_before_its_answer_is_counted_as_such(town: Town):
    notice_leaving_clients(town)

    async def answer(heard: Heard) -> None:
        await heard.reader.read()

    one = await town.instance("one", answer)
    await town.shop(one)
    caller = await town.caller()
    await caller.send(request())
    await until(lambda: one.heard)
    await caller.close()
    await until(lambda: town.active() == 0)
    assert town.router.traffic()["shop"].answers == [1, 0, 0, 0, 0, 0]


async def test_an_upgraded_connection_is_counted_but_not_timed(town: Town):
    async def answer(heard: Heard) -> None:
        heard.out.write(b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n")
        await heard.reader.read()

    await town.shop(await town.instance("one", answer))
    caller = await town.caller()
    await caller.send(request("/", "GET", SHOP, "Upgrade: websocket", "Connection: upgrade"))
    await caller.reader.readuntil(b"\r\n\r\n")
    traffic = town.router.traffic()["shop"]
    assert (traffic.answers[1], traffic.active, sum(traffic.buckets)) == (1, 1, 0)


@pytest.mark.parametrize("often", [0.0, 1000.0])
async def test_sampled_request_times_are_weighted_to_the_number_of_requests(
    town: Town, monkeypatch: pytest.MonkeyPatch, often: float
):
    monkeypatch.setattr(counting, "_SAMPLING_SECONDS", often)
    timed = []
    monkeypatch.setattr(Traffic, "end", lambda traffic, began, weight: timed.append(weight))
    await town.shop(await town.instance("one"))
    caller = await town.caller()
    for _ in range(64):
        await caller.ask(request())
    assert set(timed) <= {1, 8}
    assert len(timed) == 64 if often == 0.0 else len(timed) <= 2 + 8
    assert 64 - 8 <= sum(timed) <= 64 + 8


def test_a_request_time_is_counted_in_the_first_bucket_whose_bound_it_does_not_exceed(
    monkeypatch: pytest.MonkeyPatch,
):
    traffic = Traffic()
    for bound in (*counting.LATENCY_BOUNDS, 1e9):
        monkeypatch.setattr(counting, "monotonic", lambda now=bound: now)
        traffic.end(0.0, 2)
    assert traffic.buckets == [2] * (len(counting.LATENCY_BOUNDS) + 1)
