"""The budget of requests: exact under load, over restarts and over replicas, and each caller's own."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.derived.stage import keeps_the_promises_of_all_answers, together
from tests.world import ADMIN, Answer, HandClock, World, make_world
from windlass.base.tokens import new_token

HOUR = 3600
LIMIT = 1000
ELSEWHERE = "198.51.100.9"


@pytest.fixture
async def strict(database_url: str) -> Any:
    """A world that allows a thousand requests an hour."""
    async with make_world(database_url, rate_limit=LIMIT) as world:
        yield world


# A token's budget


@pytest.mark.essential
async def test_exactly_1000_of_1200_requests_at_once_are_served(strict: World):
    token = await strict.new_token("Read")
    answers = await asks(strict, token, 1200)
    assert statuses(answers) == {200: 1000, 429: 200}
    for answer in answers:
        keeps_the_promises_of_all_answers(answer)
        assert answer.headers["x-ratelimit-limit"] == "1000"
        assert answer.headers["x-ratelimit-reset"] == str(strict.clock.now() // 1000 + HOUR)
    for answer in refused(answers):
        assert answer.headers["retry-after"] == str(HOUR)
        assert answer.headers["x-ratelimit-remaining"] == "0"


async def test_the_remaining_budget_counts_down_by_one(strict: World):
    token = await strict.new_token("Read")
    left = [int((await ask(strict, token)).headers["x-ratelimit-remaining"]) for _ in range(50)]
    assert left == list(range(LIMIT - 1, LIMIT - 51, -1))


async def test_the_budget_is_renewed_after_exactly_one_hour(strict: World):
    token = await strict.new_token("Read", rate_limit=10)
    first = await asks(strict, token, 12)
    strict.clock.turn(HOUR - 1)
    late = await ask(strict, token)
    assert (late.status, late.headers["retry-after"]) == (429, "1")
    strict.clock.turn(1)
    assert str(strict.clock.now() // 1000) == first[0].headers["x-ratelimit-reset"]
    assert statuses(await asks(strict, token, 12)) == {200: 10, 429: 2}


async def test_each_request_of_a_token_counts_once(strict: World):
    """Answered well or badly, read or written, at whichever base."""
    token = await strict.new_token("Read", rate_limit=100)
    for number, (method, path) in enumerate(
        [
            ("GET", "/organization"),
            ("GET", "/api/v1/organization"),
            ("GET", "/compat/organization"),
            ("HEAD", "/organization"),
            ("GET", "/project/00000000-0000-4000-8000-000000000000"),
            ("GET", "/organization?page=0"),
            ("POST", f"/organization/{strict.org}/project"),
            ("PATCH", "/organization"),
            ("GET", "/nowhere"),
        ],
        start=1,
    ):
        answer = await strict.call(method, path, token=token)
        assert answer.headers["x-ratelimit-remaining"] == str(100 - number), (method, path)


async def test_a_token_may_have_a_rate_limit_below_or_above_the_default(strict: World):
    small, large = (
        await strict.new_token("Read", rate_limit=7),
        await strict.new_token("Read", rate_limit=1500),
    )
    assert statuses(await asks(strict, small, 20)) == {200: 7, 429: 13}
    assert statuses(await asks(strict, large, 1600)) == {200: 1500, 429: 100}


async def test_a_budget_that_was_raised_or_lowered_counts_at_once(strict: World):
    made = await strict.post(
        f"/organization/{strict.org}/apiToken", {"name": "robot", "scopes": ["Read"], "rate_limit": 10}
    )
    path = f"/organization/{strict.org}/apiToken/{made['id']}"
    assert statuses(await asks(strict, made["token"], 12)) == {200: 10, 429: 2}
    for limit, more in ((15, 5), (4, 0), (20, 5)):
        assert (await strict.patch(path, {"rate_limit": limit})).status == 200
        strict.clock.turn(1.001)  # by then, every replica knows
        assert statuses(await asks(strict, made["token"], 12))[200] == more


async def test_tokens_do_not_spend_each_others_budgets(strict: World):
    one, other = await strict.new_token("Read", rate_limit=5), await strict.new_token("Read", rate_limit=5)
    assert statuses(await asks(strict, one, 8)) == {200: 5, 429: 3}
    assert statuses(await asks(strict, other, 8)) == {200: 5, 429: 3}


async def test_a_session_spends_the_budget_of_its_token(strict: World):
    token = await strict.new_token("Read", rate_limit=10)
    session = f"Bearer {(await strict.post('/account/session', token=token))['token']}"
    answers = await together(*(ask(strict, who) for who in (token, session, f"Bearer {token}") * 5))
    assert statuses(answers) == {200: 9, 429: 6}


async def test_a_refused_request_does_nothing(strict: World):
    token = await strict.new_token("Admin", rate_limit=1)
    path = f"/organization/{strict.org}/project"
    calls = [strict.post(path, {"name": f"project {number}"}, token=token) for number in range(5)]
    assert statuses(await together(*calls)) == {200: 1, 429: 4}
    assert (await strict.get(path))["pagination"]["total_count"] == 1


# Over restarts


async def test_a_budget_that_was_spent_while_the_clock_was_ahead_is_renewed_when_it_is_right(
    database_url: str, tmp_path: Path
):
    ahead, clock = 3 * 365 * 24 * HOUR, HandClock()
    options: dict[str, Any] = {"folder": tmp_path, "clock": clock, "rate_limit": 20}
    clock.turn(ahead)
    async with make_world(database_url, **options) as world:
        token = await world.new_token("Read")
        assert statuses(await asks(world, token, 20)) == {200: 20}
    clock.turn(-ahead)
    async with make_world(database_url, **options) as world:
        assert statuses(await asks(world, token, 21)) == {200: 20, 429: 1}


@pytest.mark.parametrize("used", [5, 600, 1000])
async def test_a_restart_keeps_the_unused_part_of_the_budget_only(
    database_url: str, tmp_path: Path, used: int
):
    clock = HandClock()
    options: dict[str, Any] = {"folder": tmp_path, "clock": clock, "rate_limit": LIMIT}
    async with make_world(database_url, **options) as world:
        token = await world.new_token("Read")
        assert statuses(await asks(world, token, used)) == {200: used}
    async with make_world(database_url, **options) as world:
        answers = await asks(world, token, 1200)
        assert served(answers) == LIMIT - used
        assert {answer.headers["x-ratelimit-reset"] for answer in answers} == {
            str(clock.now() // 1000 + HOUR)
        }


async def test_repeated_restarts_do_not_increase_the_budget(database_url: str, tmp_path: Path):
    total, token = 0, ""
    for _ in range(6):
        async with make_world(database_url, folder=tmp_path, rate_limit=LIMIT) as world:
            token = token or await world.new_token("Read", rate_limit=300)
            total += served(await asks(world, token, 77))
    assert total == 300


async def test_a_restart_an_hour_later_starts_a_new_hour(database_url: str, tmp_path: Path):
    clock = HandClock()
    async with make_world(database_url, folder=tmp_path, clock=clock) as world:
        token = await world.new_token("Read", rate_limit=20)
        assert served(await asks(world, token, 30)) == 20
    clock.turn(HOUR)
    async with make_world(database_url, folder=tmp_path, clock=clock) as world:
        assert served(await asks(world, token, 30)) == 20


@pytest.mark.parametrize("used", [5, 600, 995])
async def test_a_power_cut_refunds_no_budget_and_costs_less_than_one_percent(tmp_path: Path, used: int):
    """The copy of the files is the state that another process would find after a power failure."""
    found = tmp_path / "found"
    async with make_world(folder=tmp_path / "lost", rate_limit=LIMIT) as world:
        token = await world.new_token("Read")
        assert served(await asks(world, token, used)) == used
        shutil.copytree(tmp_path / "lost", found)
    (tmp_path / "lost").rename(tmp_path / "gone")  # a copy beside its original is refused
    async with make_world(folder=found, rate_limit=LIMIT) as world:
        rest = served(await asks(world, token, 1200))
    assert LIMIT - used - LIMIT // 100 <= rest <= LIMIT - used


# Over replicas


async def test_two_replicas_share_one_budget_to_within_one_percent(postgres_url: str, tmp_path: Path):
    options: dict[str, Any] = {"folder": tmp_path, "rate_limit": LIMIT}
    async with make_world(postgres_url, **options) as one, make_world(postgres_url, **options) as two:
        token = await one.new_token("Read")
        answers = await together(*(ask(world, token) for world in (one, two) * 600))
        assert LIMIT * 99 // 100 <= served(answers) <= LIMIT
        by_one, by_two = served(answers[::2]), served(answers[1::2])
        assert min(by_one, by_two) > 0
        # What one has used is not there for the other, also later.
        later = await together(*(ask(world, token) for world in (one, two) * 100))
        assert served(answers) + served(later) <= LIMIT


async def test_a_stopping_replica_returns_its_unused_rate_limit_to_the_other_replica(
    postgres_url: str, tmp_path: Path
):
    options: dict[str, Any] = {"folder": tmp_path, "rate_limit": LIMIT}
    async with make_world(postgres_url, **options) as one:
        async with make_world(postgres_url, **options) as two:
            token = await one.new_token("Read")
            assert served(await together(*(ask(world, token) for world in (one, two) * 3))) == 6
        assert served(await asks(one, token, 1200)) == LIMIT - 6


async def test_without_a_shared_database_two_servers_have_separate_budgets(tmp_path: Path):
    """The control: the replicas above are two."""
    async with (
        make_world(folder=tmp_path / "one", rate_limit=LIMIT) as one,
        make_world(folder=tmp_path / "two", rate_limit=LIMIT) as two,
    ):
        answers = [await asks(world, await world.new_token("Read"), 600) for world in (one, two)]
        assert sum(map(served, answers)) == 1200


# Unknown callers


@pytest.mark.parametrize(
    "credential",
    [None, "Token nonsense", f"Token {new_token()}", "Basic YTpi"],
    ids=["none", "malformed", "unknown", "another scheme"],
)
async def test_requests_without_a_valid_token_are_counted_by_address(credential: str | None):
    async with make_world(rate_limit=20) as world:
        answers = [await ask(world, credential, address=ELSEWHERE) for _ in range(25)]
        assert statuses(answers) == {401: 20, 429: 5}
        left = [int(answer.headers["x-ratelimit-remaining"]) for answer in answers]
        assert left == [*range(19, -1, -1), *[0] * 5]
        assert all(answer.headers["retry-after"] == str(HOUR) for answer in refused(answers))
        assert (await ask(world, credential, address="198.51.100.10")).status == 401
        assert (await ask(world, ADMIN, address=ELSEWHERE)).status == 200
        world.clock.turn(HOUR)
        assert (await ask(world, credential, address=ELSEWHERE)).status == 401


async def test_failed_tokens_count_against_the_address_and_not_the_token(strict: World):
    token = await strict.new_token("Read")
    before = int((await ask(strict, token)).headers["x-ratelimit-remaining"])
    guesses = [f"Token {token[:-1]}{letter}" for letter in "0123456789"] + [
        f"Token {token}x",
        f"Basic {token}",
    ]
    answers = [await ask(strict, guess, address=ELSEWHERE) for guess in guesses if guess != f"Token {token}"]
    assert set(statuses(answers)) == {401}
    after = int((await ask(strict, token, address=ELSEWHERE)).headers["x-ratelimit-remaining"])
    assert after == before - 1
    spent = LIMIT - int(answers[-1].headers["x-ratelimit-remaining"])
    assert spent == len(answers)


async def test_a_revoked_token_is_counted_by_address(strict: World):
    made = await strict.post(f"/organization/{strict.org}/apiToken", {"name": "robot", "scopes": ["Read"]})
    assert (await ask(strict, made["token"])).status == 200
    await strict.delete(f"/organization/{strict.org}/apiToken/{made['id']}")
    strict.clock.turn(1.001)
    answer = await ask(strict, made["token"], address=ELSEWHERE)
    assert (answer.status, answer.headers["x-ratelimit-remaining"]) == (401, str(LIMIT - 1))


async def test_the_addresses_of_one_home_network_share_a_budget():
    async with make_world(rate_limit=10) as world:
        homes = [await ask(world, None, address=f"2001:db8:1:2::{number:x}") for number in range(15)]
        assert statuses(homes) == {401: 10, 429: 5}
        assert (await ask(world, None, address="2001:db8:1:3::1")).status == 401


async def test_an_address_in_another_spelling_is_the_same_address():
    async with make_world(rate_limit=10) as world:
        for address in ("2001:db8::1", "2001:db8:0::1", "2001:0db8:0:0:0:0:0:1", "2001:DB8::1"):
            answer = await ask(world, None, address=address)
        assert answer.headers["x-ratelimit-remaining"] == "6"
        for address in ("192.0.2.1", "::ffff:192.0.2.1", "::ffff:192.0.2.1"):
            answer = await ask(world, None, address=address)
        assert answer.headers["x-ratelimit-remaining"] == "7"
        assert (await ask(world, None, address="::ffff:192.0.2.2")).headers["x-ratelimit-remaining"] == "9"


# What is not limited


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json", "/docs"])
async def test_monitoring_endpoints_are_not_limited_and_carry_the_headers(path: str):
    async with make_world(rate_limit=10) as world:
        first = await ask(world, None, path=path)
        answers = await together(*(ask(world, None, path=path) for _ in range(40)))
        assert statuses(answers) == {200: 40}
        for answer in answers:
            keeps_the_promises_of_all_answers(answer)
            assert answer.headers["x-ratelimit-remaining"] == first.headers["x-ratelimit-remaining"]
        spent = [await ask(world, None) for _ in range(12)]
        assert statuses(spent) == {401: 10, 429: 2}
        assert (await ask(world, None, path=path)).status == 200


async def test_options_requests_do_not_count_against_the_budget():
    async with make_world(rate_limit=10) as world:
        answers = [await world.call("OPTIONS", "/organization", token=None) for _ in range(30)]
        assert statuses(answers) == {204: 30}
        assert {answer.headers["x-ratelimit-remaining"] for answer in answers} == {"10"}


# Helpers


async def ask(
    world: World, token: str | None, *, path: str = "/organization", address: str = "203.0.113.7"
) -> Answer:
    return await world.get(path, token=token, address=address)


async def asks(world: World, token: str, number: int) -> list[Answer]:
    return list(await asyncio.gather(*(ask(world, token) for _ in range(number))))


def statuses(answers: list[Answer]) -> Counter[int]:
    return Counter(answer.status for answer in answers)


def served(answers: list[Answer]) -> int:
    return statuses(answers)[200]


def refused(answers: list[Answer]) -> list[Answer]:
    return [answer for answer in answers if answer.status == 429]
