"""Divides long work on the event loop into short parts, so that requests are answered in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")
_TURN_SECONDS: Final = 0.002
"""The seconds of work after which other tasks run."""


class FairShare:
    """Measures how long a task has computed since it last let other tasks run."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    async def pause(self) -> None:
        """Lets other tasks run if the task has computed for long. Called after each item of a long list."""
        if time.perf_counter() - self._since >= _TURN_SECONDS:
            await asyncio.sleep(0)
            self._since = time.perf_counter()


async def apply_to_each(work: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
    """Returns the results of an asynchronous function for all items. Other tasks run in between."""
    results, share = list[R](), FairShare()
    for item in items:
        results.append(await work(item))
        await share.pause()
    return results
