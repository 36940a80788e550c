"""Lets a step wait for an unavailable engine or a long operation without occupying a worker slot."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from windlass.builders.builder import BuilderUnavailable
from windlass.control.deploying.ledger import Ledger
from windlass.control.records.deployments import particulars
from windlass.engines.engine import EngineUnavailable

T = TypeVar("T")
Note = Callable[[str], Awaitable[None]]
"""Records why a deployment waits; receives an empty text when the deployment continues."""

SLOT_SECONDS: Final = 2.0
"""Seconds for which a step that only waits occupies its worker slot."""
RETRY_PAUSE_MS: Final = 5_000
"""Milliseconds until a step is repeated after the engine was unavailable."""
MIN_ATTEMPTS: Final = 4
"""The minimum number of attempts before a step fails, even if the server was stopped for longer than the
step's time limit."""


class RetryLater(Exception):
    """Raised by a step that can only wait. The step is repeated after `wait` milliseconds, or as soon as its
    work is requested."""

    def __init__(self, wait: int, reason: str, attempts: int = 0) -> None:
        super().__init__(reason)
        self.wait = wait
        self.tries = attempts
        """Failed attempts, including those of killed servers."""


async def run_when_available(ledger: Ledger, action: Callable[[], Awaitable[T]]) -> T:
    """Repeats an action while the engine or the builder is unavailable. Raises RetryLater if the outage is
    long, and the last error when the deployment's time limit has passed."""
    try:
        return await wait_while_unavailable(SLOT_SECONDS, action, ledger.note_waiting)
    except (EngineUnavailable, BuilderUnavailable) as error:
        waited = ledger.ctx.clock.now() - particulars(ledger.deployment).began
        if is_exhausted(waited, ledger.ctx.settings.ready_seconds, ledger.claim.attempts):
            raise
        raise RetryLater(RETRY_PAUSE_MS, str(error), ledger.claim.attempts) from error


def is_exhausted(waited_seconds: int, timeout: float, attempts: int) -> bool:
    return waited_seconds > timeout * 1000 and attempts >= MIN_ATTEMPTS


async def wait_while_unavailable(timeout: float, action: Callable[[], Awaitable[T]], note_reason: Note) -> T:
    """Repeats an action while the engine or the builder is unavailable, until `timeout` seconds have passed.
    `note_reason` receives the reason, and an empty text once the action succeeds."""
    deadline, pause = time.monotonic() + timeout, 0.1
    while True:
        try:
            done = await action()
        except (EngineUnavailable, BuilderUnavailable) as error:
            await note_reason(str(error))
            if time.monotonic() > deadline:
                raise
        else:
            await note_reason("")
            return done
        await asyncio.sleep(pause)
        pause = min(pause * 2, 5.0)
