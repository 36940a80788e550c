"""A release loses no request: endpoints are switched, drained and stopped while everybody calls."""

import asyncio

import pytest

from tests.gateway.routers.exchanges import upgrade
from tests.gateway.routers.town import SHOP, Town, make_town, reply, request, until

CALLERS = 8


async def quickly(heard):
    await asyncio.sleep(0.001 if heard.target.endswith("7") else 0)
    heard.out.write(reply(heard.target.encode() + heard.body))


class Crowd:
    """Clients that ask on and on over open connections, and count what was not answered well."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self.well = 0
        self.failed: list[str] = []
        self.over = False

    async def run(self) -> None:
        await asyncio.gather(*(self._ask(number) for number in range(CALLERS)))

    async def goes_on(self, more: int) -> None:
        enough = self.well + more
        await until(lambda: self.well >= enough or self.failed)

    async def _ask(self, client: int) -> None:
        caller = await self.town.caller()
        number = 0
        while not self.over:
            number += 1
            target, body = f"/{client}/{number}", b"x" * (number % 5)
            method = "POST" if body else "GET"
            try:
                said = await caller.ask(request(target, method, body=body))
            except (OSError, asyncio.IncompleteReadError) as error:
                self.failed.append(f"{method} {target}: {error!r}")
                caller = await self.town.caller()
                continue
            if (said.status, said.body) == (200, target.encode() + body):
                self.well += 1
            else:
                self.failed.append(f"{method} {target}: {said}")


async def release(town, crowd, *, drained):
    running = await town.instance(answer=quickly)
    await town.shop(running)
    asking = asyncio.create_task(crowd.run())
    for number in range(20):
        await crowd.goes_on(150)
        fresh = [await town.instance(answer=quickly) for _ in range(1 + number % 2)]
        await town.shop(*fresh)
        if drained:
            await town.router.drain([running.endpoint], 10)
        await running.stop()
        for each in fresh[1:]:  # scaled up, and down again
            await town.shop(fresh[0])
            await town.router.drain([each.endpoint], 10)
            await each.stop()
        running = fresh[0]
    crowd.over = True
    await asking


async def test_no_request_fails_during_twenty_releases(town):
    crowd = Crowd(town)
    await release(town, crowd, drained=True)
    assert crowd.failed == []
    assert crowd.well >= 3000
    assert town.active() == 0


async def test_without_draining_requests_are_lost(town):
    """Otherwise the test above would show nothing."""
    crowd = Crowd(town)
    await release(town, crowd, drained=False)
    assert crowd.failed


async def test_draining_waits_for_active_requests_but_not_for_idle_connections(town):
    go = asyncio.Event()

    async def slowly(heard):
        if heard.target == "/slow":
            await go.wait()
        heard.out.write(reply(b"done"))

    old, new = await town.instance(answer=slowly), await town.instance("new")
    await town.shop(old)
    idle, busy = await town.caller(), await town.caller()
    await busy.send(request("/slow"))
    await idle.ask(request())
    await until(lambda: len(old.heard) == 2)
    assert old.open == 2
    await town.shop(new)
    draining = asyncio.create_task(town.router.drain([old.endpoint], 60))
    await until(lambda: old.open == 1)
    assert (await idle.ask(request())).body == b"new"
    assert not draining.done()
    go.set()
    assert (await busy.said()).body == b"done"
    await draining
    await until(lambda: old.open == 0)
    await town.router.drain([old.endpoint], 60)


async def test_a_tunnel_stays_open_until_the_drain_timeout(town):
    async def tunnel(heard):
        heard.out.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        )
        heard.out.write(await heard.reader.readexactly(4))

    old = await town.instance(answer=tunnel)
    await town.shop(old)
    caller = await town.caller()
    assert (await caller.ask(upgrade("websocket"))).status == 101
    await town.shop()
    draining = asyncio.create_task(town.router.drain([old.endpoint], 0.1))
    await caller.send(b"ping")
    assert await caller.reader.readexactly(4) == b"ping"
    await draining
    assert await caller.rest() == b""
    await until(lambda: town.active() == 0)


async def test_draining_ends_after_its_timeout_without_breaking_off_requests(town):
    async def never(heard):
        await asyncio.Event().wait()

    old = await town.instance(answer=never)
    await town.shop(old)
    caller = await town.caller()
    await caller.send(request())
    await until(lambda: old.heard)
    await town.router.drain([old.endpoint], 0.02)
    assert town.active() == 1, "an ordinary request is not broken off by us"


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_draining_waits_for_requests_that_still_wait_for_a_connection(method):
    """Between being given to an endpoint and reaching it, it must not be forgotten by a drain."""
    async with make_town() as town:
        shop = await town.instance(answer=quickly)
        await town.shop(shop)
        callers = [await town.caller() for _ in range(30)]
        for number, each in enumerate(callers):
            await each.send(request(f"/{number}", method, SHOP, body=b"x"))
        await until(lambda: town.active())
        await town.shop()
        await town.router.drain([shop.endpoint], 10)
        await shop.stop()
        said = [await each.said() for each in callers]
        assert {each.status for each in said} <= {200, 503}
        assert town.router.traffic()["shop"].requests == 30
