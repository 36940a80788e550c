"""Promises of the budget of background work: requests go on between its steps, and nothing of it is lost."""

from __future__ import annotations

import asyncio
import time

import pytest

from windlass.base.turn_budget import TurnBudget

PIECES, STEPS = 20, 5
ALWAYS_SPENT = 0.0


async def steps_between_turns(budget: TurnBudget | None) -> int:
    """Returns the most steps that run before a callback which is ready all the time has its turn again."""
    loop, run, most = asyncio.get_running_loop(), 0, 0

    async def piece() -> None:
        nonlocal run
        for _ in range(STEPS):
            run += 1
            time.sleep(0.0001)
            await asyncio.sleep(0)

    def request() -> None:
        nonlocal run, most
        most, run = max(most, run), 0
        loop.call_soon(request)

    loop.call_soon(request)
    await asyncio.gather(*(budget.run(piece()) if budget else piece() for _ in range(PIECES)))
    return most


async def test_requests_go_on_between_the_steps_of_background_work() -> None:
    assert await steps_between_turns(TurnBudget(ALWAYS_SPENT)) <= 2


async def test_without_a_budget_all_ready_steps_run_before_the_next_request() -> None:
    assert await steps_between_turns(None) >= PIECES


async def test_several_short_steps_run_in_one_event_loop_turn() -> None:
    assert await steps_between_turns(TurnBudget(60.0)) >= PIECES


async def test_steps_of_background_work_run_in_order() -> None:
    budget, order = TurnBudget(ALWAYS_SPENT), list[tuple[int, int]]()

    async def piece(number: int) -> None:
        for step in range(STEPS):
            order.append((step, number))
            await asyncio.sleep(0)

    await asyncio.gather(*(budget.run(piece(number)) for number in range(PIECES)))
    assert order == sorted(order)


async def test_background_work_may_await_tasks_and_returns_its_result() -> None:
    async def later() -> int:
        await asyncio.sleep(0)
        return 41

    async def work() -> int:
        return await asyncio.create_task(later()) + 1

    assert await TurnBudget(ALWAYS_SPENT).run(work()) == 42


async def test_background_work_may_catch_an_exception_and_continue() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("gone")

    async def work() -> str:
        try:
            await asyncio.create_task(fails())
        except ValueError as error:
            await asyncio.sleep(0)
            return str(error)
        return "nothing was raised"

    assert await TurnBudget(ALWAYS_SPENT).run(work()) == "gone"


async def test_asyncio_timeout_works_inside_background_work() -> None:
    async def work() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.sleep(3600)
        except TimeoutError:
            return "ended"
        return "went on"

    assert await TurnBudget(ALWAYS_SPENT).run(work()) == "ended"


async def test_work_that_waits_for_its_turn_can_be_cancelled_and_other_work_continues() -> None:
    budget, heard, done = TurnBudget(ALWAYS_SPENT), list[str](), list[int]()

    async def piece(number: int) -> None:
        try:
            for _ in range(STEPS):
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            heard.append(f"{number} was cancelled")
            raise
        done.append(number)

    tasks = [asyncio.create_task(budget.run(piece(number))) for number in range(PIECES)]
    for _ in range(PIECES + 5):  # all have begun, and most of them wait
        await asyncio.sleep(0)
    tasks[3].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert heard == ["3 was cancelled"]
    assert done == [number for number in range(PIECES) if number != 3]


async def test_an_exception_of_background_work_is_raised_to_its_caller() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await TurnBudget(ALWAYS_SPENT).run(work())
