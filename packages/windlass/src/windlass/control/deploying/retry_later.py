"""Lets a step wait for an unavailable engine, or for a long operation, without holding a worker slot."""

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
"""Records why a deployment waits."""

HOLD: Final = 2.0
"""Seconds for which a step that can only wait holds its slot."""
PAUSE: Final = 5_000
"""Milliseconds after which a step is repeated that found the engine unavailable."""
LEAST_TRIES: Final = 4
"""The minimum number of tries before a step fails, even if the server was stopped for longer than the time
limit."""


class RetryLater(Exception):
    """A step can only wait: it is repeated after so many milliseconds, or as soon as it is asked for."""

    def __init__(self, wait: int, reason: str, tries: int = 0) -> None:
        super().__init__(reason)
        self.wait = wait
        self.tries = tries
        """Failed attempts, counted across killed servers."""


async def run_when_available(ledger: Ledger, action: Callable[[], Awaitable[T]]) -> T:
    """Repeats an action while the engine or the builder is unavailable. Raises RetryLater if that takes long,
    and the last error when the deployment has run out of time."""
    try:
        return await wait_while_unavailable(HOLD, action, ledger.note_waiting)
    except (EngineUnavailable, BuilderUnavailable) as error:
        waited = ledger.ctx.clock.now() - particulars(ledger.deployment).began
        if is_exhausted(waited, ledger.ctx.settings.ready_seconds, ledger.claim.attempts):
            raise
        raise RetryLater(PAUSE, str(error), ledger.claim.attempts) from error


def is_exhausted(waited: int, patience: float, tries: int) -> bool:
    return waited > patience * 1000 and tries >= LEAST_TRIES


async def wait_while_unavailable(patience: float, action: Callable[[], Awaitable[T]], note: Note) -> T:
    """Repeats an action while the engine or the builder is unavailable, until the time limit has passed.
    `note` gets the reason, and an empty text once it continues."""
    deadline, pause = time.monotonic() + patience, 0.1
    while True:
        try:
            done = await action()
        except (EngineUnavailable, BuilderUnavailable) as error:
            await note(str(error))
            if time.monotonic() > deadline:
                raise
        else:
            await note("")
            return done
        await asyncio.sleep(pause)
        pause = min(pause * 2, 5.0)
