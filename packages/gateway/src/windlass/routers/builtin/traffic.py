"""Counts the requests of services, with a few counters for each service.

All requests are counted by status. Reading the clock costs more than counting, so only some requests of a
busy service are timed, and each of these counts for several.
"""

from __future__ import annotations

from bisect import bisect_left
from time import monotonic
from typing import Final

BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Boundaries of the latency histogram, in seconds."""
_MOST: Final = 8
"""The most requests that a timed one may count for; a power of two."""
_OFTEN: Final = 0.01
"""Seconds between two requests below which only some are timed."""


class Traffic:
    """The numbers of requests and TCP connections of a service: in total, and in progress."""

    __slots__ = ("_last", "_most", "answers", "buckets", "closed", "mask", "requests", "seconds", "switched")

    def __init__(self, *, timed: bool = False) -> None:
        """`timed`: True to time every request."""
        self.time_all(timed)
        self.requests = 0
        self.answers = [0] * 6
        """Requests that ended, by the first digit of the status; 0 for those whose client left before."""
        self.closed = 0
        """TCP connections that ended."""
        self.switched = 0
        """Requests that were answered with a switch of protocols, and are still in progress."""
        self.buckets = [0] * (len(BOUNDS) + 1)
        """The number of requests in each latency bucket; the last bucket has no upper bound."""
        self.seconds = 0.0
        self._last = 0.0

    @property
    def active(self) -> int:
        """Requests and TCP connections in progress. Counting them one by one would cost each request
        twice."""
        return self.requests - sum(self.answers) - self.closed + self.switched

    def time_all(self, timed: bool) -> None:
        """Sets whether the time of each request is taken, instead of some while there are many."""
        self._most = 0 if timed else _MOST - 1
        self.mask = 0
        """A request whose number has none of these bits is timed."""

    def begin(self) -> float:
        """Starts to time a request; returns the present time for `end`."""
        now = monotonic()
        self.mask = self._most if now - self._last < _OFTEN * (self.mask + 1) else 0
        self._last = now
        return now

    def end(self, began: float, weight: int) -> None:
        """Counts the time of an answer for so many requests."""
        seconds = monotonic() - began
        self.buckets[bisect_left(BOUNDS, seconds)] += weight
        self.seconds += seconds * weight
