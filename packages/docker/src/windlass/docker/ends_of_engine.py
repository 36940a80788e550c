"""Distinguishes container exits that the Docker engine or its operator caused from those of the programs.

An engine that is stopped ends its containers, and so does one that was killed, when it is started again. None
of this says anything about the programs.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from windlass.docker.inspection import milliseconds
from windlass.docker.restarts import Restarts

STOP_SECONDS: Final = 20.0
"""Seconds in which an engine that is being stopped ends its containers. Their events may be lost."""
_MAX_OUTAGES: Final = 8
_MAX_CONTAINERS: Final = 20_000
_LOOKS: Final = 100
_PAUSE: Final = 0.01


class EndsOfEngine:
    def __init__(self, restarts: Restarts) -> None:
        self._restarts = restarts
        self._outages: deque[tuple[float, float]] = deque(maxlen=_MAX_OUTAGES)
        """Periods in which the engine could not be watched: start and end, in seconds since 1970."""
        self._cut_off: dict[str, None] = {}
        """Ids of containers whose last end was not caused by their program."""
        self._noted: dict[str, None] = {}
        """Names of containers whose end was noted since their last start."""

    def note_loss(self) -> None:
        self._outages.append((time.time() - STOP_SECONDS, math.inf))

    def note_return(self) -> None:
        if self._outages:
            began, ended = self._outages.pop()
            self._outages.append((began, min(ended, time.time())))

    def note_start(self, name: str) -> None:
        self._noted.pop(name, None)

    def note_end(self, container: str, name: str, timestamp: float, *, is_known: bool) -> None:
        """`is_known`: the program caused the end, such as by its use of memory."""
        is_asked_for = self._restarts.is_stopped(container)
        self._cut_off.pop(container, None)
        if not is_known and (is_asked_for or self._is_in_outage(timestamp)):
            _add(self._cut_off, container)
        _add(self._noted, name)

    def forget(self, container: str, name: str) -> None:
        self._cut_off.pop(container, None)
        self._noted.pop(name, None)

    def was_last(self, container: str, state: Mapping[str, Any]) -> bool:
        """Returns whether the last end of a container was not caused by its program. `state`: as the
        engine describes it."""
        if container in self._cut_off:
            return True
        has_ended = state["Status"] == "exited" and not state.get("OOMKilled")
        finished_at = str(state.get("FinishedAt") or "")  # some engines leave it out
        return bool(has_ended and finished_at) and self._is_in_outage(milliseconds(finished_at) / 1000)

    async def wait_until_noted(self, name: str) -> None:
        """Waits until the end of a container was noted. A description may come before its event."""
        for _ in range(_LOOKS):
            if name in self._noted:
                break
            await asyncio.sleep(_PAUSE)

    def _is_in_outage(self, timestamp: float) -> bool:
        return any(began <= timestamp <= ended for began, ended in self._outages)


def _add(names: dict[str, None], name: str) -> None:
    while len(names) >= _MAX_CONTAINERS:
        del names[next(iter(names))]
    names[name] = None
