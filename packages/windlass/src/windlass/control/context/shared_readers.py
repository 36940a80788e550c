"""Shared readers: all streams of one subject share a reader, which exists from the first stream to the last.

A reader polls at each change notification (nudge) of the store, and wakes the waiting streams. The streams
themselves have no timer and no queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, TypeVar, cast

from windlass.base.errors import Unavailable
from windlass.base.log import log
from windlass.control.context.nudges import Nudges

POLL_INTERVAL: Final = 60.0
"""Seconds after which a reader polls without a change notification. A lost notification causes a delay of
this length."""
_OUTAGE_PAUSE: Final = 1.0
"""Seconds between polls while the database is unavailable."""
_log = log("streams")


class SharedReader:
    """Reads for all streams of one subject. Subclasses define `look`."""

    resting = 0.0
    """Seconds between two polls. Changes in this time are read together by the later poll; the first change
    after a quiet time is read at once."""

    def __init__(self, nudges: Nudges) -> None:
        self._nudges = nudges
        self._called = asyncio.Event()
        self._called.set()
        self._expected: set[str] = set()
        self._news = asyncio.Event()
        self._looked = asyncio.Event()
        self._begun = self._done = 0
        self.broken = False
        """Indicates whether the reader has stopped."""

    async def look(self) -> bool:
        """Reads the subject. Returns whether there is something new."""
        raise NotImplementedError

    def expect(self, words: set[str]) -> None:
        """Sets the topics of the change notifications at which the reader polls."""
        for word in words - self._expected:
            self._nudges.expect(word, self._called)
        for word in self._expected - words:
            self._nudges.forget(word, self._called)
        self._expected = words

    async def news(self) -> None:
        """Waits for a change. A stream that misses a change because it was not waiting must detect that by
        itself."""
        await self._wait(self._news)

    async def fresh(self) -> None:
        """Waits for a poll that began after this call, or that began after the last change notification."""
        wanted = self._begun + 1 if self._called.is_set() else self._begun
        while self._done < wanted:
            await self._wait(self._looked)

    async def _wait(self, event: asyncio.Event) -> None:
        if not self.broken:
            await event.wait()
        if self.broken:
            raise Unavailable("The stream broke off: open it again")

    async def run(self) -> None:
        try:
            while True:
                await self._look_once()
                await asyncio.sleep(self.resting)
                with suppress(TimeoutError):
                    async with asyncio.timeout(POLL_INTERVAL):
                        await self._called.wait()
        finally:
            self.broken = True
            self.expect(set())
            self._wake_waiters(has_changed=True)

    async def _look_once(self) -> None:
        self._called.clear()
        self._begun += 1
        begun = self._begun
        try:
            news = await self.look()
        except Unavailable:
            self._called.set()
            await asyncio.sleep(_OUTAGE_PAUSE)
            return
        self._done = begun
        self._wake_waiters(has_changed=news)

    def _wake_waiters(self, *, has_changed: bool) -> None:
        looked, self._looked = self._looked, asyncio.Event()
        looked.set()
        if has_changed:
            waiting, self._news = self._news, asyncio.Event()
            waiting.set()


R = TypeVar("R", bound=SharedReader)


class _ReaderUse:
    def __init__(self, reader: SharedReader) -> None:
        self.reader = reader
        self.task = asyncio.create_task(reader.run())
        self.task.add_done_callback(_log_failure)
        self.users = 0


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        _log.error("events for streams could not be read", exc_info=task.exception())


class SharedReaders:
    """The readers that are in use by streams."""

    def __init__(self) -> None:
        self._shared: dict[Hashable, _ReaderUse] = {}

    def __len__(self) -> int:
        return len(self._shared)

    @contextmanager
    def join(self, key: Hashable, create_reader: Callable[[], R]) -> Iterator[R]:
        shared = self._shared.get(key)
        if shared is None or shared.reader.broken:
            shared = self._shared[key] = _ReaderUse(create_reader())
        shared.users += 1
        try:
            yield cast(R, shared.reader)
        finally:
            shared.users -= 1
            if shared.users == 0:
                shared.task.cancel()
                if self._shared.get(key) is shared:
                    del self._shared[key]
