"""Splits the bytes from a client into requests. One request is in progress at a time; further requests wait.

Heads are validated by rules that the gateway's port and the API's port share. `client` routes the requests.
"""

from __future__ import annotations

from typing import Final

from windlass.base.http_in.body import RequestBody
from windlass.base.http_in.bounds import CHUNKS_AT_ONCE
from windlass.base.http_in.heads import REQUEST_LINE, check_authority, parse_line
from windlass.base.http_in.wire import HEAD_END, Bad
from windlass.routers.builtin.client_socket import BUSY, IDLE, GatewaySocket
from windlass.routers.builtin.memory_shares import MAX_SMALL_HEAD_BYTES
from windlass.routers.builtin.requests import Fields, check_headers
from windlass.routers.builtin.shared_state import SharedState

_SLASH: Final = ord("/")
_ZERO: Final = ord("0")
_AT_ONCE: Final = 4
"""Maximum number of requests of one client that are answered in one turn of the event loop."""
_NO_FIELDS: Final = Fields(b"\0", False)


class RequestReader(GatewaySocket):
    __slots__ = ("_body", "_fields", "_longest_line")

    def __init__(self, shared_state: SharedState, port: int) -> None:
        super().__init__(shared_state, port)
        self._longest_line = shared_state.bounds.target_bytes
        self._fields = _NO_FIELDS
        """The parsed headers of the last request. The next request of a client usually has the same
        headers."""
        self._body: RequestBody | None = None

    # Left to `client`

    def _route(self, method: bytes, target: bytes, body: bytes) -> None:
        """Routes a request. `body` is the part of its body that was already received."""
        raise NotImplementedError

    def _pass_on(self, data: bytes) -> None:
        """Sends further bytes of the request's body to the instance."""
        raise NotImplementedError

    # Bytes that arrive

    def data_received(self, data: bytes) -> None:
        if self._phase is IDLE:
            if self._held.held or self._blocked:
                self._held.add(data)
                self._advance()
            elif not self._handle_whole_request(data):
                self._since = self._shared.now
                self._begin(data)
        elif self._phase is BUSY:
            self._read_body(data)

    def _handle_whole_request(self, data: bytes) -> bool:
        """Handles a complete request without a body, the most frequent kind. Returns False for all other
        requests, which `_begin` handles."""
        fields = self._fields
        first = data.find(b"\r\n")
        if fields.length or first > self._longest_line:
            return False
        if data.startswith(fields.raw, first):
            if len(data) != first + len(fields.raw):
                return False
        elif len(data) > self._shared.bounds.head_bytes:
            return False
        elif not fields.vary(data, first):
            if not self._is_whole_request(data, first):
                return False
            fields = self._fields
        line = REQUEST_LINE.fullmatch(data, 0, first)
        if not line:
            return False
        method, target, minor = line.groups()
        if target[0] != _SLASH or (minor == b"0") is not fields.old:
            return False
        self.whole = True
        self._route(method, target, b"")
        return True

    def _is_whole_request(self, data: bytes, first: int) -> bool:
        """Parses new headers. Returns whether the bytes are exactly one valid head of a request without a
        body."""
        if first < 1 or data.find(HEAD_END, first) != len(data) - len(HEAD_END):
            return False
        try:
            self._fields = check_headers(
                data[first:],
                data[first - 1] == _ZERO,
                self._address,
                self._shared.bounds,
                self.scheme,
                self._shared.connections.trusts,
            )
        except Bad:
            return False
        return not self._fields.length

    def _begin(self, data: bytes) -> None:
        """Handles bytes that begin a request. They usually contain the whole request."""
        end = data.find(HEAD_END, 1, self._shared.bounds.head_bytes)
        if end < 0 or data.startswith(b"\r\n"):
            self._held.add(data)
        else:
            try:
                self._begin_request(data)
            except Bad as bad:
                self._refuse(bad.status, bad.message)
            if self._phase is BUSY and self.whole and not self._held.held:
                return
        self._advance()

    def _advance(self) -> None:
        for _ in range(_AT_ONCE):
            if self._phase is not IDLE or self._blocked or not self._held.held:
                break
            if self._shared.now > self._shared.answers_until:
                self._hang_up()
                break
            try:
                data = self._held.head()
                if data is None:
                    break
                self._begin_request(data)
            except Bad as bad:
                self._refuse(bad.status, bad.message)
        else:  # the router itself has answered all of these requests: other clients get a turn
            self._shared.loop.call_soon(self._advance)
        self.choose_reading()

    def _begin_request(self, data: bytes) -> None:
        """Parses and routes a request. `data` begins with a complete head."""
        first = data.find(b"\r\n")
        end = data.find(HEAD_END, first) + 4
        bounds = self._shared.bounds
        line = parse_line(data[:first], bounds)
        fields = self._fields
        raw = data[first:end]
        if raw != fields.raw or line.old is not fields.old:
            trusts = self._shared.connections.trusts
            fields = self._fields = check_headers(raw, line.old, self._address, bounds, self.scheme, trusts)
        check_authority(line.authority, fields.host)
        if len(data) > end:
            self._held.add(data[end:])
        self._route(line.method, line.target, self._received_body_part(fields.length))

    def _forget_large_head(self) -> None:
        """Called at the end of a request. A small head is kept, because the next one usually is the same."""
        if len(self._fields.raw) > MAX_SMALL_HEAD_BYTES:
            self._fields = _NO_FIELDS

    def _received_body_part(self, length: int) -> bytes:
        """Returns the received part of the body. Stores bytes after the body for the next request."""
        self.whole, self._body = True, None
        if not length:
            return b""
        if 0 < length <= len(self._held.held):  # usually the whole body arrives together with the head
            return self._held.cut(length)
        body = self._body = RequestBody(length, self._shared.bounds, self._held, at_once=CHUNKS_AT_ONCE)
        data = body.begin()
        self.whole = body.whole
        return data

    def _read_body(self, data: bytes) -> None:
        """Handles further bytes of the body, or of following requests."""
        body = self._body
        if self.whole or body is None or self._upstream is None:
            self._held.add(data)
            self.choose_reading()
            return
        self._since = self._shared.now
        try:
            data = body.feed(data)
        except Bad as bad:
            if self._upstream.begun:
                self.transport.abort()
            else:
                self._refuse(bad.status, bad.message)
            return
        self.whole = body.whole
        if data:
            self._pass_on(data)
        if body.is_behind and not self._waits_for_turn:
            self._waits_for_turn = True
            self._shared.connections.turns.wait(self._continue_reading)
            self.choose_reading()

    def _is_behind(self) -> bool:
        return not self.whole and self._body is not None and self._body.is_behind

    def _continue_reading(self) -> None:
        """Passes on further body bytes that were already received."""
        self._waits_for_turn = False
        if self._phase is BUSY:
            if self._is_behind() and self._upstream is not None:
                self._read_body(b"")
            self.choose_reading()
