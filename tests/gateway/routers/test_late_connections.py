"""A connection to an instance that fails when its request has ended does not disturb later requests."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from tests.gateway.routers.town import SHOP, Caller, Heard, Town, reply, request, until
from windlass.routers.rules import RouteRules


class HeldDials:
    """Connections to instances, each of which is made or refused when the test says so."""

    def __init__(self, town: Town) -> None:
        self.held: list[asyncio.Future[bool]] = []
        """Set to whether the instance is reached."""
        self._shared = town.router._shared
        self._dial = self._shared._connect_to_peer
        cast(Any, self._shared)._connect_to_peer = self._hold

    async def _hold(self, peer: Any, make: Any, done: Any, refused: Any, seconds: float) -> None:
        held = asyncio.get_running_loop().create_future()
        self.held.append(held)
        if await held:
            await self._dial(peer, make, done, refused, seconds)
        else:
            refused(peer)

    def go_on(self) -> None:
        """Makes further connections at once."""
        cast(Any, self._shared)._connect_to_peer = self._dial

    async def refuse(self, number: int) -> None:
        self.held[number].set_result(False)
        for _ in range(4):
            await asyncio.sleep(0)


async def caller_whose_first_request_was_given_up(town: Town) -> Caller:
    """The connection to the instance is still being made."""
    caller = await town.caller()
    assert (await caller.ask(request("/first"))).status == 504
    return caller


async def say_target(heard: Heard) -> None:
    heard.out.write(reply(heard.target.encode()))


LATE = RouteRules(answer_seconds=cast(Any, 0.05))


async def test_a_request_at_an_instance_is_not_sent_again_by_a_late_failure(town: Town) -> None:
    answered = asyncio.Event()

    async def wait(heard: Heard) -> None:
        if heard.method == "POST":
            await answered.wait()
        await say_target(heard)

    shop = await town.instance(answer=wait)
    await town.shop(shop, rules=LATE)
    dials = HeldDials(town)
    caller = await caller_whose_first_request_was_given_up(town)
    dials.go_on()
    await town.shop(shop)  # without a limit
    assert (await town.ask(request("/other"))).status == 200  # its connection is kept
    await caller.send(request("/second", "POST", SHOP, body=b"order"))
    await until(lambda: len(shop.heard) == 2)
    await dials.refuse(0)
    answered.set()
    assert (await caller.said()).body == b"/second"
    assert (await caller.ask(request("/third"))).body == b"/third"
    assert [heard.method for heard in shop.heard] == ["GET", "POST", "GET"]
    await until(lambda: town.active() == 0)


async def test_a_connection_for_a_later_request_is_awaited_after_a_late_failure(town: Town) -> None:
    shop = await town.instance(answer=say_target)
    await town.shop(shop, rules=LATE)
    dials = HeldDials(town)
    caller = await caller_whose_first_request_was_given_up(town)
    await town.shop(shop)
    await caller.send(request("/second"))
    await until(lambda: len(dials.held) == 2)
    await dials.refuse(0)
    dials.go_on()
    dials.held[1].set_result(True)
    assert (await caller.said()).body == b"/second"
    (peer,) = town.router._shared.peers.values()
    await until(lambda: peer.active == 0)
