"""Requests to a sleeping service wait until it is awake, and go on at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.free_ports import free_port
from tests.gateway.routers.http2_caller import caller_of, head_of, make_http2_town
from tests.gateway.routers.town import SHOP, Caller, Heard, Town, calling, make_town, request, route, until
from windlass.routers.builtin import held_requests
from windlass.routers.router import Absence, Listen

BROWSER = "Accept: text/html,*/*"
OTHER = "other.localhost"


class SleepyTown(Town):
    """A shop that sleeps, and what is asked for."""

    asked: list[str]
    can_wake = True

    async def sleep(self, **fields: Any) -> None:
        await self.shop(absence=Absence.SLEEPING, **fields)

    def take(self, service: str) -> bool:
        self.asked.append(service)
        return self.can_wake


@contextlib.asynccontextmanager
async def sleepy_town(**bounds: Any) -> AsyncIterator[SleepyTown]:
    async with make_town(**bounds) as made, contextlib.AsyncExitStack() as stack:
        town = SleepyTown(made.router, stack)
        town.asked = []
        town.router.wake_with(town.take)
        await town.sleep()
        yield town


@pytest.fixture
async def town() -> AsyncIterator[SleepyTown]:
    async with sleepy_town(wake_page_seconds=0.05) as made:
        yield made


async def waiting(town: SleepyTown, *requests: bytes) -> list[Caller]:
    """Clients whose requests are held."""
    callers = [await town.caller() for _ in requests]
    before = town.active()
    for caller, data in zip(callers, requests, strict=True):
        await caller.send(data)
    await until(lambda: town.active() == before + len(requests))
    return callers


async def test_the_first_request_waits_and_is_passed_on_once_the_service_is_ready(town: SleepyTown):
    (caller,) = await waiting(town, request("/a?b=c", "GET", SHOP, "X-Own: 1"))
    shop = await town.instance()
    await town.shop(shop)
    assert (await caller.said()).body == b"one"
    (heard,) = shop.heard
    assert (heard.target, heard.fields["x-own"]) == ("/a?b=c", "1")
    assert await caller.ask(request())


async def test_a_hundred_requests_ask_once_and_all_are_answered(town: SleepyTown):
    callers = await waiting(town, *[request()] * 100)
    assert town.asked == ["shop"]
    await town.shop(await town.instance())
    assert {(await caller.said()).body for caller in callers} == {b"one"}
    assert town.active() == 0
    assert not town.router.awaited


async def test_a_body_is_passed_on_whole(town: SleepyTown):
    body = bytes(range(256)) * 2000
    (caller,) = await waiting(town, request(method="POST", body=b"x" * 9))
    long = await town.caller()
    sending = asyncio.create_task(long.send(request(method="POST", body=body)))
    await until(lambda: town.active() == 2)
    shop = await town.instance()
    await town.shop(shop)
    assert (await caller.said()).status == (await long.said()).status == 200
    await sending
    assert sorted(heard.body for heard in shop.heard) == sorted([b"x" * 9, body])


async def test_a_websocket_waits_too(town: SleepyTown):
    async def switch(heard: Heard) -> None:
        heard.out.write(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
        )
        heard.out.write(await heard.reader.readexactly(4))

    (caller,) = await waiting(
        town, request("/", "GET", SHOP, "Connection: Upgrade", "Upgrade: websocket") + b"ping"
    )
    await town.shop(await town.instance("echo", switch))
    assert (await caller.said()).status == 101
    assert await caller.reader.readexactly(4) == b"ping"


async def test_a_stream_of_http2_waits_too():
    async with make_http2_town() as town, caller_of(town) as caller:
        town.router.wake_with(lambda service: True)
        await town.shop(absence=Absence.SLEEPING)
        waits = asyncio.create_task(caller.ask(1, head_of("/", "GET", SHOP)))
        await until(lambda: town.active() == 1)
        await town.shop(await town.instance("woken"))
        said = await waits
        assert (said.status, said.body) == (200, b"woken")


async def test_a_person_sees_a_page_that_reloads_itself_if_it_takes_long(town: SleepyTown):
    said = await town.ask(request("/", "GET", SHOP, BROWSER))
    assert said.status == 503
    assert said.fields["retry-after"] == said.fields["refresh"] == "3"
    assert b"Shop is waking up" in said.body
    assert b"This page reloads by itself" in said.body
    assert town.active() == 0


async def test_a_form_that_a_person_has_sent_is_not_reloaded():
    async with sleepy_town(wake_seconds=0.05) as town:
        said = await town.ask(request("/", "POST", SHOP, BROWSER, body=b"x"))
    assert (said.status, said.fields["retry-after"]) == (503, "3")
    assert "refresh" not in said.fields
    assert b"reloads" not in said.body


async def test_programs_wait_longer_and_then_get_503():
    async with sleepy_town(wake_page_seconds=0.01, wake_seconds=0.3) as town:
        (caller,) = await waiting(town, request("/", "GET", SHOP, "Accept: application/json"))
        await asyncio.sleep(0.05)
        assert town.active() == 1
        said = await caller.said()
    assert (said.status, said.fields["retry-after"]) == (503, "3")
    assert "refresh" not in said.fields


async def test_a_browser_gets_the_service_at_the_next_reload(town: SleepyTown):
    assert (await town.ask(request("/", "GET", SHOP, BROWSER))).status == 503
    await town.shop(await town.instance())
    assert (await town.ask(request("/", "GET", SHOP, BROWSER))).body == b"one"


@pytest.mark.parametrize("accept", [BROWSER, "Accept: */*"])
async def test_while_nothing_can_wake_it_requests_are_answered_at_once(town: SleepyTown, accept: str):
    town.can_wake = False
    said = await town.ask(request("/", "GET", SHOP, accept))
    assert (said.status, said.fields["retry-after"]) == (503, "10")
    assert b"Shop is asleep" in said.body
    assert ("refresh" in said.fields) is (accept == BROWSER)


async def test_a_time_limit_for_answers_holds_for_the_wait_too(town: SleepyTown):
    from windlass.routers.rules import RouteRules

    await town.sleep(rules=RouteRules(answer_seconds=1))
    said = await town.ask(request())
    assert (said.status, said.fields["retry-after"]) == (503, "3")


async def test_if_it_is_stopped_meanwhile_the_page_says_so(town: SleepyTown):
    (caller,) = await waiting(town, request())
    await town.shop(absence=Absence.STOPPED)
    said = await caller.said()
    assert said.status == 503
    assert b"Shop is stopped" in said.body


async def test_a_deleted_service_leaves_no_request_waiting(town: SleepyTown):
    (caller,) = await waiting(town, request())
    await town.router.forget("shop")
    assert (await caller.said()).status == 503
    assert not town.router.awaited


async def test_a_request_that_another_route_takes_meanwhile_stays_with_its_service(town: SleepyTown):
    """The path moves to a service of somebody else, who must not get the request."""
    (caller,) = await waiting(town, request())
    other = await town.instance("other")
    await town.router.set("other", [route([other.endpoint], "other", held=7)])
    await town.shop(await town.instance())
    said = await caller.said()
    assert not other.heard
    assert said.body == b"one" or said.status == 503


async def test_clients_that_leave_are_forgotten(town: SleepyTown):
    callers = await waiting(town, *[request()] * 5)
    for caller in callers:
        await caller.close()
    await until(lambda: town.active() == 0)
    assert not town.router.awaited
    shop = await town.instance()
    await town.shop(shop)
    assert (await town.ask(request())).body == b"one"
    assert len(shop.heard) == 1


async def test_a_client_that_leaves_in_the_middle_of_a_body_is_noticed():
    """Its request is held, so no instance takes the rest."""
    async with sleepy_town(wake_seconds=3600) as town:
        head = request("/", "POST", SHOP, "Content-Length: 100000")
        (caller,) = await waiting(town, head + b"x" * 10)
        await caller.send(b"y" * 10)
        await caller.close()
        await until(lambda: town.active() == 0)
        (caller,) = await waiting(town, head)
        await caller.send(b"z" * 100_000)
        shop = await town.instance()
        await town.shop(shop)
        assert (await caller.said()).status == 200
        assert shop.heard[0].body == b"z" * 100_000


async def test_a_flood_to_one_organization_holds_a_limited_number_of_requests(town: SleepyTown, monkeypatch):
    """Others are held as before."""
    monkeypatch.setattr(held_requests, "MAX_HELD", 10)
    town.router.trust(lambda network: True)
    await town.sleep(org="hostile")
    other = [route((), "other", (OTHER,), org="others", absence=Absence.SLEEPING)]
    await town.router.set("other", other)
    callers = await waiting(town, *[request()] * 10)
    assert (await town.ask(request())).fields["retry-after"] == "10"
    (one,) = await waiting_at_other(town)
    assert sorted(town.asked) == ["other", "shop"]
    await callers[0].close()
    await until(lambda: town.active() == 9)
    await waiting(town, request())
    served = await town.instance("served")
    await town.router.set("other", [route([served.endpoint], "other", (OTHER,), org="others")])
    assert (await one.said()).body == b"served"


async def test_one_client_has_half_of_the_held_requests_of_an_organization(town: SleepyTown, monkeypatch):
    monkeypatch.setattr(held_requests, "MAX_HELD", 10)
    callers = await waiting(town, *[request()] * 5)
    assert (await town.ask(request())).fields["retry-after"] == "10"
    reader, out = await asyncio.open_connection("127.0.0.1", town.router.port, local_addr=("127.0.0.2", 0))
    out.write(request())
    await until(lambda: town.active() == 6)
    await callers[0].close()
    await until(lambda: town.active() == 5)
    await waiting(town, request())
    await town.shop(await town.instance())
    assert await reader.readuntil(b"\r\n\r\n")
    out.close()
    await until(lambda: town.active() == 0)
    held = town.router._shared.held
    assert not held._numbers
    assert not held._by_network


async def test_a_request_that_fails_when_it_is_resumed_keeps_no_other_one_waiting():
    resumed: list[int] = []
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
    held = held_requests.HeldRequests()
    held.ask = lambda service: True

    def fail() -> None:
        raise ValueError("unexpected")

    for resume in (fail, *[lambda: resumed.append(1)] * 40):
        assert held.hold(held_requests.HeldRequest("shop", "own", "", resume, fail), 60)
    held.release("shop")
    await until(lambda: len(resumed) == 40)
    assert len(reported) == 1, "the error is not hidden"


async def test_a_service_is_woken_although_another_one_of_its_organization_holds_all_requests(
    town: SleepyTown, monkeypatch
):
    """The other one may take long to wake, or never do."""
    monkeypatch.setattr(held_requests, "MAX_HELD", 10)
    town.router.trust(lambda network: True)
    await town.sleep(org="own")
    other = [route((), "other", (OTHER,), org="own", absence=Absence.SLEEPING)]
    await town.router.set("other", other)
    await waiting(town, *[request()] * 10)
    assert (await town.ask(request(host=OTHER))).status == 503
    assert town.asked == ["shop", "other"]


async def waiting_at_other(town: SleepyTown) -> list[Caller]:
    caller = await town.caller()
    await caller.send(request(host=OTHER))
    await until(lambda: town.router.traffic()["other"].active == 1)
    return [caller]


async def test_requests_that_rules_refuse_wake_nothing(town: SleepyTown):
    from windlass.routers.rules import RouteRules

    await town.sleep(rules=RouteRules(denied=("127.0.0.0/8",)))
    assert (await town.ask(request())).status == 403
    assert not town.asked
    assert town.router.idle_seconds(town.router.traffic()["shop"]) == -1


async def test_a_tcp_connection_waits_for_a_sleeping_service(town: SleepyTown):
    async def echo(heard: Heard) -> None:
        heard.out.write(b"answer")

    port = free_port()
    await town.router.reserve("shop", [Listen(port, local=True)])
    asleep = route((), hosts=(), kind="tcp", external=port, absence=Absence.SLEEPING)
    await town.router.set("shop", [asleep])
    async with calling(port) as caller:
        await caller.send(request())
        await until(lambda: town.asked == ["shop"])
        shop = await town.instance("tcp", echo)
        await town.router.set("shop", [route([shop.endpoint], hosts=(), kind="tcp", external=port)])
        assert await caller.reader.readexactly(6) == b"answer"
    town.can_wake = False
    await town.router.set("shop", [asleep])
    async with calling(port) as caller:
        assert await caller.rest() == b""


async def test_the_time_since_the_last_use_counts_from_the_end_of_an_answer(town: SleepyTown):
    ready = asyncio.Event()

    async def answer_late(heard: Heard) -> None:
        await ready.wait()
        await shop.say_name(heard)

    shop = await town.instance("late", answer_late)
    await town.shop(shop)
    traffic = town.router.traffic()["shop"]
    caller = await town.caller()
    await caller.send(request())
    await until(lambda: traffic.active == 1)
    began = traffic.used
    await asyncio.sleep(0.6)  # the router's clock is coarse
    ready.set()
    await caller.said()
    assert traffic.used > began
    assert 0 <= town.router.idle_seconds(traffic) < 0.6
