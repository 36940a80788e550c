"""A container that ends is started again after a pause that grows, unless somebody asked it to end."""

from __future__ import annotations

import asyncio

import pytest

from windlass.docker import restarts
from windlass.docker.restarts import FIRST_PAUSE, MAX_PAUSE, STABLE_SECONDS, Restarts


@pytest.fixture
def pauses(monkeypatch):
    """The pauses that were waited for. They take no time."""
    waited: list[float] = []
    sleep = asyncio.sleep

    async def wait(seconds: float) -> None:
        waited.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", wait)
    return waited


@pytest.fixture
def started():
    return []


@pytest.fixture
async def made(started):
    async def start(container: str) -> None:
        started.append(container)

    made = Restarts(start)
    yield made
    await made.stop()


async def run(made: Restarts, start: float, end: float) -> None:
    made.note_start("c", start)
    made.note_end("c", end)
    timer = made._histories["c"].timer
    assert timer is not None
    await timer


async def test_restart_pauses_double_up_to_a_limit_and_reset_after_a_long_run(made, pauses, started):
    for number in range(12):
        await run(made, number, number + 0.5)
    await run(made, 100, 100 + STABLE_SECONDS)
    grown = [FIRST_PAUSE * 2**number for number in range(10)]
    assert pauses == [*grown, MAX_PAUSE, MAX_PAUSE, FIRST_PAUSE]
    assert len(started) == made.count("c") + 1 == 13


async def test_a_container_stopped_on_request_is_not_restarted(made, pauses, started):
    made.note_start("c", 0)
    made.note_stop("c")
    made.note_end("c", 1)
    assert not made.is_due("c")
    await run(made, 2, 3)
    assert started == ["c"]


async def test_a_container_started_or_removed_by_another_program_is_not_restarted(made, started):
    made.note_end("c", 0)
    assert made.is_due("c")
    made.note_start("c", 1)
    assert not made.is_due("c")
    made.note_end("c", 2)
    made.forget("c")
    await asyncio.sleep(2 * FIRST_PAUSE)
    assert (started, made.count("c")) == ([], 0)


async def test_an_engine_that_invents_containers_takes_a_bounded_amount_of_memory(made, monkeypatch):
    monkeypatch.setattr(restarts, "MAX_HISTORIES", 3)
    for number in range(10):
        made.note_start(f"c{number}", 0)
        made.note_end(f"c{number}", 1)
    assert [*made._histories] == ["c7", "c8", "c9"]
    assert made.is_due("c9")
    assert not made.is_due("c0")


async def test_a_container_that_windlass_kills_is_started_again(made, pauses, started):
    made.note_start("c", 0)
    made.expect_kill("c")
    made.note_stop("c")
    made.note_end("c", 1)
    assert made.is_due("c")
    await made._histories["c"].timer
    made.note_start("c", 2)
    made.note_stop("c")
    made.note_end("c", 3)
    assert not made.is_due("c")
    assert started == ["c"]


async def test_a_container_that_replaces_another_one_has_its_history(made, pauses, started):
    for number in range(3):
        await run(made, number, number + 0.5)
    made.hand_over("c", "shop-1-0")
    made.take_over("shop-1-0", "d")
    assert made.count("d") == 2
    made.note_start("d", 10)
    assert made.count("d") == 3
    made.note_end("d", 10.5)
    timer = made._histories["d"].timer
    assert timer is not None
    await timer
    assert pauses == [FIRST_PAUSE * 2**number for number in range(4)]
