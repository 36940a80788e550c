"""Traces by W3C Trace Context, level 1: taken from a request, put into log lines, and passed on.

Windlass records no spans of its own: its log lines with the id of the trace take their place. `tracestate`
is not passed on, since it could leak other vendors' data to receivers of webhooks.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from typing import Final

from msgspec import Struct

HEADER: Final = "traceparent"
# Of a later version, only these fields are read; whatever follows them is unknown.
_GIVEN: Final = re.compile(
    rb"(?!ff)(?P<version>[0-9a-f]{2})-(?!0{32})(?P<id>[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-"
    rb"(?P<flags>[0-9a-f]{2})(?P<more>-.*)?"
)
_SAMPLED: Final = 1
_CHANCE: Final = random.Random(os.urandom(32))  # noqa: S311 (ids of traces are no secrets; a system call takes longer)


class Trace(Struct, frozen=True):
    id: str
    flags: int = _SAMPLED

    def header(self) -> str:
        """Returns `traceparent` for one outgoing request, with a new id of its own."""
        return f"00-{self.id}-{_number(64):016x}-{self.flags:02x}"

    @property
    def stored(self) -> str:
        return f"{self.id}-{self.flags:02x}"


def new_trace() -> Trace:
    return Trace(f"{_number(128):032x}")


def given_trace(header: bytes | None) -> Trace | None:
    """Returns the trace that a `traceparent` names; None if it is not valid."""
    match = _GIVEN.fullmatch(header) if header else None
    if match is None or (match["version"] == b"00" and match["more"]):
        return None
    return Trace(match["id"].decode(), int(match["flags"], 16) & _SAMPLED)


def stored_trace(text: str) -> Trace | None:
    """Returns the trace that was stored with a deployment or a delivery, if any was."""
    id, _, flags = text.partition("-")
    return Trace(id, int(flags, 16)) if id else None


def _number(bits: int) -> int:
    """Returns a random number that is not 0, which stands for none."""
    return _CHANCE.getrandbits(bits) or 1


FindTrace = Callable[[], Trace]
"""Returns a trace that is made when it is first needed: most requests pass none on."""
_CURRENT: Final[ContextVar[Trace | FindTrace | None]] = ContextVar("trace", default=None)


def current_trace() -> Trace | None:
    """Returns the trace of the request or deployment that is worked on here."""
    trace = _CURRENT.get()
    return trace() if callable(trace) else trace


def enter_trace(trace: Trace | FindTrace | None) -> None:
    """Makes a trace that of this task, and of the tasks that it begins."""
    _CURRENT.set(trace)


def start_untraced(action: Coroutine[None, None, None]) -> asyncio.Task[None]:
    """Starts a task that serves many requests, or outlives the one that starts it: it has no trace."""
    return asyncio.create_task(action, context=Context())


def trace_headers() -> dict[str, str]:
    """Returns the header for a request to another server; none outside of a trace."""
    trace = current_trace()
    return {HEADER: trace.header()} if trace else {}
