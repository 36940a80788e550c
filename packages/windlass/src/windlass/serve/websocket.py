"""The websocket protocol of the API: uvicorn's implementation with wsproto, with limits. See `api.sockets`.

Most clients only receive, so a client that sends more than a few bytes is disconnected. A session that reads
messages declares a limit in its accept message; reading from the client then pauses while the session does
not process its messages.

This module is imported at the first websocket, because it takes 20 ms and few installations use websockets.
"""

from __future__ import annotations

import time
from copy import copy
from typing import Any, Final

from uvicorn.protocols.websockets.wsproto_impl import WSProtocol
from wsproto.connection import ConnectionState
from wsproto.events import CloseConnection

from windlass.base.http_in.connections import ConnectionTable, OpenConnection

_PIECE: Final = 1024
_AT_ONCE: Final = 0.001
"""Bytes of frames that are parsed at once, and seconds after which parsing pauses to let other connections
run. One piece may contain 170 frames."""
_MAX_UNREAD_BYTES: Final = 16 * 1024
"""Bytes that a client may send in a burst. Pings, pongs and close frames need a few; other messages are not
read."""
_BYTES_A_SECOND: Final = 1024
_POLICY: Final = 1008
_STOPPED: Final = 1012
_STOPPING: Final = "This server is stopping: connect again"


class WebSocket(WSProtocol):
    """A websocket without a buffer for clients that do not read. It is closed if the client does not answer
    pings."""

    def join(self, table: ConnectionTable, http_connection: OpenConnection) -> None:
        """Replaces the HTTP connection that requested the websocket, in the connection table. Called before
        all other methods."""
        self._table = table
        self.network = http_connection.network
        self._may_say = float(_MAX_UNREAD_BYTES)
        self._told_at = self._stuck_since = table.now
        self._accepted = self._stuck = self._is_read = self._waits_for_turn = False
        self._ahead = b""
        """Received bytes that wait to be parsed."""
        table.replace(http_connection, self)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # Until the websocket is accepted, uvicorn would collect frames without a limit.
        transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.remove(self)
        super().connection_lost(exc)

    async def send(self, message: Any) -> None:
        if message["type"] == "websocket.accept" and (longest := message.get("longest")):
            self._is_read = True
            self.buffer.max_length = longest
            self.config = copy(self.config)  # the message of a close frame names the limit of this websocket
            self.config.ws_max_size = longest
        await super().send(message)
        if message["type"] == "websocket.accept" and not self._accepted:
            self._accepted = True
            self._resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._accepted and not self._is_read:
            self._may_say -= len(data)
            if self._may_say < 0:
                self._end_flood()
                return
        if not self._accepted:  # the HTTP request that opens the websocket
            super().data_received(data)
            return
        self._ahead += data
        if not self._waits_for_turn:
            self._parse()

    def _parse(self) -> None:
        """Parses received bytes for at most a millisecond, and queues the rest."""
        until, at = time.perf_counter() + _AT_ONCE, 0
        while at < len(self._ahead) and not self.transport.is_closing():
            super().data_received(self._ahead[at : at + _PIECE])
            at += _PIECE
            if time.perf_counter() > until:
                break
        self._ahead = self._ahead[at:]
        if self._ahead and not self.transport.is_closing():
            self._waits_for_turn = True
            self._table.turns.wait(self._continue_reading)
            self.transport.pause_reading()

    def _continue_reading(self) -> None:
        self._waits_for_turn = False
        if not self.transport.is_closing():
            self._parse()
            self._resume_reading()

    def _resume_reading(self) -> None:
        """Resumes reading from the client, unless there is a reason to pause."""
        is_held_back = self._stuck or self.read_paused or self._waits_for_turn
        if self._accepted and not (is_held_back or self.transport.is_closing()):
            self.transport.resume_reading()

    async def receive(self) -> Any:
        message = await self.queue.get()
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            self._resume_reading()
        return message

    def shutdown(self) -> None:
        """Sends the client the reason why the server closes the websocket."""
        if self.conn.state is ConnectionState.OPEN and not self.close_sent:
            self.transport.write(self.conn.send(CloseConnection(_STOPPED, _STOPPING)))
            self.close_sent = True
            self.queue.put_nowait({"type": "websocket.disconnect", "code": _STOPPED, "reason": None})
        super().shutdown()

    def _end_flood(self) -> None:
        self._table.refuse("websocket flood")
        if self.conn.state is ConnectionState.OPEN and not self.close_sent:
            self.transport.write(
                self.conn.send(CloseConnection(_POLICY, "Send less: messages are not read here"))
            )
            self.close_sent = True
        self.queue.put_nowait({"type": "websocket.disconnect", "code": _POLICY, "reason": None})
        self.transport.close()

    def waits_since(self) -> float | None:
        return self._stuck_since if self._stuck else None

    def age(self, now: float) -> None:
        self._may_say = min(_MAX_UNREAD_BYTES, self._may_say + (now - self._told_at) * _BYTES_A_SECOND)
        self._told_at = now
        if self._stuck and now - self._stuck_since > self._table.bounds.stall_seconds:
            self.transport.abort()

    def abort(self) -> None:
        self.transport.abort()

    def pause_writing(self) -> None:
        """Pauses reading if the client does not read, so that its pings are not answered either."""
        super().pause_writing()
        self._stuck = True
        self._stuck_since = self._table.now
        self._table.unsent(self, self.transport.get_write_buffer_size())
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stuck = False
        self._table.sent(self)
        self._resume_reading()

    def handle_close(self, event: CloseConnection) -> None:
        """Sends the reason for closing to a client that violated the protocol."""
        if self.conn.state is ConnectionState.OPEN and not self.close_sent:
            self.transport.write(self.conn.send(CloseConnection(event.code, event.reason)))
        super().handle_close(event)

    def keepalive_timeout(self) -> None:
        """Aborts the connection if the client does not answer pings; closing would wait for it to read.

        While reading from the client is paused, its pong cannot arrive, so another ping is scheduled.
        """
        if self.read_paused and not self._stuck:
            self.pong_timer = None
            self.pending_ping_payload = None
            self.schedule_ping()
            return
        super().keepalive_timeout()
        self.transport.abort()
