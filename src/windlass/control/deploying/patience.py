"""Waits for an engine or a builder that is away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from windlass.control.deploying.ledger import Ledger
from windlass.control.deploying.release import wait_while_away

T = TypeVar("T")


async def when_back(ledger: Ledger, deed: Callable[[], Awaitable[T]]) -> T:
    """Repeats `deed` while engine or builder is away, for `ready_seconds` at most."""
    return await wait_while_away(ledger.ctx, ledger.ctx.settings.ready_seconds, deed)
