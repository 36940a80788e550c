"""How much and how long: every limit of the built-in router, so that a test can make it small."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

ROOM: Final = 64 * 1024
"""What a client may send ahead of the answer to its last request before it is no longer read."""


class Bounds(Struct, frozen=True, kw_only=True):
    """Times are seconds."""

    head_bytes: int = 64 * 1024
    head_seconds: float = 15.0
    """From the first byte of a request's head, or from the connection, to the end of the head."""
    idle_seconds: float = 75.0
    """How long a connection without a request is kept."""
    stall_seconds: float = 60.0
    """How long nothing may arrive of a body, or leave of an answer."""
    parting_seconds: float = 2.0
    """How long is waited for the other side to hang up, so that it can read the last answer."""
    leaving_seconds: float = 5.0
    """How long an answer may take to a client that sends no more, and has perhaps gone."""
    pooled_seconds: float = 4.0
    """How long a connection to an instance waits for the next request. Many servers hang up after 5."""
    connect_seconds: float = 5.0
    pause_seconds: float = 1.0
    """How long an endpoint that refused is left alone while there are others."""
    connections: int = 10_000
    """Of clients, at once; fewer where the process may not open two files for each."""
