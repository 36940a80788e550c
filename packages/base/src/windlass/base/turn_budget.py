"""Background work leaves most of each turn of the event loop to requests.

A turn runs all callbacks that are ready. If many pieces of background work are ready at once, a request that
arrives waits for all of them. So their steps (from one `await` to the next) are timed, and those that do not
fit into a turn wait for a later one, in their order.
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
"""True in background work and the tasks that it starts."""

_SECONDS: Final = 0.001
_FADES: Final = 0.98
"""The decay of the expected longest step after each shorter step."""


class TurnBudget:
    """The time that background work may compute in one turn of the event loop."""

    def __init__(self, seconds: float = _SECONDS) -> None:
        self._seconds = self._left = seconds
        self._long_step = _SECONDS
        """The recent duration of long steps, in seconds."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_renewed = False
        """True if the next turn does so."""

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine in the current task. A step that has begun is never interrupted."""
        in_background.set(True)
        return await BudgetedSteps(self, work)

    @property
    def is_spent(self) -> bool:
        return bool(self._waiting) or self._left <= 0

    def book(self, took: float) -> None:
        self._left -= took
        self._long_step = max(took, self._long_step * _FADES)
        self._renew_next()

    def wait(self) -> asyncio.Future[None]:
        """Runs a step when the event loop iteration has time left, and returns its result."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._renew_next()
        return turn

    def _renew_next(self) -> None:
        """Renews the budget in the next turn."""
        if not self._is_renewed:
            self._is_renewed = True
            asyncio.get_running_loop().call_soon(self._renew)

    def _renew(self) -> None:
        """Resumes as many waiting steps as certainly fit, and at least one."""
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
    """The steps of a coroutine. Where there is no time left, the wait for a turn comes before the step."""

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
        """Passes on an exception at once, because it ends most work."""
        self._has_turn = False
        return self._work.throw(*failure)
