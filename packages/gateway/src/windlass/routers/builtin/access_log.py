"""The access log of a router: one JSON line for each request and each TCP connection, written at its end.

A service may have a log of its own: see `service_log`.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct

from windlass.base.line_log import LineLog, clean_text
from windlass.base.trace import given_trace
from windlass.routers.router import Route

encode_line = msgspec.json.Encoder().encode
_LOGGED_FIELDS_PATTERN: Final = re.compile(
    rb"\r\n(user-agent|traceparent|x-forwarded-for|referer):([^\r]*+)", re.IGNORECASE
)


class GatewayAccessLine(Struct, frozen=True, gc=False):
    time: str
    message: str
    """The method, the host, the path and the status, as readable text."""
    method: str | None
    """None for a TCP connection, and for bytes that are not a valid request."""
    host: str | None
    port: int
    """The public port."""
    path: str | None
    """The path without the query, which may contain a secret."""
    status: int | None
    """HTTP status; 101 for a websocket, which is logged at its end. None for a TCP connection, or if the
    client disconnected before the answer."""
    ms: float
    bytes: int
    """Bytes sent to the client, including headers."""
    service: str | None
    organization: str | None
    address: str
    """Client address; if a trusted proxy has forwarded the request, the address that the proxy reports."""
    user_agent: str
    request_id: str | None
    trace_id: str | None
    protocol: str | None
    """Version of HTTP; None for a TCP connection."""
    level: str = "info"
    logger: str = "windlass.gateway.access"


class CountingTransport:
    """Wraps a client's transport, and counts the bytes written."""

    __slots__ = ("_transport", "sent")

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.sent = 0

    def write(self, data: bytes) -> None:
        self.sent += len(data)
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def count_bytes(transport: Any) -> CountingTransport:
    """Wraps a transport to count its bytes, unless it is already wrapped."""
    return transport if isinstance(transport, CountingTransport) else CountingTransport(transport)


class LoggedHead(NamedTuple):
    method: bytes
    target: bytes
    host: bytes
    fields: bytes
    """All header lines (without the request line)."""
    request_id: bytes
    protocol: str = "HTTP/1.1"


OwnLog = Callable[[GatewayAccessLine, str], None]
"""Adds a line to the log of a service. The text is the Referer without its query."""


class RequestEntry:
    """The log entry of a request or TCP connection in progress. The entry is written at its end."""

    __slots__ = ("_address", "_before", "_began", "_head", "_log", "_own", "_port", "_route", "_transport")

    def __init__(
        self,
        log: RouterAccessLog,
        transport: CountingTransport,
        address: str,
        port: int,
        route: Route | None,
        head: LoggedHead | None = None,
        service_log: OwnLog | None = None,
    ) -> None:
        """`service_log`: the log of the service, if it has one."""
        self._log, self._transport, self._address, self._port = log, transport, address, port
        self._route, self._head, self._own = route, head, service_log
        self._before = transport.sent
        self._began = time.monotonic()

    def end(self, status: int) -> None:
        """Writes the log line. `status` is 0 for a TCP connection, and if the client disconnected before the
        answer."""
        has_room = self._log.has_room()
        if not has_room and self._own is None:
            return
        head = self._head or _NO_HEAD
        values = {
            match[1].lower(): match[2].strip(b"\t ") for match in _LOGGED_FIELDS_PATTERN.finditer(head.fields)
        }
        line = self._access_line(status, head, values)
        if has_room:
            self._log.put(encode_line(line))
        if self._own is not None:
            self._own(line, _decode(values.get(b"referer", b"").partition(b"?")[0]))

    def _access_line(self, status: int, head: LoggedHead, values: dict[bytes, bytes]) -> GatewayAccessLine:
        trace = given_trace(values.get(b"traceparent"))
        method, host = _decode(head.method), _decode(head.host)
        path = _decode(head.target.partition(b"?")[0])
        request = f"{method} {host}{path}" if method else f"port {self._port}"
        return GatewayAccessLine(
            time=self._log.stamp(time.time()),
            message=f"{request} {status or '-'}",
            method=method or None,
            host=host or None,
            port=self._port,
            path=path or None,
            status=status or None,
            ms=round((time.monotonic() - self._began) * 1000, 2),
            bytes=self._transport.sent - self._before,
            service=self._route.service if self._route else None,
            organization=(self._route.org or None) if self._route else None,
            address=self._log.client(self._address, values.get(b"x-forwarded-for")),
            user_agent=_decode(values.get(b"user-agent", b"")),
            request_id=_decode(head.request_id) or None,
            trace_id=trace.id if trace else None,
            protocol=head.protocol if method else None,
        )


class RouterAccessLog(LineLog):
    def __init__(self, file: str, trusts: Callable[[str], bool]) -> None:
        """`trusts` returns whether an address belongs to a trusted proxy."""
        super().__init__(file)
        self.trusts = trusts

    @classmethod
    def closed(cls, trusts: Callable[[str], bool]) -> RouterAccessLog:
        """Returns a log that takes no lines, for a router without one."""
        log = cls(os.devnull, trusts)
        log.refuse_lines()
        return log

    def client(self, address: str, forwarded: bytes | None) -> str:
        """Returns the client's address. If a trusted proxy has connected, this is the last address in
        X-Forwarded-For that is not a trusted proxy."""
        if forwarded is not None and self.trusts(address):
            for named in reversed(_decode(forwarded).split(",")):
                address = named.strip() or address
                if not self.trusts(address):
                    break
        return address


def _decode(value: bytes) -> str:
    return clean_text(value.decode(errors="replace"))


_NO_HEAD: Final = LoggedHead(b"", b"", b"", b"", b"")
