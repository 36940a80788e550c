"""Limits on clients, for the API port and the gateway alike. Tests can make each of them small."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

ROOM: Final = 64 * 1024
"""Bytes that a client may send ahead before the port stops reading it."""


CHUNKS_AT_ONCE: Final = 256
"""Chunks of a body that the gateway parses before others have their turn."""


class Bounds(Struct, frozen=True, kw_only=True):
    """Limits of one port. Times are in seconds."""

    head_bytes: int = 64 * 1024
    target_bytes: int = 16 * 1024
    fields: int = 100
    """Maximum of header fields, and of trailers."""
    trailer_bytes: int = 16 * 1024
    head_seconds: float = 10.0
    """Maximum seconds from the first byte of a request's head, or from the connection, to the end of the
    head."""
    idle_seconds: float = 75.0
    """Seconds for which an idle connection is kept between two requests."""
    stall_seconds: float = 60.0
    """Time without any progress in a request body or an answer."""
    body_seconds: float = 300.0
    """Time from the first to the last byte of a body on the API port, which reads bodies whole."""
    body_chunks: int = 4096
    """Maximum of chunks in such a body: parsing many small ones would delay other clients."""
    parting_seconds: float = 2.0
    """Seconds for the client to read the last answer and close the connection."""
    leaving_seconds: float = 5.0
    """Maximum seconds for an answer to a client that has closed its sending side and may have
    disconnected."""
    pooled_seconds: float = 4.0
    """Seconds for which an idle connection to an instance is kept. Many servers close idle connections
    after 5."""
    connect_seconds: float = 5.0
    pause_seconds: float = 1.0
    """Seconds for which an endpoint that refused a connection is skipped while there are others."""
    connections: int = 10_000
    """Maximum number of client connections of one port; fewer if the process cannot open four files for
    each."""
    unsent_bytes: int = 128 * 1024 * 1024
    """Bytes of all unread answers of one port."""
    log_seconds: float = 60.0
    """Interval of the log line that counts refused requests and connections."""

    @property
    def streams(self) -> int:
        """Event streams and websockets of one port at once; the remaining connections are for requests."""
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
