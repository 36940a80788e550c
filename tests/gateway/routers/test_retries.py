"""With rules for retries, a request that failed is sent once more where this is safe, and not too often."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.gateway.routers.exchanges import EMPTY_PORT
from tests.gateway.routers.town import SHOP, Heard, Instance, Town, reply, request, route, until
from windlass.routers.builtin.retries import MAX_KEPT_BODY_BYTES, MAX_KEPT_BYTES, RetryBudget
from windlass.routers.rules import RouteRetry, RouteRules

ALL = ("5xx", "reset", "connect-failure", "retriable-4xx")
BUSY, FINE = "503 Service Unavailable", "200 OK"


def failing(*statuses: str) -> Any:
    """Answers the requests with these statuses, and all later ones with the last of them."""
    left = list(statuses)

    async def answer(heard: Heard) -> None:
        status = left.pop(0) if len(left) > 1 else left[0]
        heard.out.write(reply(status.encode(), status))

    return answer


async def hang_up(heard: Heard) -> None:
    heard.out.transport.abort()


async def shop(town: Town, answer: Any, times: int = 3, on: Sequence[str] = ALL, **more: Any) -> Instance:
    instance = await town.instance(answer=answer)
    await town.shop(instance, rules=RouteRules(retry=RouteRetry(times, tuple(on), **more)))
    return instance


@pytest.mark.parametrize(
    ("on", "statuses", "status", "heard"),
    [
        (["5xx"], (), "500 Internal Server Error", 2),
        (["5xx"], (), "404 Not Found", 1),
        (["gateway-error"], (), "502 Bad Gateway", 2),
        (["gateway-error"], (), "500 Internal Server Error", 1),
        (["retriable-4xx"], (), "409 Conflict", 2),
        (["retriable-4xx"], (), "404 Not Found", 1),
        (["retriable-status-codes"], (404, 429), "429 Too Many Requests", 2),
        (["retriable-status-codes"], (404,), BUSY, 1),
        (["connect-failure", "reset"], (503,), BUSY, 1),
        (["retriable-headers"], (503,), BUSY, 1),
    ],
)
async def test_a_request_is_sent_once_more_after_the_statuses_that_are_named(
    town: Town, on: list[str], statuses: tuple[int, ...], status: str, heard: int
) -> None:
    instance = await shop(town, failing(status, FINE), on=on, statuses=statuses)
    said = await town.ask(request())
    assert (said.status, len(instance.heard)) == (200 if heard == 2 else int(status[:3]), heard)


async def test_without_rules_an_answer_is_passed_on_whatever_its_status(town: Town) -> None:
    instance = await town.instance(answer=failing(BUSY, FINE))
    await town.shop(instance)
    assert (await town.ask(request())).status == 503
    assert len(instance.heard) == 1


async def test_the_last_answer_is_passed_on_as_it_is(town: Town) -> None:
    instance = await shop(town, failing(BUSY), times=2)
    caller = await town.caller()
    said = await caller.ask(request())
    assert (said.status, said.body, len(instance.heard)) == (503, BUSY.encode(), 3)
    assert (await caller.ask(request())).status == 503
    await until(lambda: town.active() == 0)


@pytest.mark.parametrize(
    ("method", "heard"), [("GET", 2), ("PUT", 2), ("DELETE", 2), ("POST", 1), ("PATCH", 1)]
)
@pytest.mark.parametrize("hangs_up", [False, True], ids=["status", "reset"])
async def test_only_requests_that_may_be_repeated_are(
    town: Town, method: str, heard: int, hangs_up: bool
) -> None:
    instance = await shop(town, hang_up if hangs_up else failing(BUSY, FINE), times=1)
    await town.ask(request("/", method, SHOP, body=b"order"))
    expected = heard + (hangs_up and heard > 1)  # one repetition is usual without rules, too
    assert [each.body for each in instance.heard] == [b"order"] * expected


async def test_another_instance_gets_the_retry(town: Town) -> None:
    bad, good = await town.instance("bad", failing(BUSY)), await town.instance("good")
    await town.shop(bad, good, rules=RouteRules(retry=RouteRetry(1, ("5xx",))))
    assert {(await town.ask(request())).body for _ in range(4)} == {b"good"}
    assert bad.heard


async def test_a_retry_finds_the_instances_that_are_there_by_then(town: Town) -> None:
    rules = RouteRules(retry=RouteRetry(10, ("connect-failure",)))
    instance = await town.instance()
    await town.router.set("shop", [route([EMPTY_PORT], rules=rules)])
    asking = asyncio.create_task(town.ask(request("/", "POST", SHOP, body=b"order")))
    await until(lambda: town.active() == 1)
    await town.shop(instance, rules=rules)
    assert (await asking).status == 200  # nothing was sent before, so that a POST is safe, too
    assert [heard.body for heard in instance.heard] == [b"order"]


@pytest.mark.parametrize(("pieces", "heard"), [(4, 2), (80, 1)])
async def test_only_small_bodies_are_kept_for_a_retry(town: Town, pieces: int, heard: int) -> None:
    size = pieces * 1024
    assert (size <= MAX_KEPT_BODY_BYTES) is (heard == 2)
    instance = await shop(town, failing(BUSY, FINE), times=1)
    caller = await town.caller()
    await caller.send(request("/", "PUT", SHOP, f"Content-Length: {size}"))
    for _ in range(pieces):
        await caller.send(b"x" * 1024)
        await asyncio.sleep(0.001)
    assert (await caller.said()).status == (200 if heard == 2 else 503)
    assert [len(each.body) for each in instance.heard] == [size] * heard
    await until(lambda: town.router._shared.kept_requests._left == MAX_KEPT_BYTES)


async def test_bodies_are_kept_only_while_there_is_room(town: Town) -> None:
    town.router._shared.kept_requests._left = 100
    instance = await shop(town, failing(BUSY, FINE), times=1)
    caller = await town.caller()
    await caller.send(request("/", "PUT", SHOP, "Content-Length: 200"))
    await until(lambda: instance.raw)
    await caller.send(b"x" * 200)
    assert (await caller.said()).status == 503


def client_of(town: Town) -> Any:
    (client,) = town.router._shared.connections.members
    return client


async def test_an_attempt_that_takes_too_long_is_given_up(town: Town) -> None:
    async def answer(heard: Heard) -> None:
        if heard.method == "POST" or len(instance.heard) == 1:
            await asyncio.sleep(300)
        heard.out.write(reply(b"quick"))

    instance = await shop(town, answer, times=1, try_seconds=300)
    caller = await town.caller()
    await caller.send(request())
    await until(lambda: instance.heard)
    client_of(town)._end_attempt()  # as the timer does
    assert (await caller.said()).body == b"quick"
    await caller.send(request("/", "POST", SHOP, body=b"order"))
    await until(lambda: len(instance.heard) == 3)
    client_of(town)._end_attempt()
    assert (await caller.said()).status == 504
    await until(lambda: town.active() == 0)


async def test_the_limit_of_an_attempt_ends_where_the_answer_begins(town: Town) -> None:
    go_on = asyncio.Event()

    async def answer(heard: Heard) -> None:
        await go_on.wait()
        go_on.clear()
        heard.out.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na")
        await go_on.wait()
        heard.out.write(b"b")

    instance = await shop(town, answer, times=1, try_seconds=300)
    caller = await town.caller()
    await caller.send(request())
    await until(lambda: instance.heard)
    assert client_of(town).attempts.is_waiting
    go_on.set()
    await caller.reader.readuntil(b"\r\n\r\na")
    assert not client_of(town).attempts.is_waiting
    go_on.set()
    assert await caller.reader.readexactly(1) == b"b"


async def test_a_client_that_leaves_is_not_retried(town: Town) -> None:
    instance = await shop(town, failing(BUSY), times=10)
    caller = await town.caller()
    await caller.send(request())
    await until(lambda: instance.heard)
    await caller.close()
    await until(lambda: town.active() == 0)
    count = len(instance.heard)
    await asyncio.sleep(0.4)
    assert len(instance.heard) == count


async def test_a_failing_service_gets_little_more_than_its_usual_load(town: Town) -> None:
    instance = await shop(town, failing(BUSY), times=10)
    for _ in range(50):
        assert (await town.ask(request())).status == 503
        await town.router.set("shop", town_routes(instance))  # as if an instance had come or gone
    assert len(instance.heard) < 50 * 2


def town_routes(instance: Instance) -> list[Any]:
    return [route([instance.endpoint], rules=RouteRules(retry=RouteRetry(10, ALL)))]


def test_the_budget_is_a_fifth_of_the_requests_and_ten_in_any_case() -> None:
    budget = RetryBudget()
    assert [budget.take(100.0) for _ in range(11)] == [True] * 10 + [False]
    for _ in range(10):
        budget.note_request()
    assert [budget.take(100.0) for _ in range(3)] == [True, True, False]
    assert [budget.take(103.0) for _ in range(4)] == [True] * 3 + [False]
    assert sum(budget.take(1000.0) for _ in range(20)) == 10
