"""A router that was left gives its clients away, and answers none of them for long."""

from __future__ import annotations

import asyncio
import math
import os
import socket

import pytest

from tests.gateway.routers.town import Heard, Town, make_town, reply, request, until
from windlass.routers.builtin.shared_state import ClientWait


async def gated(town: Town, gate: asyncio.Event) -> list[str]:
    """Has the shop answer when the gate is open; returns the targets that it is asked for."""
    asked: list[str] = []

    async def answer(heard: Heard) -> None:
        asked.append(heard.target)
        await gate.wait()
        heard.out.write(reply(heard.target.encode()))

    await town.shop(await town.instance("one", answer))
    return asked


async def test_a_busy_client_is_handed_over_to_the_successor_after_its_current_answer():
    async with make_town() as town:
        given: list[int] = []
        gate = asyncio.Event()
        asked, caller = await gated(town, gate), await town.caller()
        await caller.send(request("/1"))
        await until(lambda: asked)
        town.router.leave(lambda _, file, waited: given.append(file))
        gate.set()
        assert (await caller.said()).body == b"/1"
        await caller.send(request("/2"))
        await until(lambda: given)
        assert os.read(given[0], 1000) == request("/2")
        assert asked == ["/1"]
        os.close(given[0])


@pytest.mark.parametrize(("until_when", "answered"), [(math.inf, ["/1", "/2"]), (0.0, ["/1"])])
async def test_a_retiring_router_stops_answering_pipelined_requests_after_its_deadline(
    until_when: float, answered: list[str]
):
    async with make_town() as town:
        gate = asyncio.Event()
        asked, caller = await gated(town, gate), await town.caller()
        await caller.send(request("/1") + request("/2"))
        await until(lambda: asked)
        town.router.leave(lambda _, file, waited: os.close(file))
        town.router._shared.answers_until = until_when
        gate.set()
        rest = await caller.rest()
        assert rest.count(b"HTTP/1.1 200") == len(answered)
        assert asked == answered


async def test_a_handed_over_client_that_sent_no_request_keeps_its_original_head_timeout():
    async with make_town() as predecessor, make_town(head_seconds=0.2, idle_seconds=1000.0) as successor:
        for town in (predecessor, successor):
            await town.shop(await town.instance("one"))
        silent, served = await predecessor.caller(), await predecessor.caller()
        await served.ask(request())
        await until(lambda: predecessor.router.connections == 2)
        waits: list[bool] = []

        def give(_: int, file: int, waited: ClientWait) -> None:
            waits.append(waited.served)
            successor.router.adopt(socket.socket(fileno=file), successor.router.port, waited)

        predecessor.router.leave(give)
        await until(lambda: len(waits) == 2)
        assert await silent.rest() == b""
        assert (await served.ask(request())).status == 200
        assert sorted(waits) == [False, True]
