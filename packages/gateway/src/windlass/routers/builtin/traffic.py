"""Traffic counters of services.

All requests are counted by status. Reading the clock costs more than counting, so only a sample of a busy
service's requests is timed, and each timed request is weighted.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from time import monotonic
from typing import Final

LATENCY_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Boundaries of the latency histogram, in seconds."""
_MAX_WEIGHT: Final = 8
"""Maximum weight of a timed request; a power of two."""
_SAMPLING_SECONDS: Final = 0.01
"""Mean seconds between requests below which only a sample is timed."""


class Traffic:
    """The traffic counters of one service."""

    __slots__ = (
        "_last",
        "_most",
        "answers",
        "buckets",
        "closed",
        "mask",
        "requests",
        "seconds",
        "switched",
        "used",
    )

    def __init__(self, *, timed: bool = False) -> None:
        """`timed`: time every request."""
        self.time_all(timed)
        self.requests = 0
        self.answers = [0] * 6
        """Completed requests, indexed by the first digit of the status. Index 0: the client disconnected
        before an answer."""
        self.closed = 0
        """Number of TCP connections that have ended."""
        self.switched = 0
        """Number of open tunnels: requests answered with a protocol switch (status 101) whose connection is
        still open."""
        self.buckets = [0] * (len(LATENCY_BOUNDS) + 1)
        """The number of requests in each latency bucket; the last bucket has no upper bound."""
        self.seconds = 0.0
        self.used = -math.inf
        """The time at which a request last went to an instance, or its answer ended, by the coarse clock of
        the router."""
        self._last = 0.0

    @property
    def active(self) -> int:
        """Number of requests and TCP connections in progress. It is computed, because another counter would
        cost two updates per request."""
        return self.requests - sum(self.answers) - self.closed + self.switched

    def time_all(self, timed: bool) -> None:
        """Sets whether every request is timed, or only a sample while requests are frequent."""
        self._most = 0 if timed else _MAX_WEIGHT - 1
        self.mask = 0
        """Bit mask for sampling: a request is timed if its number has none of these bits."""

    def begin(self) -> float:
        """Starts timing a request, and adapts the sampling rate. Returns the current time for `end`."""
        now = monotonic()
        self.mask = self._most if now - self._last < _SAMPLING_SECONDS * (self.mask + 1) else 0
        self._last = now
        return now

    def end(self, started_at: float, weight: int) -> None:
        """Records the duration of a timed request, with its weight."""
        seconds = monotonic() - started_at
        self.buckets[bisect_left(LATENCY_BOUNDS, seconds)] += weight
        self.seconds += seconds * weight
