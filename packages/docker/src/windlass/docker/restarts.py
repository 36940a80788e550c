"""Starts containers again that have ended, with growing pauses.

The Docker engine could do so itself, and would also start them when it starts. But at each start, the engine
reads files of the container that its program may have replaced: see `start_files`. So Windlass examines these
files before each start, and the engine starts nothing on its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

FIRST_PAUSE: Final = 0.1
MAX_PAUSE: Final = 60.0
MAX_HISTORIES: Final = 20_000
"""Maximum number of containers of an engine whose ends are known. An engine that an organization controls may
report any number of them."""
STABLE_SECONDS: Final = 10.0
"""Seconds after which a container counts as started: its next pause is the first one again."""


class _History:
    """The starts and ends of a container that the engine has reported."""

    def __init__(self) -> None:
        self.count = 0
        self.pause = FIRST_PAUSE
        self.started_at = 0.0
        self.has_ended = False
        self.is_stopped = False
        """Somebody has asked the container to end."""
        self.timer: asyncio.Task[None] | None = None


class Restarts:
    def __init__(self, start: Callable[[str], Awaitable[None]]) -> None:
        """`start` starts a container, unless it runs or was removed, and raises nothing."""
        self._start = start
        self._histories: dict[str, _History] = {}
        self._killed: set[str] = set()
        """Containers that are killed, and started again."""
        self._left: dict[str, _History] = {}
        """Histories of containers that were removed instead of started again, by the name that the next
        container will have."""

    def count(self, container: str) -> int:
        """Returns how often a container was started again, as far as the engine has reported it."""
        history = self._histories.get(container)
        return history.count if history else 0

    def is_due(self, container: str) -> bool:
        """Returns whether a container will be started again after a pause."""
        history = self._histories.get(container)
        return history is not None and history.timer is not None

    def is_stopped(self, container: str) -> bool:
        """Returns whether a stop of a container was requested since its last start."""
        history = self._histories.get(container)
        return history is not None and history.is_stopped

    def note_stop(self, container: str) -> None:
        """Notes a request to end: the container is not started again after its next end."""
        if container in self._killed:
            self._killed.discard(container)
            return
        self._history(container).is_stopped = True

    def expect_kill(self, container: str) -> None:
        """Notes that a container is about to be killed: it is started again nevertheless."""
        self._killed.add(container)

    def note_start(self, container: str, timestamp: float) -> None:
        history = self._history(container)
        _cancel(history)
        history.count += history.has_ended
        history.has_ended = history.is_stopped = False
        history.started_at = timestamp

    def note_end(self, container: str, timestamp: float) -> None:
        """Schedules the next start, unless the end was asked for. `timestamp` is the engine's time, in
        seconds."""
        history = self._history(container)
        _cancel(history)
        history.has_ended = True
        if history.is_stopped:
            return
        pause = FIRST_PAUSE if timestamp - history.started_at >= STABLE_SECONDS else history.pause
        history.pause = min(2 * pause, MAX_PAUSE)
        history.timer = asyncio.create_task(self._start_after(pause, container))

    def forget(self, container: str) -> None:
        self._killed.discard(container)
        if history := self._histories.pop(container, None):
            _cancel(history)

    def hand_over(self, container: str, name: str) -> None:
        """Keeps the history of a container for another one that will have its name."""
        if history := self._histories.pop(container, None):
            _cancel(history)
            while len(self._left) >= MAX_HISTORIES:
                del self._left[next(iter(self._left))]
            self._left[name] = history

    def take_over(self, name: str, container: str) -> None:
        """Gives a new container the history of the one that it replaces, if any."""
        if history := self._left.pop(name, None):
            self._histories[container] = history

    async def stop(self) -> None:
        timers = [history.timer for history in self._histories.values() if history.timer]
        for timer in timers:
            timer.cancel()
        await asyncio.gather(*timers, return_exceptions=True)

    def _history(self, container: str) -> _History:
        if container not in self._histories:
            while len(self._histories) >= MAX_HISTORIES:
                self.forget(next(iter(self._histories)))
            self._histories[container] = _History()
        return self._histories[container]

    async def _start_after(self, pause: float, container: str) -> None:
        await asyncio.sleep(pause)
        # A start that is reported from here on cancels no task that has begun.
        if history := self._histories.get(container):
            history.timer = None
        await self._start(container)


def _cancel(history: _History) -> None:
    if history.timer is not None:
        history.timer.cancel()
        history.timer = None
