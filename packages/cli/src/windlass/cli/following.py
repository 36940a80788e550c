"""Reads the events of a stream, and reconnects after failures.

If the server is unavailable for a while, the command waits. After reconnecting, the stream resumes after the
last received event.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Final, TypeVar

import click
from msgspec import Struct

from windlass.cli.client import ApiAnswer, ApiRefused, ResponseStream, ServerUnreachable
from windlass.terminal.command_errors import CommandFailed
from windlass.terminal.tables import plain

LINE_EVENT: Final = "message"
"""The default type of an event."""
END_EVENT: Final = "end"
"""The type of the last event in a stream."""
OUTAGE_TIMEOUT: Final = 600.0
"""Seconds for which a server may be unavailable before the command gives up."""
_SOONEST, _LATEST = 0.5, 10.0
_RETRY_STATUSES: Final = frozenset({429, 502, 503, 504})
"""Statuses of a server or a proxy that are worth a retry."""
_MAX_RETRY_AFTER = 3600.0

_MIN_ANNOUNCED_PAUSE: Final = 5.0
"""A longer pause in seconds is announced to the user."""

T = TypeVar("T")
Ask = Callable[[Mapping[str, str]], ApiAnswer]
"""Repeats the request with the given headers."""


class StreamEvent(Struct, frozen=True):
    kind: str
    data: str
    id: str


class RetryTimer:
    """Decides whether and when to retry, and prints a message when an outage begins and ends."""

    def __init__(self, seconds: float = OUTAGE_TIMEOUT, *, quiet: bool = False) -> None:
        self._seconds = seconds
        self._quiet = quiet
        self._until = 0.0
        self._pauses = growing_pauses(_SOONEST, _LATEST)

    def pause(self, problem: Exception) -> float:
        """Returns the seconds to wait before the next attempt. Raises the problem if a retry cannot help, or
        if the time limit has passed."""
        if not _is_temporary(problem):
            raise problem
        now, asked = time.monotonic(), _retry_after(problem)
        if not self._until:
            self._until = now + asked + self._seconds
            self._print_message(f"{plain(str(problem))}\n{announcement(asked)}")
        if now > self._until:
            raise problem
        return max(next(self._pauses), asked)

    def wait(self, problem: Exception) -> None:
        time.sleep(self.pause(problem))

    def over(self) -> None:
        if self._until:
            self._print_message("Continuing.")
        self._until = 0.0

    def reset(self) -> None:
        """Resets the back-off after an event has arrived."""
        self._pauses = growing_pauses(_SOONEST, _LATEST)

    def _print_message(self, message: str) -> None:
        if not self._quiet:
            click.echo(message, err=True)


def retry_until_done(
    send_request: Callable[[], T],
    patience: RetryTimer,
    should_retry: Callable[[Exception], bool] | None = None,
) -> T:
    """Calls `send_request` until it succeeds or the time limit has passed. `should_retry`: selects the
    failures that are retried; by default all temporary failures."""
    while True:
        try:
            answer = send_request()
        except CommandFailed as problem:
            if should_retry is not None and not should_retry(problem):
                raise
            patience.wait(problem)
            continue
        patience.over()
        return answer


def wait_for_budget(send_request: Callable[[], T]) -> T:
    """Retries requests until the request quota is renewed. A rejected request has no effect, so every request
    can be repeated."""
    return retry_until_done(send_request, RetryTimer(), _is_too_many)


def _is_too_many(problem: Exception) -> bool:
    return isinstance(problem, ApiRefused) and problem.status == HTTPStatus.TOO_MANY_REQUESTS


class StreamFollower:
    """Follows a stream of events. One thread may read `events()` while another ends it with `hang_up`."""

    def __init__(self, send_request: Ask, first: ApiAnswer | None, *, quiet: bool = False) -> None:
        """`first`: the response that begins the stream; if None, `events()` sends the first request."""
        self._ask = send_request
        self._current = None if first is None else _stream_of(first)
        self._patience = RetryTimer(quiet=quiet)
        self._over = threading.Event()
        self._last = ""
        self.problem: Exception | None = None
        """The reason why the stream is disconnected; None while it is connected."""

    def events(self) -> Iterator[StreamEvent]:
        if self._current is None and (refusal := self._connect()) is not None:
            self._wait_out(refusal)
        while not self._over.is_set():
            problem = yield from self._one_connection()
            if problem is None:
                return
            self._wait_out(problem)

    def hang_up(self) -> None:
        self._over.set()
        if self._current is not None:
            self._current.hang_up()

    def _one_connection(self) -> Generator[StreamEvent, None, Exception | None]:
        """Yields the events of one connection. Returns the problem that ended it, or None after the last
        event."""
        assert self._current is not None, "connected before"
        try:
            with contextlib.closing(self._current.pieces()) as pieces:
                for event in parse_events(pieces):
                    self._last = event.id or self._last
                    self._patience.reset()
                    if event.kind == END_EVENT:
                        return None
                    if event.data:  # an event without data only updates the id from which the stream resumes
                        yield event
            return ServerUnreachable("The server has ended the stream.")
        except (OSError, http.client.HTTPException) as error:
            return ServerUnreachable(f"The connection was lost: {str(error) or type(error).__name__}.")

    def _wait_out(self, problem: Exception) -> None:
        """Waits until the stream is connected again or was hung up."""
        while not self._over.is_set() and not self._over.wait(self._patience.pause(problem)):
            refusal = self._connect()
            if refusal is None:
                return
            problem = refusal

    def _connect(self) -> Exception | None:
        """Sends the request for the stream. Returns the problem if it fails."""
        try:
            answer = self._ask({"Last-Event-ID": self._last} if self._last else {})
        except CommandFailed as error:
            self.problem = error
            return error
        self._current = _stream_of(answer)
        self.problem = None
        self._patience.over()
        if self._over.is_set():
            self._current.hang_up()
        return None


def _stream_of(answer: ApiAnswer) -> ResponseStream:
    if answer.going_on is None:
        raise CommandFailed("repeat the command: the answer changed its form midway")
    return answer.going_on


def parse_events(chunks: Iterator[bytes]) -> Iterator[StreamEvent]:
    """Parses server-sent events as defined by the HTML standard. Comments are ignored."""
    fields: dict[str, list[str]] = {}
    for line in _lines(chunks):
        name, _, value = line.partition(":")
        if line and name:
            fields.setdefault(name, []).append(value.removeprefix(" "))
        elif not line and fields:
            kind, id = (fields.get(field, [""])[-1] for field in ("event", "id"))
            yield StreamEvent(kind or LINE_EVENT, "\n".join(fields.get("data", [])), id)
            fields = {}


def growing_pauses(first: float, max_pause: float) -> Iterator[float]:
    """Yields pauses that grow by 15 percent each, up to `max_pause`."""
    return itertools.accumulate(itertools.repeat(first), lambda pause, _: min(pause * 1.15, max_pause))


def _lines(chunks: Iterator[bytes]) -> Iterator[str]:
    rest = b""
    for piece in chunks:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")


def _is_temporary(problem: Exception) -> bool:
    return isinstance(problem, ServerUnreachable) or (
        isinstance(problem, ApiRefused) and problem.status in _RETRY_STATUSES
    )


def announcement(seconds: float) -> str:
    """Returns a message about the pause before the next attempt."""
    if seconds < _MIN_ANNOUNCED_PAUSE:
        return "Trying again…"
    until = datetime.now() + timedelta(seconds=seconds)  # noqa: DTZ005 (as the clock on the wall shows it)
    long = f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"
    return f"Waiting {long}, until {until:%H:%M:%S}. The operation continues meanwhile."


def _retry_after(problem: Exception) -> float:
    after = problem.after if isinstance(problem, ApiRefused) else ""
    return min(float(after), _MAX_RETRY_AFTER) if after.isdecimal() else 0.0
