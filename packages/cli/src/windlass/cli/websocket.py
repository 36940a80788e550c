"""A non-blocking websocket to the server, for commands that send and receive. The caller's event loop waits
for the socket."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from msgspec import Struct
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)
from wsproto.utilities import ProtocolError

from windlass.base.cleanup import on_failure
from windlass.cli.client import Api, ApiAnswer, ServerUnreachable
from windlass.terminal.command_errors import CommandFailed

_TIMEOUT: Final = 60
_CHUNK_BYTES: Final = 65_536
_MAX_MESSAGE_BYTES: Final = 32_768
"""Maximum bytes of a message, half of the server's limit."""
_WOULD_BLOCK: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class CloseFrame(Struct, frozen=True):
    """The end of a websocket: its code, and the server's reason."""

    code: int
    reason: str


class CommandSocket:
    """An open websocket that sends and receives bytes and JSON."""

    def __init__(self, api: Api, path: str, query: Mapping[str, Any]) -> None:
        """Opens the websocket. Raises ApiRefused with the server's reason if the handshake is rejected."""
        self._api = api
        self._protocol = WSConnection(ConnectionType.CLIENT)
        self._waiting = bytearray()
        self._early: list[Event] = []
        """Events that arrived together with the handshake response, for example if the command ended
        immediately."""
        self._socket = self._connect()
        with on_failure(self._socket.close):
            self._open(path, query)
        self._socket.setblocking(False)

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def waiting(self) -> int:
        """The number of bytes waiting to be sent."""
        return len(self._waiting)

    def send_bytes(self, data: bytes) -> None:
        for start in range(0, len(data), _MAX_MESSAGE_BYTES):
            self._queue_event(BytesMessage(data[start : start + _MAX_MESSAGE_BYTES]))

    def send_json(self, message: Mapping[str, Any]) -> None:
        self._queue_event(TextMessage(json.dumps(message)))

    def flush(self) -> None:
        """Sends as much as possible without blocking."""
        try:
            while self._waiting:
                del self._waiting[: self._socket.send(self._waiting)]
        except _WOULD_BLOCK:
            pass
        except OSError as error:
            raise self._connection_failure(error) from error

    def receive(self) -> Iterator[bytes | dict[str, Any] | CloseFrame]:
        """Yields everything that has arrived: bytes, JSON, and the close frame."""
        early, self._early = self._early, []
        yield from filter(None, map(self._convert_event, early))
        while (data := self._read()) is not None:
            try:
                # Empty data means that the connection was closed, for which wsproto expects None.
                self._protocol.receive_data(data or None)
                events = [*self._protocol.events()]
            except ProtocolError as error:
                raise CommandFailed(
                    f"check the address: {self._api.url} does not answer as Windlass does"
                ) from error
            for event in events:
                if (message := self._convert_event(event)) is not None:
                    yield message
            if not data:
                return

    def close(self) -> None:
        self._socket.close()

    def _convert_event(self, event: Event) -> bytes | dict[str, Any] | CloseFrame | None:
        match event:
            case BytesMessage(data=data):
                return bytes(data)
            case TextMessage(data=text):
                message: dict[str, Any] = json.loads(text)
                return message
            case Ping():
                self._queue_event(event.response())
            case CloseConnection(code=code, reason=reason):
                return CloseFrame(int(code), reason or "")
        return None

    def _queue_event(self, event: Event) -> None:
        self._waiting += self._protocol.send(event)

    def _read(self) -> bytes | None:
        """Returns the received bytes: empty at the end of the connection, None if nothing has arrived."""
        try:
            return self._socket.recv(_CHUNK_BYTES)
        except _WOULD_BLOCK:
            return None
        except OSError as error:
            raise self._connection_failure(error) from error

    # Opening

    def _connect(self) -> socket.socket:
        parts = urlsplit(self._api.url)
        secure = parts.scheme == "https"
        host = parts.hostname or ""
        try:
            connection = socket.create_connection((host, parts.port or (443 if secure else 80)), _TIMEOUT)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if secure:
                return ssl.create_default_context().wrap_socket(connection, server_hostname=host)
            return connection
        except OSError as error:
            raise self._api.unreachable(error) from error

    def _open(self, path: str, query: Mapping[str, Any]) -> None:
        parts = urlsplit(self._api.url)
        headers = [(name.encode(), value.encode()) for name, value in self._api.headers.items()]
        target = f"{parts.path}{path}?{urlencode(query, doseq=True)}"
        request = Request(host=parts.netloc, target=target, extra_headers=headers)
        try:
            self._socket.sendall(self._protocol.send(request))
            self._await_answer()
        except OSError as error:
            raise self._connection_failure(error) from error
        except ProtocolError as error:
            raise CommandFailed(
                f"check the address: {self._api.url} does not answer as Windlass does"
            ) from error

    def _await_answer(self) -> None:
        refusal: RejectConnection | None = None
        body = b""
        while True:
            self._protocol.receive_data(self._socket.recv(_CHUNK_BYTES) or None)
            events = [*self._protocol.events()]
            for index, event in enumerate(events):
                match event:
                    case AcceptConnection():
                        self._early = events[index + 1 :]
                        return
                    case RejectConnection():
                        refusal = event
                    case RejectData(data=data, body_finished=is_finished):
                        body += data
                        if is_finished and refusal is not None:
                            raise self._refusal(refusal, body)
                    case CloseConnection():
                        raise self._connection_failure(ConnectionError("the server has closed it"))
                if refusal is not None and not refusal.has_body:
                    raise self._refusal(refusal, body)

    def _refusal(self, refusal: RejectConnection, body: bytes) -> CommandFailed:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in refusal.headers}
        return self._api.refusal(ApiAnswer(refusal.status_code, headers, body))

    def _connection_failure(self, error: OSError) -> ServerUnreachable:
        return ServerUnreachable(f"repeat the command: the connection to {self._api.url} was lost ({error})")
