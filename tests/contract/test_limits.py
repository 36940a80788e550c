"""Section 8: how many requests an hour, and the three headers that say so on every answer."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.contract.contract import LIMITS, NOWHERE, says_its_limits
from tests.contract.rows import row
from tests.contract.test_errors import broken
from tests.world import Answer, World, make_world
from windlass.base.errors import DatabaseUnavailable, Unavailable
from windlass.config import Settings

HOUR = 3600
PAGES = ("/openapi.json", "/docs", "/healthz", "/readyz", "/.well-known/jwks.json")


# The headers


async def ok(world: World) -> Answer:
    return await world.get("/organization")


async def created(world: World) -> Answer:
    return await world.post(f"/project/{await world.project()}/environment", {"name": "blue"})


async def accepted(world: World) -> Answer:
    return await world.post(f"/application/{await world.application()}/deploy")


async def deleted(world: World) -> Answer:
    return await world.delete(f"/project/{await world.project()}")


async def preflight(world: World) -> Answer:
    return await world.call("OPTIONS", "/organization", token=None)


async def invalid(world: World) -> Answer:
    return await world.post(f"/organization/{world.org}/project", {})


async def malformed(world: World) -> Answer:
    return await world.post(f"/organization/{world.org}/project", raw=b"{")


async def anonymous(world: World) -> Answer:
    return await world.get("/organization", token=None)


async def forged(world: World) -> Answer:
    return await world.get("/organization", token="Bearer a.b.c")


async def forbidden(world: World) -> Answer:
    return await world.delete(f"/project/{await world.project()}", token=await world.new_token("Read"))


async def missing(world: World) -> Answer:
    return await world.get(f"/project/{NOWHERE}")


async def nowhere(world: World) -> Answer:
    return await world.get("/nowhere", token=None)


async def not_allowed(world: World) -> Answer:
    return await world.call("PATCH", "/organization")


async def conflict(world: World) -> Answer:
    await world.project(name="taken")
    return await world.post(f"/organization/{world.org}/project", {"name": "taken"})


async def stale(world: World) -> Answer:
    return await world.put(f"/project/{await world.project()}", {}, headers={"If-Match": '"another"'})


async def too_large(world: World) -> Answer:
    return await world.post(f"/organization/{world.org}/project", raw=b" " * (1024 * 1024 + 1))


async def too_many(world: World) -> Answer:
    token = await world.new_token("Read", rate_limit=1)
    await world.get("/organization", token=token)
    return await world.get("/organization", token=token)


async def too_many_strangers(world: World) -> Answer:
    async with make_world(rate_limit=1) as small:
        await small.get("/organization", token=None)
        return await small.get("/organization", token=None)


def page(path: str) -> Callable[[World], Awaitable[Answer]]:
    async def read(world: World) -> Answer:
        return await world.get(path, token=None)

    read.__name__ = path
    return read


EVERY: Mapping[int, list[Callable[[World], Awaitable[Answer]]]] = {
    200: [ok, *map(page, PAGES)],
    201: [created],
    202: [accepted],
    204: [deleted, preflight],
    400: [invalid, malformed],
    401: [anonymous, forged],
    403: [forbidden],
    404: [missing, nowhere],
    405: [not_allowed],
    409: [conflict],
    412: [stale],
    413: [too_large],
    429: [too_many, too_many_strangers],
    500: [broken],
}
ANSWERS = [
    pytest.param(status, answered, id=f"{status}-{answered.__name__}")
    for status, ways in EVERY.items()
    for answered in ways
]


@row("8.X-RateLimit-Limit", "8.X-RateLimit-Remaining", "8.X-RateLimit-Reset")
@pytest.mark.parametrize(("status", "answered"), ANSWERS)
async def test_every_answer_has_rate_limit_headers(
    embedded, status: int, answered: Callable[[World], Awaitable[Answer]]
) -> None:
    answer = await answered(embedded)
    assert answer.status == status, answer
    says_its_limits(answer)
    now = embedded.clock.now() / 1000
    assert now < int(answer.headers["x-ratelimit-reset"]) <= now + HOUR + 1


def test_the_rate_limit_test_covers_every_kind_of_answer_once() -> None:
    ways = [way for ways in EVERY.values() for way in ways]
    assert len(set(ways)) == len(ways)
    assert all(inspect.iscoroutinefunction(way) for way in ways)


# The count


@row("8.1000 an hour", "8.429")
async def test_a_thousand_requests_an_hour_are_served_and_the_next_is_refused(database_url) -> None:
    async with make_world(database_url, rate_limit=Settings().rate_limit) as world:
        token = await world.new_token("Read")
        left = []
        for _ in range(1000):
            answer = await world.get("/organization", token=token)
            assert answer.status == 200
            assert answer.headers["x-ratelimit-limit"] == "1000"
            left.append(int(answer.headers["x-ratelimit-remaining"]))
        assert left == list(range(999, -1, -1))
        refused = await world.get("/organization", token=token)
        assert (refused.status, refused.headers["x-ratelimit-remaining"]) == (429, "0")


@row("8.per token")
async def test_requests_of_one_token_do_not_use_the_rate_limit_of_another(world) -> None:
    one, other = [await world.new_token("Read", rate_limit=2) for _ in range(2)]
    assert [await status(world, one) for _ in range(3)] == [200, 200, 429]
    assert await status(world, other) == 200
    assert await status(world, world.token) == 200


@pytest.mark.parametrize(
    ("failure", "answers"),
    [
        (Unavailable("the disk is full"), [200, 200, 200, 429]),
        (DatabaseUnavailable("the database does not answer"), [503, 503, 503, 503]),
    ],
)
async def test_requests_that_read_are_served_and_counted_while_nothing_can_be_stored(
    embedded, monkeypatch, failure, answers
) -> None:
    token = await embedded.new_token("Read", rate_limit=3)

    async def refuse(*given: Any) -> None:
        raise failure

    monkeypatch.setattr(embedded.installation.ctx.store, "write", refuse)
    assert [await status(embedded, token) for _ in range(4)] == answers
    assert (await embedded.post(f"/organization/{embedded.org}/project", {"name": "blue"})).status == 503


async def test_a_budget_is_the_same_under_both_schemes(embedded) -> None:
    token = await embedded.new_token("Read", rate_limit=2)
    assert await status(embedded, f"Token {token}") == 200
    assert await status(embedded, f"Bearer {token}") == 200
    assert await status(embedded, f"Token {token}") == 429


async def test_the_rate_limit_budget_is_renewed_after_an_hour(world) -> None:
    token = await world.new_token("Read", rate_limit=2)
    first = await world.get("/organization", token=token)
    world.clock.turn(600)
    assert [await status(world, token) for _ in range(2)] == [200, 429]
    refused = await world.get("/organization", token=token)
    assert refused.headers["x-ratelimit-reset"] == first.headers["x-ratelimit-reset"]
    world.clock.turn(HOUR - 601)
    assert await status(world, token) == 429
    world.clock.turn(1)
    renewed = await world.get("/organization", token=token)
    assert (renewed.status, renewed.headers["x-ratelimit-remaining"]) == (200, "1")
    reset = int(renewed.headers["x-ratelimit-reset"])
    assert reset == int(first.headers["x-ratelimit-reset"]) + HOUR


async def test_a_429_says_when_to_retry_and_a_retry_then_succeeds(world) -> None:
    token = await world.new_token("Read", rate_limit=1)
    await status(world, token)
    world.clock.turn(1234.5)
    refused = await world.get("/organization", token=token)
    wait = int(refused.headers["retry-after"])
    assert f"{wait} seconds" in refused.message
    world.clock.turn(wait)
    assert await status(world, token) == 200


async def test_requests_refused_for_another_reason_count_too(embedded) -> None:
    token = await embedded.new_token("Read", rate_limit=5)
    answers = [
        await embedded.get(f"/project/{NOWHERE}", token=token),
        await embedded.get("/nowhere", token=token),
        await embedded.call("PATCH", "/organization", token=token),
        await embedded.post(f"/organization/{embedded.org}/project", {"name": "x"}, token=token),
        await embedded.get("/organization?page=0", token=token),
    ]
    assert [answer.status for answer in answers] == [404, 404, 405, 403, 400]
    assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["4", "3", "2", "1", "0"]
    assert await status(embedded, token) == 429


async def test_a_write_refused_with_429_changes_nothing(embedded) -> None:
    token = await embedded.new_token("Admin", rate_limit=1)
    await status(embedded, token)
    answer = await embedded.post(f"/organization/{embedded.org}/project", {"name": "x"}, token=token)
    assert answer.status == 429
    assert (await embedded.get(f"/organization/{embedded.org}/project"))["results"] == []


async def test_callers_without_a_good_token_are_counted_by_address() -> None:
    async with make_world(rate_limit=3) as world:
        tries = [None, "wdl_guess", "Bearer a.b.c", "wdl_guess-again"]
        answers = [await world.get("/organization", token=guess) for guess in tries]
        assert [answer.status for answer in answers] == [401, 401, 401, 429]
        elsewhere = await world.get("/organization", token=None, address="198.51.100.9")
        assert elsewhere.status == 401
        world.clock.turn(HOUR)
        assert (await world.get("/organization", token=None)).status == 401


async def test_concurrent_requests_never_exceed_the_rate_limit(world) -> None:
    token = await world.new_token("Read", rate_limit=30)
    asked = await asyncio.gather(*(status(world, token) for _ in range(50)))
    assert sorted(asked) == [200] * 30 + [429] * 20


@pytest.mark.parametrize("used", [2, 3])
async def test_a_restart_does_not_reset_the_used_rate_limit_budget(tmp_path: Path, used: int) -> None:
    async with make_world(folder=tmp_path) as world:
        token = await world.new_token("Read", rate_limit=3)
        assert [await status(world, token) for _ in range(used)] == [200] * used
    async with make_world(folder=tmp_path) as world:
        left = 3 - used
        assert [await status(world, token) for _ in range(left + 1)] == [200] * left + [429]


async def status(world: World, token: str | None) -> int:
    answer = await world.get("/organization", token=token)
    assert all(name in answer.headers for name in LIMITS)
    return answer.status
