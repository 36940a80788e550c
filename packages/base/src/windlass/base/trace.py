"""Implements W3C Trace Context, level 1: reads a request's trace, adds it to log lines, and passes it on.

Windlass does not record spans; log lines with the trace id replace them. `tracestate` is not passed on,
because it could leak other vendors' data to receivers of webhooks.
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

TRACE_HEADER: Final = "traceparent"
# In a later version of the format, unknown fields may follow; they are ignored.
_TRACEPARENT_PATTERN: Final = re.compile(
    rb"(?!ff)(?P<version>[0-9a-f]{2})-(?!0{32})(?P<id>[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-"
    rb"(?P<flags>[0-9a-f]{2})(?P<more>-.*)?"
)
_SAMPLED_FLAG: Final = 1
_RANDOM: Final = random.Random(os.urandom(32))  # noqa: S311 (ids of traces are no secrets; a system call takes longer)


class Trace(Struct, frozen=True):
    id: str
    flags: int = _SAMPLED_FLAG

    def header(self) -> str:
        """Returns the `traceparent` header for one outgoing request, with a new span id."""
        return f"00-{self.id}-{_random_id(64):016x}-{self.flags:02x}"

    @property
    def stored(self) -> str:
        return f"{self.id}-{self.flags:02x}"


def new_trace() -> Trace:
    return Trace(f"{_random_id(128):032x}")


def given_trace(header: bytes | None) -> Trace | None:
    """Parses a `traceparent` header. Returns None if the header is missing or invalid."""
    match = _TRACEPARENT_PATTERN.fullmatch(header) if header else None
    if match is None or (match["version"] == b"00" and match["more"]):
        return None
    return Trace(match["id"].decode(), int(match["flags"], 16) & _SAMPLED_FLAG)


def stored_trace(text: str) -> Trace | None:
    """Parses the trace that is stored with a deployment or a delivery. Returns None if the text is empty."""
    id, _, flags = text.partition("-")
    return Trace(id, int(flags, 16)) if id else None


def _random_id(bits: int) -> int:
    """Returns a random number except 0, which is an invalid id."""
    return _RANDOM.getrandbits(bits) or 1


FindTrace = Callable[[], Trace]
"""A function that creates a trace on first use, because most requests pass no trace on."""
_CURRENT: Final[ContextVar[Trace | FindTrace | None]] = ContextVar("trace", default=None)


def current_trace() -> Trace | None:
    """Returns the trace of the current task's request or deployment."""
    trace = _CURRENT.get()
    return trace() if callable(trace) else trace


def enter_trace(trace: Trace | FindTrace | None) -> None:
    """Sets the trace of the current task and of the tasks that it starts."""
    _CURRENT.set(trace)


def start_untraced(action: Coroutine[None, None, None]) -> asyncio.Task[None]:
    """Starts a task without a trace, for work that serves many requests or outlives the current task."""
    return asyncio.create_task(action, context=Context())


def trace_headers() -> dict[str, str]:
    """Returns the trace header for a request to another server; an empty dictionary without a trace."""
    trace = current_trace()
    return {TRACE_HEADER: trace.header()} if trace else {}
