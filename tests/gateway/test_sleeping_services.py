"""A gateway asks its servers to wake services, whichever of them is there and whenever it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from tests.gateway.gateway_town import GatewayTown, processes_of
from tests.gateway.routers.town import SHOP, Caller, Heard, request, until
from windlass.gateway.messages import ServiceUses
from windlass.routers.router import Absence


class Wakes:
    """The messages that a server receives."""

    def __init__(self, town: GatewayTown) -> None:
        self.heard: list[str] = []
        _server(town).hear_wakes(self._hear)

    def _hear(self, services: Sequence[str]) -> None:
        self.heard += services


def _server(town: GatewayTown) -> Any:
    return town.router


async def held(town: GatewayTown) -> Caller:
    caller = await town.caller()
    await caller.send(request())
    return caller


async def uses(town: GatewayTown) -> ServiceUses:
    found = await _server(town).service_uses()
    assert isinstance(found, ServiceUses)
    return found


async def test_a_server_is_asked_to_wake_a_service_and_the_request_goes_on(town: GatewayTown):
    wakes = Wakes(town)
    await town.shop(absence=Absence.SLEEPING)
    callers = [await held(town) for _ in range(3)]
    await until(lambda: wakes.heard)
    await town.shop(await town.instance("awake"))
    assert {(await caller.said()).body for caller in callers} == {b"awake"}
    assert set(wakes.heard) == {"shop"}


async def test_it_is_asked_again_while_requests_wait(town: GatewayTown):
    wakes = Wakes(town)
    await town.shop(absence=Absence.SLEEPING)
    await held(town)
    await until(lambda: len(wakes.heard) >= 2)
    assert set(wakes.heard) == {"shop"}


async def test_a_server_that_was_started_again_is_asked_for_what_still_waits(town: GatewayTown):
    await town.shop(absence=Absence.SLEEPING)
    port = town.router.port
    wakes = Wakes(town)
    caller = await held(town)
    await until(lambda: wakes.heard)
    await town.new_server()
    assert town.router.port == port
    later = Wakes(town)
    await until(lambda: later.heard)
    await town.shop(await town.instance("awake"))
    assert (await caller.said()).body == b"awake"


async def test_without_a_server_requests_get_503_and_the_gateway_stays(town: GatewayTown):
    await town.shop(absence=Absence.SLEEPING)
    port = town.router.port
    await town.router.stop()
    await asyncio.sleep(2)  # a gateway that is not needed would have ended
    assert processes_of(town.folder)
    for _ in range(2):
        caller = await town.caller(port)
        said = await caller.ask(request("/", "GET", SHOP, "Accept: text/html"))
        assert (said.status, said.fields["retry-after"], said.fields["refresh"]) == (503, "10", "10")
    await town.router.start()


async def test_a_gateway_that_was_killed_still_knows_which_services_sleep(town: GatewayTown):
    wakes = Wakes(town)
    await town.shop(absence=Absence.SLEEPING)
    await town.kill()
    await town.process()
    caller = await held(town)
    await until(lambda: wakes.heard)
    await town.shop(await town.instance("awake"))
    assert (await caller.said()).body == b"awake"


async def test_requests_that_wait_at_a_gateway_which_is_replaced_get_503(town: GatewayTown):
    await town.shop(absence=Absence.SLEEPING)
    wakes = Wakes(town)
    caller = await held(town)
    await until(lambda: wakes.heard)
    await town.replace()
    said = await caller.said()
    assert (said.status, said.fields["retry-after"]) == (503, "3")


async def test_connections_that_stay_with_a_replaced_gateway_are_uses(town: GatewayTown):
    async def switch_and_stay(heard: Heard) -> None:
        heard.out.write(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        )
        await heard.reader.read()

    await town.shop(await town.instance("chat", switch_and_stay))
    caller = await town.caller()
    await caller.ask(request("/", "GET", SHOP, "Connection: Upgrade", "Upgrade: websocket"))
    assert (await uses(town)).traffic["shop"].active == 1
    await town.replace()
    assert "shop" not in (await uses(town)).traffic
    await _until_used(town, {"shop"})
    await town.replace()
    await _until_used(town, {"shop"})
    await caller.close()
    await _until_used(town, set())


async def _until_used(town: GatewayTown, services: set[str]) -> None:
    while (await uses(town)).of_elders != services:  # noqa: ASYNC110 (another program decides)
        await asyncio.sleep(0.05)


async def test_the_gateway_tells_how_long_a_service_was_not_used(town: GatewayTown):
    await town.shop(await town.instance("one"))
    before = await uses(town)
    assert "shop" not in before.traffic
    await (await town.caller()).ask(request())
    after = await uses(town)
    assert 0 <= after.traffic["shop"].idle <= after.age
    assert after.age >= before.age
