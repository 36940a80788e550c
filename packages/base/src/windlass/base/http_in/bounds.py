"""Defines the limits for clients of the API port and the gateway. Tests can reduce each limit."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

READ_AHEAD_BYTES: Final = 64 * 1024
"""The number of bytes that a client may send ahead before the port stops reading from its connection."""


CHUNKS_AT_ONCE: Final = 256
"""The number of chunks that the gateway parses for one connection before it serves other connections."""


class Bounds(Struct, frozen=True, kw_only=True):
    """The limits of one port. Times are in seconds."""

    head_bytes: int = 64 * 1024
    target_bytes: int = 16 * 1024
    fields: int = 100
    """The maximum number of header fields, and of trailer fields."""
    trailer_bytes: int = 16 * 1024
    head_seconds: float = 10.0
    """The time limit of a request's head, from its first byte or from the start of the connection."""
    idle_seconds: float = 75.0
    """The time after which a connection without requests is closed."""
    stall_seconds: float = 60.0
    """The time limit without any progress in a request body or a response."""
    body_seconds: float = 300.0
    """The time limit of a request body on the API port, which reads bodies whole."""
    body_chunks: int = 4096
    """The maximum number of chunks in such a body. Parsing many small chunks would delay other clients."""
    parting_seconds: float = 2.0
    """The time after the last response in which the client can read it and close the connection."""
    leaving_seconds: float = 5.0
    """The time limit of a response to a client that has closed its sending side and may be gone."""
    pooled_seconds: float = 4.0
    """The time for which an idle connection to an instance is kept. Many servers close it after 5 seconds."""
    connect_seconds: float = 5.0
    pause_seconds: float = 1.0
    """The time for which an endpoint that refused a connection is skipped if there are others."""
    wake_page_seconds: float = 5.0
    """The time for which a browser waits for a sleeping service before it gets a page that says so."""
    wake_seconds: float = 30.0
    """The time for which other clients wait for a sleeping service."""
    connections: int = 10_000
    """The maximum number of client connections of one port. The limit of open files may lower it."""
    handshakes: int = 1000
    """The maximum number of TLS handshakes under way at one port, in addition to its connections."""
    handshake_seconds: float = 10.0
    """The time limit of a TLS handshake, from the start of the connection."""
    unsent_bytes: int = 128 * 1024 * 1024
    """The maximum number of bytes in unread responses of one port."""
    log_seconds: float = 60.0
    """The interval between log lines that count refused requests and connections."""

    @property
    def streams(self) -> int:
        """The maximum number of event streams and websockets of one port. The rest is for requests."""
        return max(1, self.connections * 3 // 4)

    @property
    def tick_seconds(self) -> float:
        """The interval between two checks of all connections: a quarter of the shortest timeout."""
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
