"""Decides which failed requests are sent once more, and when.

A router without rules for retries repeats a request only where nothing can have happened: see `client`.
"""

from __future__ import annotations

import random
from asyncio import TimerHandle
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from windlass.routers.builtin.peers import Peer
from windlass.routers.rules import RouteRetry

MAX_KEPT_BODY_BYTES: Final = 64 * 1024
"""Size of a request that is kept to be sent once more."""
MAX_KEPT_BYTES: Final = 16 * 1024 * 1024
"""Size of all large requests that a router keeps for this purpose."""
_REQUESTS_PER_RETRY: Final = 5
"""Number of requests that permit a retry."""
_RESERVED_RETRIES: Final = 10 * _REQUESTS_PER_RETRY
"""Retries that a service may have in any case; one of them comes back each second."""
_MAX_SAVED_REQUESTS: Final = 100 * _REQUESTS_PER_RETRY
_FIRST_PAUSE, _MAX_PAUSE = 0.025, 0.25


class AttemptFailure(StrEnum):
    """A reason to send a request once more. The values are those of Envoy's `retry_on`."""

    CONNECT = "connect-failure"
    """No instance has accepted the connection, so that nothing was sent."""
    RESET = "reset"
    """The instance has hung up, has sent no valid answer, or has not begun it in time."""


_IF_NO_ANSWER: Final = {
    AttemptFailure.CONNECT: frozenset({"connect-failure", "5xx", "gateway-error"}),
    AttemptFailure.RESET: frozenset({"reset", "refused-stream", "5xx", "gateway-error"}),
}
"""The words of `retry_on` that name each failure."""
_STATUSES_OF_WORDS: Final = {
    "5xx": range(500, 600),
    "gateway-error": range(502, 505),
    "retriable-4xx": range(409, 410),
}


class RetryRules:
    """The retries of a route, in the form in which failures are compared with them."""

    __slots__ = ("_failures", "_statuses", "times", "try_seconds")

    def __init__(self, retry: RouteRetry) -> None:
        self.times, self.try_seconds = retry.times, retry.try_seconds
        words = frozenset(retry.on)
        self._failures = frozenset(failure for failure, names in _IF_NO_ANSWER.items() if words & names)
        statuses = {status for word in words for status in _STATUSES_OF_WORDS.get(word, ())}
        if "retriable-status-codes" in words:
            statuses |= set(retry.statuses)
        self._statuses = frozenset(statuses)

    def names(self, failure: AttemptFailure) -> bool:
        return failure in self._failures

    def names_status(self, status: int) -> bool:
        return status in self._statuses


class RetryBudget:
    """Limits the retries of one service, so that a failing service gets little more than its usual load: one
    for five requests, and a few in any case."""

    __slots__ = ("_filled_at", "_left")

    def __init__(self) -> None:
        self._left: float = _RESERVED_RETRIES
        """Number of requests for which no retry was used."""
        self._filled_at = 0.0

    def note_request(self) -> None:
        self._left = min(self._left + 1, _MAX_SAVED_REQUESTS)

    def take(self, now: float) -> bool:
        """Returns whether one more retry is permitted, and counts it."""
        if self._left < _RESERVED_RETRIES:
            self._left = min(
                self._left + _REQUESTS_PER_RETRY * max(0.0, now - self._filled_at), _RESERVED_RETRIES
            )
        self._filled_at = now
        if self._left < _REQUESTS_PER_RETRY:
            return False
        self._left -= _REQUESTS_PER_RETRY
        return True


class Attempts:
    """The attempts of one request."""

    __slots__ = (
        "_budget",
        "_pause",
        "_rules",
        "_timer",
        "_times_left",
        "repeated",
        "target",
        "tried",
    )

    def __init__(
        self, rules: RetryRules | None = None, budget: RetryBudget | None = None, target: bytes = b"/"
    ) -> None:
        self.target = target
        """The target of the request, as the client has sent it."""
        self.tried: list[Peer] = []
        """Instances that have refused the connection or have failed."""
        self.repeated = False
        """Whether the request was repeated because its connection had closed before the answer."""
        self._rules, self._budget = rules, budget
        self._times_left = rules.times if rules else 0
        self._pause = _FIRST_PAUSE
        self._timer: TimerHandle | None = None

    @property
    def try_seconds(self) -> float:
        return self._rules.try_seconds if self._rules else 0

    @property
    def is_waiting(self) -> bool:
        """Whether a timer of the request runs."""
        return self._timer is not None

    @property
    def keeps_bodies(self) -> bool:
        return self._times_left > 0

    def take(self, failure: AttemptFailure, now: float) -> bool:
        """Returns whether the request is sent once more after a failure, and counts it."""
        return self._rules is not None and self._rules.names(failure) and self._use_attempt(now)

    def take_status(self, status: int, now: float) -> bool:
        return self._rules is not None and self._rules.names_status(status) and self._use_attempt(now)

    def _use_attempt(self, now: float) -> bool:
        if self._times_left <= 0 or self._budget is None or not self._budget.take(now):
            return False
        self._times_left -= 1
        return True

    def pause(self) -> float:
        """Returns the seconds until the next attempt: at random, so that clients do not come all at once."""
        longest, self._pause = self._pause, min(2 * self._pause, _MAX_PAUSE)
        return random.uniform(longest / 2, longest)  # noqa: S311 (no secret)

    def avoided(self, peers: Sequence[Peer]) -> Sequence[Peer]:
        """Returns the instances to avoid: none once all of them have failed."""
        if all(peer in self.tried for peer in peers):
            self.tried.clear()
        return self.tried

    def wait(self, timer: TimerHandle | None) -> None:
        """Replaces the timer of the request: until its next attempt, or until the end of an attempt."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer
