"""Log lines: a stream for what a service says while it runs, and one below it for each of its builds."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from pathlib import Path

from windlass.base.clock import DAY, Clock, SystemClock
from windlass.base.segments import EVERYTHING, Gone, Segments, Sieve
from windlass.core.runtime import Said

OURS = "windlass"
"""The name under which Windlass itself speaks in a log."""
_BUILD = "build-"
_STEPS = 8
"""A line is kept this part of the retention too long, at most."""


class Logs:
    def __init__(self, folder: Path, most: int, days: int = 14, clock: Clock | None = None) -> None:
        self._segments = Segments(folder, most, voice=OURS)
        self._most = most
        self._age = days * DAY
        self._clock = clock or SystemClock()

    # What is said

    def write(self, service: str, at: int, *messages: str, pod: str = OURS, version: str = "") -> None:
        self.take(service, [Said(at, message, pod, version) for message in messages])

    def take(self, service: str, lines: Sequence[Said]) -> None:
        """What instances of a service wrote. Never fails: what finds no room is counted, and said later."""
        self._segments.append(service, lines)

    def build(self, service: str, deployment: str) -> Callable[[str], None]:
        """Takes lines of a build log."""
        stream = _stream(service, deployment)

        def say(message: str) -> None:
            self._segments.append(stream, [Said(self._clock.now(), message, OURS, deployment)])

        return say

    # What was said: of a service while it ran, or of one of its builds

    def tail(
        self, service: str, most: int, wanted: Sieve = EVERYTHING, *, deployment: str | None = None
    ) -> list[bytes]:
        """The last lines, oldest first, as JSON. May be called from any thread."""
        return self._segments.tail(_stream(service, deployment), most, wanted)

    def follow(
        self,
        service: str,
        most: int,
        wanted: Sieve = EVERYTHING,
        *,
        after: str | None = None,
        deployment: str | None = None,
    ) -> AsyncGenerator[list[bytes] | Gone, None]:
        """The last lines, or those after one of them, and then what comes until the service is forgotten."""
        return self._segments.follow(_stream(service, deployment), most, wanted, after=after)

    # What is let go

    def forget(self, service: str) -> None:
        """Of a service that is gone: its lines, and those of its builds. Absent is fine."""
        self._segments.forget(service)

    def close(self) -> None:
        """Lets go of files that are open."""
        self._segments.close()

    async def services(self) -> Collection[str]:
        """All of which there are lines."""
        return {stream.partition("/")[0] for stream in self._segments.streams()}

    async def sweep(self, erase: Collection[str]) -> None:
        """Removes all lines of these services; of others, lines that are too old and builds too many."""
        now = self._clock.now()
        self._segments.report(now)
        for service in erase:
            self.forget(service)
        there = sorted(self._segments.streams())
        for stream in there:
            self._segments.expire(stream, now - self._age, now - self._age // _STEPS)
        self._sweep_builds([stream for stream in there if _is_build(stream)])

    async def set_aside(self, service: str, into: Path) -> None:
        """Moves the lines of this service, and of its builds, to the folder `into`."""
        self._segments.move_out(service, into / "logs")

    async def put_back(self, service: str, out: Path) -> None:
        self._segments.move_in(out / "logs", service)

    def _sweep_builds(self, streams: Sequence[str]) -> None:
        """Builds of one service have the same room as what it says while it runs; the newest are kept."""
        taken: dict[str, int] = {}
        for stream in sorted(streams, key=self._segments.last_change, reverse=True):
            service, size = stream.partition("/")[0], self._segments.size(stream)
            newer = taken.get(service, 0)
            taken[service] = newer + size
            if size == 0 or (newer and newer + size > self._most):
                self._segments.forget(stream)


def _stream(service: str, deployment: str | None) -> str:
    return service if deployment is None else f"{service}/{_BUILD}{deployment}"


def _is_build(stream: str) -> bool:
    return stream.rpartition("/")[2].startswith(_BUILD)
