"""Every limit on clients, for the API port and the gateway alike. A test can make each of them small."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

ROOM: Final = 64 * 1024
"""What a client may send ahead of the answer to its last request before it is no longer read."""


class Bounds(Struct, frozen=True, kw_only=True):
    """Times are seconds."""

    head_bytes: int = 64 * 1024
    target_bytes: int = 16 * 1024
    fields: int = 100
    """Of a head, and as many trailers."""
    trailer_bytes: int = 16 * 1024
    head_seconds: float = 10.0
    """From the first byte of a request's head, or from the connection, to the end of the head."""
    idle_seconds: float = 75.0
    """How long a connection is kept between two requests."""
    stall_seconds: float = 60.0
    """How long nothing may arrive of a body, or leave of an answer."""
    body_seconds: float = 300.0
    """From the first to the last byte of a body on the API port, which collects it before it is used."""
    body_chunks: int = 4096
    """Of such a body: parsing many small ones would keep other clients waiting."""
    parting_seconds: float = 2.0
    """How long the other side may take to hang up, so that it can read the last answer."""
    leaving_seconds: float = 5.0
    """How long an answer may take to a client that sends no more, and has perhaps gone."""
    pooled_seconds: float = 4.0
    """How long a connection to an instance waits for the next request. Many servers hang up after 5."""
    connect_seconds: float = 5.0
    pause_seconds: float = 1.0
    """How long an endpoint that refused is left alone while there are others."""
    connections: int = 10_000
    """Of clients of one port, at once; fewer where the process may not open four files for each."""
    unsent_bytes: int = 128 * 1024 * 1024
    """Of answers that clients of one port do not read, together."""
    log_seconds: float = 60.0
    """Refused requests and connections are counted, and logged once in this time."""

    @property
    def streams(self) -> int:
        """Event streams and websockets of one port, at once: the other connections are for requests."""
        return max(1, self.connections * 3 // 4)

    @property
    def tick_seconds(self) -> float:
        """Seconds between two checks of all connections: a quarter of the shortest timeout."""
        shortest = min(
            self.head_seconds,
            self.idle_seconds,
            self.stall_seconds,
            self.body_seconds,
            self.parting_seconds,
            self.leaving_seconds,
            self.pooled_seconds,
            self.pause_seconds,
        )
        return max(0.01, min(1.0, shortest / 4))
