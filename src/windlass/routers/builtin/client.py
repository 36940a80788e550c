"""A connection of a client that speaks HTTP: its requests in order, each judged by its host and path anew.

There is no object and no task for a request. A connection has at most one request under way; what comes
after it waits in order. Everything a request needs is a few attributes of the connection, and it is passed on
in one write: head and body, as far as it is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from windlass.base.http_in.bounds import ROOM
from windlass.base.http_in.chunks import Chunks
from windlass.base.http_in.connections import Room, network_of
from windlass.base.http_in.heads import CHUNKED, LINE, check_authority, judged_line
from windlass.base.http_in.wire import END, Bad, Gathering
from windlass.routers.builtin import pages
from windlass.routers.builtin.pages import ErrorPage
from windlass.routers.builtin.pipes import Pipe, PipeEnd
from windlass.routers.builtin.requests import IDEMPOTENT, Fields, judged_fields
from windlass.routers.builtin.upstream import Upstream

if TYPE_CHECKING:
    from windlass.routers.builtin.peers import Peer
    from windlass.routers.builtin.shared_state import SharedState
    from windlass.routers.builtin.table import Backend, Paths

_SLASH: Final = ord("/")
_ZERO: Final = ord("0")
_AT_ONCE: Final = 32
"""Requests of one client that are answered before others have their turn."""
_NO_FIELDS: Final = Fields(b"\0", False)


class ClientConnection(asyncio.Protocol):
    __slots__ = (
        "_address",
        "_backend",
        "_body",
        "_busy",
        "_eof",
        "_fields",
        "_find",
        "_gate",
        "_held",
        "_idempotent",
        "_left",
        "_longest_line",
        "_lost",
        "_parting",
        "_paused",
        "_peer",
        "_retried",
        "_sent",
        "_served",
        "_since",
        "_stuck",
        "_tried",
        "_upstream",
        "close",
        "head_only",
        "network",
        "old",
        "transport",
        "upgrade",
        "whole",
    )

    def __init__(self, gate: SharedState, find: Callable[[bytes], Paths | None]) -> None:
        self._gate = gate
        self._find = find
        self._held = Gathering(gate.bounds.head_bytes, gate.bounds.target_bytes)
        self._longest_line = gate.bounds.target_bytes
        self._fields = _NO_FIELDS
        """Those of the last request, which the next one usually repeats."""
        # Of the connection
        self._lost = self._eof = self._parting = False
        self._paused = self._stuck = False
        self._served = False
        self._since = gate.loop.time()
        # Of the request under way
        self._busy = False
        self.whole = True
        """All of it has arrived."""
        self._left = 0
        self._body: Chunks | None = None
        self._backend: Backend | None = None
        self._peer: Peer | None = None
        self._tried: list[Peer] = []
        self._upstream: Upstream | None = None
        self._sent = b""
        """All that was sent of it, if it is still all: then it can be sent again."""
        self._idempotent = self._retried = False
        self.close = self.head_only = self.old = False
        self.upgrade = b""

    # The connection

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        peer = transport.get_extra_info("peername")
        host = str(peer[0]) if peer else "unknown"
        self._address = host.encode()
        self.network = network_of(host)
        gate = self._gate
        room = Room.NONE if gate.stopping else gate.connections.admit(self)
        if room is Room.NONE:
            transport.abort()
        elif room is Room.FULL:
            transport.write(pages.crowded().rendered(b"", head_only=False, close=True))
            self._part()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._gate.connections.remove(self)
        if self._busy:
            upstream = self._upstream
            if upstream is not None:
                upstream.abandon()
            self._not_busy()

    def eof_received(self) -> bool:
        """It sends no more. It may have gone, or only be waiting for what it asked."""
        self._eof = True
        if self._parting or not self._busy or not self.whole:
            return False
        self._since = self._gate.now
        return True

    def pause_writing(self) -> None:
        self._stuck = True
        self._since = self._gate.now
        self._gate.connections.unsent(self, self.transport.get_write_buffer_size())
        if self._upstream is not None:
            self._upstream.pause()

    def resume_writing(self) -> None:
        self._stuck = False
        self._gate.connections.sent(self)
        if self._upstream is not None:
            self._upstream.resume()
        elif not self._busy:
            self._advance()

    def abort(self) -> None:
        self.transport.abort()

    def waits_since(self) -> float | None:
        """Returns since when the gateway has been waiting for the client; None while an instance works."""
        if self._busy and not self._stuck and (self.whole or self._paused or self._upstream is None):
            return None
        return self._since

    def age(self, now: float) -> None:
        bounds, age = self._gate.bounds, now - self._since
        if self._parting:
            if age > bounds.parting_seconds:
                self.transport.abort()
        elif self._busy and self._eof:
            if age > bounds.leaving_seconds:
                self.transport.abort()
        elif self._stuck:
            if age > bounds.stall_seconds:
                self.transport.abort()
        elif self._busy:
            if not self.whole and not self._paused and age > bounds.stall_seconds:
                self._too_slow("The rest of the request did not arrive in time.")
        elif self._held.held:
            if age > bounds.head_seconds:
                self._too_slow("The head of the request did not arrive in time.")
        elif age > (bounds.idle_seconds if self._served else bounds.head_seconds):
            self.transport.close()

    def _too_slow(self, message: str) -> None:
        if self._upstream is not None and self._upstream.begun:
            self.transport.abort()
        else:
            self._refuse(408, message)

    def _part(self) -> None:
        """Hangs up. Where something may still come, it is read for a moment: closing over unread bytes would
        take the answer away from those who have not read it yet."""
        if self._lost or self._parting or self.transport.is_closing():
            return
        self._parting = True
        self._since = self._gate.now
        self._held.take()
        if self._eof:
            self.transport.close()
            return
        self.transport.write_eof()
        self._read_on()

    # What arrives

    def data_received(self, data: bytes) -> None:
        if self._busy:
            self._more(data)
        elif self._parting:
            return
        elif self._held.held or self._stuck:
            self._held.add(data)
            self._advance()
        elif not self._quickly(data):
            self._since = self._gate.now
            self._begin(data)

    def _quickly(self, data: bytes) -> bool:
        """A whole request without a body in one piece: nearly all that there are. What is doubtful is left to
        `_begin`, which says why."""
        fields = self._fields
        first = data.find(b"\r\n")
        if fields.length or first > self._longest_line:
            return False
        if data.startswith(fields.raw, first):
            if len(data) != first + len(fields.raw):
                return False
        elif len(data) > self._gate.bounds.head_bytes:
            return False
        elif not fields.vary(data, first):
            if not self._judged(data, first):
                return False
            fields = self._fields
        line = LINE.fullmatch(data, 0, first)
        if not line:
            return False
        method, target, minor = line.groups()
        if target[0] != _SLASH or (minor == b"0") is not fields.old:
            return False
        self.whole = True
        self._route(method, target, b"")
        return True

    def _judged(self, data: bytes, first: int) -> bool:
        """Whether this is one head, and nothing more is to come of it."""
        if first < 1 or data.find(END, first) != len(data) - len(END):
            return False
        try:
            self._fields = judged_fields(
                data[first:], data[first - 1] == _ZERO, self._address, self._gate.bounds
            )
        except Bad:
            return False
        return not self._fields.length

    def _begin(self, data: bytes) -> None:
        """The beginning of a request, most often all of it."""
        end = data.find(END, 1, self._gate.bounds.head_bytes)
        if end < 0 or data.startswith(b"\r\n"):
            self._held.add(data)
        else:
            try:
                self._take(data)
            except Bad as bad:
                self._refuse(bad.status, bad.message)
            if self._busy and self.whole and not self._held.held:
                return
        self._advance()

    def _advance(self) -> None:
        """Takes up what waits, one request after the other."""
        for _ in range(_AT_ONCE):
            if self._busy or self._parting or self._stuck or self._lost or not self._held.held:
                break
            try:
                data = self._held.head()
                if data is None:
                    break
                self._take(data)
            except Bad as bad:
                self._refuse(bad.status, bad.message)
        else:  # each was answered here, without an instance: others have their turn first
            self._gate.loop.call_soon(self._advance)
        self._choose_reading()

    def _take(self, data: bytes) -> None:
        """Bytes that begin with a whole head."""
        first = data.find(b"\r\n")
        end = data.find(END, first) + 4
        bounds = self._gate.bounds
        line = judged_line(data[:first], bounds)
        fields = self._fields
        raw = data[first:end]
        if raw != fields.raw or line.old is not fields.old:
            fields = self._fields = judged_fields(raw, line.old, self._address, bounds)
        check_authority(line.authority, fields.host)
        if len(data) > end:
            self._held.add(data[end:])
        self._route(line.method, line.target, self._opening(fields.length))

    def _opening(self, length: int) -> bytes:
        """As much of the body as is there; what is not of it goes on waiting."""
        self.whole, self._body = True, None
        body = b""
        if length == CHUNKED:
            self._body = Chunks(self._gate.bounds)
            body, after = self._body.feed(self._held.take())
            self.whole = after is not None
            if after:
                self._held.add(after)
        elif length:
            body = self._held.cut(length)
            self._left = length - len(body)
            self.whole = not self._left
        return body

    def _more(self, data: bytes) -> None:
        """Of the body, or of the requests after it."""
        if self.whole or self._upstream is None:
            self._held.add(data)
            self._choose_reading()
            return
        self._since = self._gate.now
        try:
            data = self._continued(data)
        except Bad as bad:
            if self._upstream.begun:
                self.transport.abort()
            else:
                self._refuse(bad.status, bad.message)
            return
        if data:
            self._sent = b""
            self._upstream.write(data)

    def _continued(self, data: bytes) -> bytes:
        after: bytes | None = None
        if self._body is not None:
            data, after = self._body.feed(data)
        elif len(data) >= self._left:
            data, after = data[: self._left], data[self._left :]
        else:
            self._left -= len(data)
        if after is not None:
            self.whole = True
            self._held.add(after)
        return data

    def flow(self) -> None:
        """The instance takes more, or does not."""
        self._choose_reading()

    def _choose_reading(self) -> None:
        """Not while nobody takes what would arrive."""
        upstream = self._upstream
        if self._busy and not self.whole:
            pause = upstream is None or upstream.stuck
        else:
            pause = len(self._held.held) > ROOM
        if pause is self._paused:
            return
        if not pause:
            self._read_on()
        elif not (self._lost or self._eof or self.transport.is_closing()):
            self._paused = True
            self.transport.pause_reading()

    def _read_on(self) -> None:
        if self._paused and not (self._lost or self._eof or self.transport.is_closing()):
            self._paused = False
            self.transport.resume_reading()

    # The request

    def _route(self, method: bytes, target: bytes, body: bytes) -> None:
        fields = self._fields
        self.old = fields.old
        self.close = fields.close
        self.head_only = method == b"HEAD"
        paths = self._find(fields.host)
        if paths is None:
            self._say(pages.unknown(fields.host.decode()))
            return
        backend = paths.only or paths.match(target)
        if backend is None:
            self._say(pages.no_path(fields.host.decode(), target.partition(b"?")[0].decode("latin-1")))
            return
        if backend.path or backend.route.rewrite is not None:
            target = backend.rewritten(target)
        self._idempotent = method in IDEMPOTENT
        self.upgrade = fields.upgrade
        self._sent = b"%b %b HTTP/1.1%b%b\r\n\r\n%b" % (
            method,
            target,
            fields.passed,
            fields.id or self._gate.request_id(),
            body,
        )
        self._backend = backend
        traffic = backend.traffic
        traffic.requests += 1
        traffic.active += 1
        self._busy = True
        self._served = True
        self._send(backend.pick())

    def _send(self, peer: Peer | None, *, fresh: bool = False) -> None:
        if peer is None:
            backend = self._backend
            assert backend is not None
            say = pages.not_answering if backend.peers else pages.not_running
            self._not_busy()
            self._say(say(backend.title))
            return
        self._peer = peer
        peer.active += 1
        idle = peer.idle
        while idle and not fresh:
            upstream = idle.pop()
            if not upstream.transport.is_closing():
                self._carried_by(upstream)
                return
        gate = self._gate
        gate.dial(peer, lambda: Upstream(gate, peer), self._connected, self._refused)
        self._choose_reading()

    def _connected(self, upstream: Upstream) -> None:
        if upstream.peer is not self._peer or not self._busy:
            # Whoever wanted it has gone meanwhile; the next one may have it.
            upstream.peer.ended()
            upstream.rest()
            return
        self._since = self._gate.now
        self._carried_by(upstream)

    def _carried_by(self, upstream: Upstream) -> None:
        self._upstream = upstream
        if self._stuck:
            upstream.pause()
        upstream.carry(self, self._sent)
        if not self.whole:
            if self._held.held:  # arrived while the connection was being made
                self._more(self._held.take())
            self._choose_reading()

    def _refused(self, peer: Peer) -> None:
        """Nothing was sent, so that every request may go elsewhere."""
        peer.ended()
        if self._busy and peer is self._peer and self._backend is not None:
            self._peer = None
            self._tried.append(peer)
            self._send(self._backend.pick(self._tried))
            self._advance()

    # What the instance makes of it

    def failed(self, peer: Peer, why: str, *, unsent: bool = False) -> None:
        """The connection ended before any byte of the answer. Only what does no harm twice is sent again."""
        self._upstream = self._peer = None
        backend = self._backend
        assert backend is not None
        peer.ended()
        harmless = unsent or (self._idempotent and self.whole)
        if harmless and self._sent and not self._retried:
            self._retried = True
            self._send(backend.pick([peer]) or peer, fresh=True)
        else:
            self.broken(why)

    def broken(self, why: str) -> None:
        """There will be no answer that can be passed on, and nothing of one was."""
        backend = self._backend
        assert backend is not None
        self._not_busy()
        self._say(pages.broken(backend.title, why))
        self._advance()

    def cut(self) -> None:
        """The answer breaks off: so must the connection, for the client to see it."""
        self._not_busy()
        self._parting = True
        self._since = self._gate.now
        self.transport.close()

    def answered(self) -> None:
        """The answer is complete."""
        whole = self.whole
        self._not_busy()
        self._next(whole)

    def _next(self, whole: bool) -> None:
        if self.close or self._eof or not whole or self._gate.stopping:
            self.whole = True
            if whole and not self._held.held:
                self._parting = True
                self._since = self._gate.now
                self.transport.close()
            else:
                self._part()
        elif self._held.held:
            self._advance()

    def _not_busy(self) -> None:
        """Lets go of the instance, if that has not been done."""
        peer, self._peer = self._peer, None
        if peer is not None and self._upstream is not None:
            peer.ended()
        # A connection that is still being made is counted until it is.
        self._upstream = None
        self._busy = False
        self._since = self._gate.now
        self._sent = b""
        self._retried = False
        if self._tried:
            self._tried = []
        backend, self._backend = self._backend, None
        if backend is not None:
            backend.traffic.active -= 1

    def switch(self, upstream: Upstream, head: bytes, rest: bytes) -> None:
        """From here on there are no requests any more, only bytes."""
        backend, peer = self._backend, self._peer
        assert backend is not None
        assert peer is not None
        self.transport.write(head + rest)
        ours = PipeEnd(self.transport, paused=self._paused, stuck=self._stuck)
        theirs = PipeEnd(upstream.transport, paused=upstream.paused, stuck=upstream.stuck)
        ahead = self._held.take()
        self.transport.set_protocol(ours)
        upstream.transport.set_protocol(theirs)
        traffic = backend.traffic

        def ended() -> None:
            traffic.active -= 1

        ours.eof = self._eof
        if ahead:
            ours.data_received(ahead)
        Pipe(self._gate, peer, ours, theirs, ended, self)
        self._peer = self._backend = self._upstream = None

    # What is said by the router itself

    def _say(self, page: ErrorPage) -> None:
        close = self.close or self._gate.stopping or not self.whole or self._eof
        self.close = close
        fields = self._fields.raw
        if not (self._lost or self.transport.is_closing()):
            self.transport.write(page.rendered(fields, head_only=self.head_only, close=close))
            self._served = True
            if close:
                self._next(self.whole)

    def _refuse(self, status: int, message: str) -> None:
        """A request that is not one: nothing after it can be trusted either."""
        upstream = self._upstream
        if upstream is not None:
            upstream.abandon()
        self._not_busy()
        self.head_only = False
        self._gate.connections.refuse(str(status))
        if not (self._lost or self.transport.is_closing()):
            page = pages.refused(status, message)
            self.transport.write(page.rendered(b"", head_only=False, close=True))
            self._part()
