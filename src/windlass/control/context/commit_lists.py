"""Reads commits and default branches of repositories for requests: few at a time, each once for all callers.

A reading starts programs and waits for another server. It ends after some seconds, and when no caller waits
for it any more.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol, cast

from msgspec import Struct

from windlass.base.errors import Unavailable
from windlass.builders.git import GitCommit, GitError, GitSource

SECONDS: Final = 20.0
KEPT: Final = 5.0
"""Seconds for which a result answers those who ask again."""
MOST, MOST_OF_ONE = 8, 4
"""Listings at a time, in all and of one organization."""


class GitReader(Protocol):
    async def commits(self, source: GitSource) -> Sequence[GitCommit]: ...

    async def head(self, source: GitSource) -> tuple[str, str]: ...


class ListingKey(Struct, frozen=True):
    org: str
    service: str
    """Empty where there is none yet."""
    source: GitSource


class RunningListing(Struct, eq=False):
    task: asyncio.Task[object]
    waiting: int = 0
    ended: float | None = None


class Listings:
    def __init__(self, git: GitReader, *, seconds: float = SECONDS, kept: float = KEPT) -> None:
        self._git = git
        self._seconds, self._kept = seconds, kept
        self._listings: dict[ListingKey, RunningListing] = {}
        """Listings that run, or ended a moment ago."""
        self._running: dict[asyncio.Task[object], ListingKey] = {}

    async def commits(self, org: str, service: str, source: GitSource) -> Sequence[GitCommit]:
        commits = await self._read(ListingKey(org, service, source), self._git.commits)
        return cast(Sequence[GitCommit], commits)

    async def default_branch(self, org: str, source: GitSource) -> str:
        name, _ = cast(tuple[str, str], await self._read(ListingKey(org, "", source), self._git.head))
        return name

    async def _read(self, key: ListingKey, read: Callable[[GitSource], Awaitable[object]]) -> object:
        self._forget_old()
        listing = self._listings.get(key) or self._start(key, read)
        listing.waiting += 1
        try:
            return await asyncio.shield(listing.task)
        finally:
            listing.waiting -= 1
            if not listing.waiting and not listing.task.done():
                self._listings.pop(key, None)
                listing.task.cancel()

    async def stop(self) -> None:
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def _start(self, key: ListingKey, read: Callable[[GitSource], Awaitable[object]]) -> RunningListing:
        of = Counter(running.org for running in self._running.values())
        if of.total() >= MOST or of[key.org] >= MOST_OF_ONE:
            raise Unavailable(
                "Ask again in a few seconds: as many repositories as possible are being read now",
                {"retry-after": "5"},
            )
        task = asyncio.create_task(self._list(key.source, read))
        listing = self._listings[key] = RunningListing(task)
        self._running[task] = key
        task.add_done_callback(lambda task: self._end(task, listing))
        return listing

    async def _list(self, source: GitSource, read: Callable[[GitSource], Awaitable[object]]) -> object:
        try:
            async with asyncio.timeout(self._seconds):
                return await read(source)
        except TimeoutError as error:
            raise GitError(f"it did not answer within {self._seconds:g} seconds.") from error

    def _end(self, task: asyncio.Task[object], listing: RunningListing) -> None:
        self._running.pop(task)
        listing.ended = time.monotonic()
        with suppress(asyncio.CancelledError):
            task.exception()  # waiting callers get the error; without any, it is of no interest

    def _forget_old(self) -> None:
        old = time.monotonic() - self._kept
        self._listings = {
            key: listing
            for key, listing in self._listings.items()
            if listing.ended is None or listing.ended > old
        }
