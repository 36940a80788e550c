"""TLS between the event loop's transport and the protocol of a client: the transport that the protocol sees.

The event loop has such a layer, too. This one has no timer and no buffer of its own for each connection, and
does less for each request: a handshake and a kept-alive request cost less, and an idle connection takes less
memory.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Final

from windlass.base.http_in.bounds import Bounds

_MAX_RECORD_BYTES: Final = 16 * 1024
"""Maximum size of the content of a TLS record. A read returns one record at most, and all of it."""
_SLICE_BYTES: Final = 8 * 1024
"""Number of received bytes that the library gets at once. It may find hundreds of messages in them that ask
for new keys, and answers each."""
_MAX_REPLY_BYTES: Final = 2048
"""Size of all answers of the library after the handshake of a connection. An answer has 27 bytes, and a
client needs new keys every 16 million records."""


class TlsLayer(asyncio.Protocol):
    __slots__ = (
        "_begin",
        "_bounds",
        "_ended",
        "_error",
        "_incoming",
        "_is_closing",
        "_loop",
        "_outgoing",
        "_protocol",
        "_raw",
        "_reply_bytes",
        "_timer",
        "_tls",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        context: ssl.SSLContext,
        begin: Callable[[str], asyncio.Protocol],
        on_end: Callable[[str], None],
        bounds: Bounds,
    ) -> None:
        """`begin` returns the protocol of the connection after its handshake, from the name of the protocol
        that both sides have chosen (empty if the client offers none). `on_end` is called at the end
        of the handshake, with the reason if it has failed."""
        self._loop = loop
        self._begin, self._ended = begin, on_end
        self._bounds = bounds
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._protocol: Any = None
        """The protocol of the client; None during the handshake."""
        self._raw: Any = None
        self._error: Exception | None = None
        self._is_closing = False
        self._reply_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    # The protocol of the event loop's transport

    def connection_made(self, transport: Any) -> None:
        self._raw = transport
        if self._is_closing:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._is_closing or self._protocol is None:
            for at in range(0, len(data), _SLICE_BYTES):
                self._incoming.write(data[at : at + _SLICE_BYTES])
                if self._is_closing:
                    self._part()
                elif self._protocol is None:
                    self._continue_handshake()
                else:
                    self._read()
        else:
            self._read(data)

    def pause_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self._protocol is not None:
            self._protocol.resume_writing()

    def eof_received(self) -> bool:
        """An end without a message of TLS may come from someone else: it closes the connection at once."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        was_closing, self._is_closing = self._is_closing, True
        if self._timer is not None:
            self._timer.cancel()
        protocol, self._protocol = self._protocol, None  # no cycle of references remains
        if protocol is not None:
            protocol.connection_lost(exc or self._error)
        elif not was_closing:
            self._ended("a failed handshake")
        self._begin = self._ended = _do_nothing

    # The handshake

    def _continue_handshake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except OSError:
            self._flush()  # the alert that says why
            self._ended("a failed handshake")
            self.abort()
            return
        self._flush()
        self._ended("")
        self._protocol = self._begin(self._tls.selected_alpn_protocol() or "")
        self._begin = self._ended = _do_nothing  # they hold the objects of the handshake
        self._protocol.connection_made(self)
        if self._incoming.pending and not self._is_closing:
            self._read()

    # Reading

    def _read(self, data: bytes = b"") -> None:
        """Passes on what the library has, and what is in further bytes."""
        pieces: list[bytes] = []
        is_end, at = False, 0
        while True:
            if at < len(data):
                self._incoming.write(data[at : at + _SLICE_BYTES])
                at += _SLICE_BYTES
            try:
                is_end = self._decrypt(pieces)
            except OSError as error:
                self._flush()
                self._error = error
                self.abort()
                return
            if is_end or at >= len(data):
                break
        if pieces:
            self._protocol.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if is_end and not self._is_closing:
            self._protocol.eof_received()
            self.close()

    def _decrypt(self, pieces: list[bytes]) -> bool:
        """Adds the content of all complete records. Returns whether the client has closed. Raises OSError."""
        incoming, read = self._incoming, self._tls.read
        try:
            while incoming.pending:
                piece = read(_MAX_RECORD_BYTES)
                if not piece:
                    return True
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass  # the rest of a record is still to come
        except ssl.SSLZeroReturnError:
            return True
        if size := self._outgoing.pending:
            self._flush()
            self._reply_bytes += size
            if self._reply_bytes > _MAX_REPLY_BYTES:
                raise ConnectionAbortedError("the client asks for new keys again and again")
        return False

    # Closing

    def _part(self) -> None:
        """Closes the connection as soon as both sides have said that they close it. What the client sends
        until then is not wanted."""
        if self._raw.is_closing():
            return
        try:
            while self._incoming.pending and self._tls.read(_MAX_RECORD_BYTES):
                pass
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        except OSError:
            self._raw.abort()
            return
        try:
            self._tls.unwrap()
        except ssl.SSLWantReadError:
            self._flush()
        except OSError:
            self._raw.abort()
        else:
            self._flush()
            self._raw.close()

    def _flush(self) -> None:
        data = self._outgoing.read()
        if data and not self._raw.is_closing():
            self._raw.write(data)

    # The transport of the client's protocol

    def write(self, data: bytes) -> None:
        if self._is_closing or not data:
            return
        try:
            self._tls.write(data)  # all of it: a buffer in memory takes any number of bytes
        except OSError as error:
            self._error = error
            self.abort()
            return
        self._raw.write(self._outgoing.read())

    def close(self) -> None:
        """Sends what is left, and waits a moment for the client to close, too."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._raw.is_closing():
            return
        self._await_end(self._bounds.stall_seconds)
        self._raw.resume_reading()
        self._part()

    def _await_end(self, seconds: float) -> None:
        """Waits a moment for the client to close, which it cannot do before it has taken what is left. It has
        this many seconds to take it."""
        is_sending = self.get_write_buffer_size() > 0
        pause = self._bounds.parting_seconds
        self._timer = self._loop.call_later(pause, self._check_end, is_sending, seconds - pause)

    def _check_end(self, was_sending: bool, seconds: float) -> None:
        if was_sending and (seconds > 0 or not self.get_write_buffer_size()):
            self._await_end(seconds)
        else:
            self._raw.abort()

    def abort(self) -> None:
        self._is_closing = True
        if self._raw is not None:
            self._raw.abort()

    def is_closing(self) -> bool:
        return self._is_closing or bool(self._raw.is_closing())

    def pause_reading(self) -> None:
        self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._raw.resume_reading()

    def get_write_buffer_size(self) -> int:
        return int(self._raw.get_write_buffer_size())

    def get_extra_info(self, name: str) -> Any:
        return self._raw.get_extra_info(name)

    def can_write_eof(self) -> bool:
        """TLS closes both directions."""
        return False

    def set_protocol(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol


def _do_nothing(*_: Any) -> Any:
    return None
