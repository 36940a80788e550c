"""The socket of one client of the API: flow control in both directions, and time limits.

`serve.connection` extends this class with the parsing of requests. There is no timer for each connection: the
connection table calls `age` of every connection at intervals.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.utils import get_local_addr, get_remote_addr

from windlass.api.answers import failure_response
from windlass.base.http_in.bounds import READ_AHEAD_BYTES
from windlass.base.http_in.connections import Admission, network_of
from windlass.base.http_in.wire import HeadBuffer
from windlass.serve.answering import CorkedTransport
from windlass.serve.port_state import PortState


class ReadingFlow(FlowControl):
    """Flow control of uvicorn, but the application cannot resume reading while many received bytes wait."""

    full = False

    def resume_reading(self) -> None:
        if not self.full:
            super().resume_reading()


class ClientSocket(asyncio.Protocol):
    __slots__ = (
        "_blocked",
        "_blocked_since",
        "_body_began",
        "_busy",
        "_client",
        "_closing",
        "_held",
        "_loop",
        "_port",
        "_served",
        "_server",
        "_since",
        "_table",
        "_unsent",
        "_whole",
        "flow",
        "is_closing",
        "network",
        "transport",
        "write",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, port: PortState) -> None:
        self._loop = loop
        self._port = port
        self._table = port.table
        self._held = HeadBuffer(port.bounds.head_bytes, port.bounds.target_bytes)
        """Received bytes of further requests. They wait until the current request is finished."""
        # State of the connection
        self._served = self._closing = False
        self._blocked = False
        """Whether the client does not read, so that written bytes stay in the buffer of the transport."""
        self._since = self._blocked_since = self._loop.time()
        """The times since which the server has been waiting for bytes, and for the client to read."""
        self._unsent = 0
        # State of the current request
        self._busy = False
        """Whether the response is still incomplete."""
        self._whole = True
        """Whether the request has arrived completely."""
        self._body_began = 0.0

    # Implemented by the class that parses requests

    def _advance(self) -> None:
        """Starts the next of the waiting requests."""
        raise NotImplementedError

    def _abandon(self) -> None:
        """Notifies the application that its client has disconnected."""
        raise NotImplementedError

    def _refuse(self, status: int, message: str) -> None:
        """Responds to bytes that are not a valid request, and closes the connection. Bytes after them cannot
        be trusted either."""
        raise NotImplementedError

    # The connection

    def connection_made(self, transport: Any) -> None:
        corked = CorkedTransport(transport, self._loop)
        self.transport = corked
        self.write = corked.write
        self.is_closing = transport.is_closing
        self.flow = ReadingFlow(cast(asyncio.Transport, transport))
        self._server = get_local_addr(transport)
        self._client = get_remote_addr(transport)
        self.network = network_of(self._address)
        admission = self._table.admit(self)
        if admission is Admission.NONE:
            transport.abort()
            return
        self._join()
        if admission is Admission.FULL:
            self._answer_and_close(
                503, "This server has as many connections as it may have: try again in a moment"
            )

    def _join(self) -> None:
        """Adds the connection to the set of connections that the server closes when it stops."""
        raise NotImplementedError

    @property
    def _address(self) -> str:
        return str(self._client[0]) if self._client else "unknown"

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._table.remove(self)
        self._abandon()
        self.flow.resume_writing()

    def abort(self) -> None:
        self.transport.abort()

    def close(self) -> None:
        """Closes the connection after the written bytes were sent.

        If the client may still be sending, the server reads for a moment: closing a socket with unread bytes
        resets the connection, and the client could lose the response.
        """
        if self._closing or self.transport.is_closing():
            return
        self._closing = True
        self._since = self._table.now
        if self._whole and not self._held.held:
            self.transport.close()
            return
        self._held.take()
        self.transport.write_eof()
        self.flow.full = False
        self.flow.resume_reading()

    def _answer_and_close(self, status: int, message: str) -> None:
        """Sends a response without calling the application, and closes the connection."""
        self._whole = False  # further bytes are not read as a request
        if not self.transport.is_closing():
            self.transport.write(failure_response(status, message, self._port.headers(self._address)))
            self.close()

    # Flow

    def pause_writing(self) -> None:
        self.flow.pause_writing()
        self._blocked = True
        self._blocked_since = self._table.now
        self._note_unsent()

    def resume_writing(self) -> None:
        self._blocked = False
        self._table.sent(self)
        self.flow.resume_writing()
        if not self._busy:
            self._advance()

    def _note_unsent(self) -> None:
        self._unsent = self.transport.get_write_buffer_size()
        self._table.unsent(self, self._unsent)

    def _choose_reading(self) -> None:
        """Pauses reading while many received bytes wait, and resumes it when they have been processed."""
        flow = self.flow
        full = flow.full
        flow.full = len(self._held.held) > READ_AHEAD_BYTES and not self._closing
        if flow.full:
            flow.pause_reading()
        elif full:
            flow.resume_reading()

    # Time

    def waits_since(self) -> float | None:
        """Returns since when the server has been waiting for the client, or None while the application
        works."""
        if self._blocked:
            return self._blocked_since
        if self._busy and (self._whole or self.flow.read_paused):
            return None
        return self._since

    def age(self, now: float) -> None:
        bounds, age = self._port.bounds, now - self._since
        if self._closing:
            if age > bounds.parting_seconds:
                self.transport.abort()
        elif self._blocked:
            self._age_unread(now)
        elif self.flow.read_paused:
            self._since = now  # the application is slow, not the client
        elif not self._whole:
            if age > bounds.stall_seconds or now - self._body_began > bounds.body_seconds:
                self._refuse(408, "The rest of the request did not arrive in time.")
        elif self._busy:
            return
        elif self._held.held:
            if age > bounds.head_seconds:
                self._refuse(408, "The head of the request did not arrive in time.")
        elif age > (bounds.idle_seconds if self._served else bounds.head_seconds):
            self.transport.close()

    def _age_unread(self, now: float) -> None:
        """Aborts the connection if the client has read nothing for too long. Slow progress is enough to keep
        it."""
        if self.transport.get_write_buffer_size() < self._unsent:
            self._blocked_since = now
            self._table.sent(self)
            self._note_unsent()
        elif now - self._blocked_since > self._port.bounds.stall_seconds:
            self.transport.abort()
