"""Follows the events of one stream, over as many connections as it takes.

A server that is away for a while is waited for, and asked to continue after the last event that came through.
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
from windlass.terminal.stopped import Stopped
from windlass.terminal.tables import plain

LINE: Final = "message"
"""The kind of an event that names no other."""
END: Final = "end"
"""The event after which nothing more comes."""
PATIENCE: Final = 600.0
"""Seconds that a server may be away."""
_SOONEST, _LATEST = 0.5, 10.0
_LATER: Final = frozenset({429, 502, 503, 504})
"""Statuses of a server, or of a proxy before it, that may change a little later."""
_MOST = 3600.0

_LONG: Final = 5.0
"""Seconds of waiting that a person is told about."""

T = TypeVar("T")
Ask = Callable[[Mapping[str, str]], ApiAnswer]
"""Repeats the call with these headers."""


class StreamEvent(Struct, frozen=True):
    kind: str
    data: str
    id: str


class Patience:
    """Decides whether and when to retry, and prints when the trouble begins and ends."""

    def __init__(self, seconds: float = PATIENCE, *, quiet: bool = False) -> None:
        self._seconds = seconds
        self._quiet = quiet
        self._until = 0.0
        self._pauses = pauses(_SOONEST, _LATEST)

    def pause(self, trouble: Exception) -> float:
        """Returns seconds to wait. Raises the trouble if waiting would not help, or not any more."""
        if not _passes(trouble):
            raise trouble
        now, asked = time.monotonic(), _retry_after(trouble)
        if not self._until:
            self._until = now + asked + self._seconds
            self._say(f"{plain(str(trouble))}\n{announcement(asked)}")
        if now > self._until:
            raise trouble
        return max(next(self._pauses), asked)

    def wait(self, trouble: Exception) -> None:
        time.sleep(self.pause(trouble))

    def over(self) -> None:
        if self._until:
            self._say("It goes on.")
        self._until = 0.0

    def reset(self) -> None:
        """Notes that an event arrived: after the next trouble, pauses begin short again."""
        self._pauses = pauses(_SOONEST, _LATEST)

    def _say(self, message: str) -> None:
        if not self._quiet:
            click.echo(message, err=True)


def insist(ask: Callable[[], T], patience: Patience, only: Callable[[Exception], bool] | None = None) -> T:
    """Calls `ask` until it succeeds or patience ends. `only`: which failures are retried, if not all."""
    while True:
        try:
            answer = ask()
        except Stopped as trouble:
            if only is not None and not only(trouble):
                raise
            patience.wait(trouble)
            continue
        patience.over()
        return answer


def when_too_many(ask: Callable[[], T]) -> T:
    """Waits until the budget of requests is renewed. The server did nothing for a refused request, so that
    any can be repeated."""
    return insist(ask, Patience(), _is_too_many)


def _is_too_many(trouble: Exception) -> bool:
    return isinstance(trouble, ApiRefused) and trouble.status == HTTPStatus.TOO_MANY_REQUESTS


class StreamFollower:
    """A stream that is followed. One thread may read `events()`, and another end it with `hang_up`."""

    def __init__(self, ask: Ask, first: ApiAnswer | None, *, quiet: bool = False) -> None:
        """`first`: the answer that the stream begins with; None lets `events()` ask for it."""
        self._ask = ask
        self._current = None if first is None else _stream_of(first)
        self._patience = Patience(quiet=quiet)
        self._over = threading.Event()
        self._last = ""
        self.trouble: Exception | None = None
        """The reason why there is no connection now."""

    def events(self) -> Iterator[StreamEvent]:
        if self._current is None and (refusal := self._connect()) is not None:
            self._wait_out(refusal)
        while not self._over.is_set():
            trouble = yield from self._one_connection()
            if trouble is None:
                return
            self._wait_out(trouble)

    def hang_up(self) -> None:
        self._over.set()
        if self._current is not None:
            self._current.hang_up()

    def _one_connection(self) -> Generator[StreamEvent, None, Exception | None]:
        """Reads one connection. Returns the trouble that ended it, or None after the last event."""
        assert self._current is not None, "connected before"
        try:
            with contextlib.closing(self._current.pieces()) as pieces:
                for event in parse_events(pieces):
                    self._last = event.id or self._last
                    self._patience.reset()
                    if event.kind == END:
                        return None
                    if event.data:  # without data, it only tells the id to continue after
                        yield event
            return ServerUnreachable("The server has ended the stream.")
        except (OSError, http.client.HTTPException) as error:
            return ServerUnreachable(f"The connection was lost: {str(error) or type(error).__name__}.")

    def _wait_out(self, trouble: Exception) -> None:
        """Waits until there is another connection, or the stream was hung up."""
        while not self._over.is_set() and not self._over.wait(self._patience.pause(trouble)):
            refusal = self._connect()
            if refusal is None:
                return
            trouble = refusal

    def _connect(self) -> Exception | None:
        """Asks for a connection. Returns the trouble if there is none."""
        try:
            answer = self._ask({"Last-Event-ID": self._last} if self._last else {})
        except Stopped as error:
            self.trouble = error
            return error
        self._current = _stream_of(answer)
        self.trouble = None
        self._patience.over()
        if self._over.is_set():
            self._current.hang_up()
        return None


def _stream_of(answer: ApiAnswer) -> ResponseStream:
    if answer.going_on is None:
        raise Stopped("repeat the command: the answer changed its form midway")
    return answer.going_on


def parse_events(pieces: Iterator[bytes]) -> Iterator[StreamEvent]:
    """Yields the events of a stream by the rules of the HTML standard. Comments are ignored."""
    fields: dict[str, list[str]] = {}
    for line in _lines(pieces):
        name, _, value = line.partition(":")
        if line and name:
            fields.setdefault(name, []).append(value.removeprefix(" "))
        elif not line and fields:
            kind, id = (fields.get(field, [""])[-1] for field in ("event", "id"))
            yield StreamEvent(kind or LINE, "\n".join(fields.get("data", [])), id)
            fields = {}


def pauses(soonest: float, latest: float) -> Iterator[float]:
    """Yields pauses that grow up to `latest`."""
    return itertools.accumulate(itertools.repeat(soonest), lambda pause, _: min(pause * 1.15, latest))


def _lines(pieces: Iterator[bytes]) -> Iterator[str]:
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r").decode("utf-8", "replace")


def _passes(trouble: Exception) -> bool:
    return isinstance(trouble, ServerUnreachable) or (
        isinstance(trouble, ApiRefused) and trouble.status in _LATER
    )


def announcement(seconds: float) -> str:
    """Says how long the command waits before the next try."""
    if seconds < _LONG:
        return "Trying again…"
    until = datetime.now() + timedelta(seconds=seconds)  # noqa: DTZ005 (as the clock on the wall shows it)
    long = f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"
    return f"Waiting {long}, until {until:%H:%M:%S}. What was started goes on meanwhile."


def _retry_after(trouble: Exception) -> float:
    after = trouble.after if isinstance(trouble, ApiRefused) else ""
    return min(float(after), _MOST) if after.isdecimal() else 0.0
