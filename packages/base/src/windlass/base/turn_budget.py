"""Limits background work in each iteration of the event loop, so that requests are served meanwhile.

An iteration runs all callbacks that are ready. If many background tasks are ready at once, a new request
waits for all of them. Therefore, steps of background work (from one `await` to the next) are timed. Steps
that do not fit into an iteration wait for a later one, in order.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Coroutine, Generator
from contextvars import ContextVar
from typing import Any, Final, TypeVar

T = TypeVar("T")

in_background: ContextVar[bool] = ContextVar("in_background", default=False)
"""Whether the current task is background work, or was started by background work."""

_TURN_SECONDS: Final = 0.001
_DECAY: Final = 0.98
"""The decay of the expected longest step after each shorter step."""


class TurnBudget:
    """The time that background work may compute in one iteration of the event loop."""

    def __init__(self, seconds: float = _TURN_SECONDS) -> None:
        self._seconds = self._left = seconds
        self._long_step = _TURN_SECONDS
        """The recent duration of long steps, in seconds."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_renewed = False
        """Whether the renewal of the budget is scheduled for the next iteration."""

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the current task. A running step is never interrupted."""
        in_background.set(True)
        return await BudgetedSteps(self, work)

    @property
    def is_spent(self) -> bool:
        return bool(self._waiting) or self._left <= 0

    def book(self, duration: float) -> None:
        self._left -= duration
        self._long_step = max(duration, self._long_step * _DECAY)
        self._renew_next()

    def wait(self) -> asyncio.Future[None]:
        """Returns a future that is resolved when the budget has time for a step."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._renew_next()
        return turn

    def _renew_next(self) -> None:
        """Schedules the renewal of the budget for the next iteration, unless it is scheduled already."""
        if not self._is_renewed:
            self._is_renewed = True
            asyncio.get_running_loop().call_soon(self._renew_budget)

    def _renew_budget(self) -> None:
        """Renews the budget. Resumes as many waiting steps as certainly fit, and at least one."""
        self._left, room = self._seconds, max(1, int(self._seconds / self._long_step))
        while self._waiting and room:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                room -= 1
        self._is_renewed = False
        if self._waiting:
            self._renew_next()


class BudgetedSteps(Generator[Any, None, T]):
    """The steps of a coroutine. If the budget is spent, waits before the next step."""

    def __init__(self, budget: TurnBudget, work: Coroutine[Any, Any, T]) -> None:
        self._budget, self._work = budget, work
        self._has_turn = False

    def __await__(self) -> Generator[Any, None, T]:
        return self

    def send(self, value: None) -> Any:
        if self._budget.is_spent and not self._has_turn:
            self._has_turn = True
            return next(self._budget.wait().__await__())
        self._has_turn = False
        began = time.perf_counter()
        try:
            return self._work.send(value)
        finally:
            self._budget.book(time.perf_counter() - began)

    def throw(self, *failure: Any) -> Any:
        """Passes an exception to the coroutine without a wait, because it usually ends the work."""
        self._has_turn = False
        return self._work.throw(*failure)
