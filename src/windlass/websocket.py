"""Websockets on the wire: uvicorn's protocol over wsproto, for clients that only listen. See `api.sockets`.

Loaded with the first of them, because few installations ever see one, and it takes 20 ms.
"""

from __future__ import annotations

from uvicorn.protocols.websockets.wsproto_impl import WSProtocol
from wsproto.connection import ConnectionState
from wsproto.events import CloseConnection


class WebSocket(WSProtocol):
    """One that keeps nothing for a client that does not read, and lets go of one that does not answer."""

    def pause_writing(self) -> None:
        """The client does not read; then it is not answered either, however often it pings."""
        super().pause_writing()
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.read_paused:
            self.transport.resume_reading()

    def handle_close(self, event: CloseConnection) -> None:
        """Who has broken the rules of the protocol hears which one."""
        if self.conn.state is ConnectionState.OPEN and not self.close_sent:
            self.transport.write(self.conn.send(CloseConnection(event.code, event.reason)))
        super().handle_close(event)

    def keepalive_timeout(self) -> None:
        """What is still to be sent to it would wait for ever, and so would the connection."""
        super().keepalive_timeout()
        self.transport.abort()
