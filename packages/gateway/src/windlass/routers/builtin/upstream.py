"""A connection to an instance. Carries one request at a time, and is reused for the next request."""

from __future__ import annotations

import asyncio
import re
import socket
from contextlib import suppress
from typing import Any, Final

from windlass.base.http_in.bounds import CHUNKS_AT_ONCE, READ_AHEAD_BYTES
from windlass.base.http_in.chunks import Chunks
from windlass.base.http_in.wire import Bad, HeadBuffer
from windlass.routers.builtin.answers import CHUNKED_LENGTH, UNTIL_CLOSE, AnswerHead, with_lines
from windlass.routers.builtin.client_sites import SiteClient
from windlass.routers.builtin.peers import Peer
from windlass.routers.builtin.retries import Attempts
from windlass.routers.builtin.shared_state import SharedState

_TCP_QUICKACK: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)
"""TCP_QUICKACK, an option of Linux. The kernel resets it after a while, so it is set again for each answer in
several pieces."""
_BEFORE_HEAD: Final = -10
"""Value of `_left` before the first byte of an answer."""
_IN_HEAD: Final = -11
"""Value of `_left` until the head is complete. Afterwards, `_left` is the number of missing body bytes,
`CHUNKED_LENGTH`, or `UNTIL_CLOSE`."""
_MAX_INTERIM_ANSWERS: Final = 100
"""Maximum number of interim answers (1xx) to one request."""
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_EXPECTS: Final = re.compile(rb"\r\nexpect:[\t ]*+100-continue[\t ]*+\r\n", re.IGNORECASE)
_HUNG_UP: Final = "It hung up before it had answered."


def acknowledge_quickly(transport: Any) -> None:
    """Makes the kernel acknowledge received bytes at once. Many applications write the head and body of an
    answer separately; the Nagle algorithm of their kernel then delays the body until the head is
    acknowledged, and a delayed acknowledgement would cost 40 ms."""
    raw_socket = transport.get_extra_info("socket")
    if raw_socket is not None and _TCP_QUICKACK is not None:
        with suppress(OSError):  # the instance has disconnected; connection_lost follows
            raw_socket.setsockopt(socket.IPPROTO_TCP, _TCP_QUICKACK, 1)


class InstanceClient(SiteClient):
    """A client connection whose requests can be carried by a connection to an instance."""

    __slots__ = ("attempts", "head_only")

    def __init__(self, shared_state: SharedState, port: int) -> None:
        super().__init__(shared_state, port)
        self.head_only = False
        self.attempts: Attempts | None = None
        """The attempts of the request in progress, if it may have further ones or had some."""

    @property
    def old(self) -> bool:
        """Whether the request in progress is HTTP/1.0."""
        return self._fields.old

    @property
    def upgrade(self) -> bytes:
        """The protocol to which the request in progress asks to upgrade; empty if none."""
        return self._fields.upgrade

    @property
    def expects_continue(self) -> bool:
        """Whether the client sends the body of the request in progress only after status 100."""
        fields = self._fields
        has_body = bool(fields.length) and not (fields.old or self.head_only)
        return has_body and _EXPECTS.search(fields.raw) is not None

    # Left to `client`

    def failed(self, peer: Peer, reason: str, *, unsent: bool = False) -> None:
        """Called when the connection ended before the first byte of the answer."""
        raise NotImplementedError

    def broken(self, reason: str) -> None:
        """Called when the instance's answer is invalid, before the client has received any part of an
        answer."""
        raise NotImplementedError

    def repeats(self, status: int) -> bool:
        """Called with the status of an answer. Returns whether the answer is dropped, because the request is
        sent once more."""
        raise NotImplementedError

    def switch(self, upstream: Upstream, head: bytes, remaining_data: bytes) -> None:
        """Called when the protocol switches. From then on, bytes are passed on without interpretation."""
        raise NotImplementedError


class Upstream(asyncio.Protocol):
    __slots__ = (
        "_answer",
        "_chunks",
        "_has_continued",
        "_held",
        "_interim",
        "_is_held_back",
        "_keep",
        "_left",
        "_shared",
        "_waits_for_turn",
        "blocked",
        "client",
        "lost",
        "paused",
        "peer",
        "since",
        "transport",
    )

    def __init__(self, shared_state: SharedState, peer: Peer) -> None:
        self._shared = shared_state
        self.peer = peer
        self.client: InstanceClient | None = None
        """The client whose request is in progress."""
        self.lost = self.paused = self.blocked = False
        self.since = shared_state.now
        self._held = HeadBuffer(READ_AHEAD_BYTES, READ_AHEAD_BYTES)
        self._answer: AnswerHead | None = None
        """The last parsed head. It is reused if the next answer begins with the same bytes."""
        self._left = _BEFORE_HEAD
        self._interim = 0
        """Number of interim answers (1xx) to the request in progress."""
        self._has_continued = False
        """Whether one with status 100 was passed on."""
        self._keep = False
        self._chunks = Chunks(shared_state.bounds)
        self._is_held_back = False
        """Whether the client's write buffer is full."""
        self._waits_for_turn = False
        """Whether received bytes of the answer wait for a later turn of the event loop."""

    @property
    def begun(self) -> bool:
        """Whether a byte of the answer was received."""
        return self._left != _BEFORE_HEAD

    # The connection

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def carry(self, client: InstanceClient, request: bytes) -> None:
        self.client = client
        self._interim, self._has_continued = 0, False
        self.transport.write(request)

    def fail_soon(self, client: InstanceClient) -> None:
        """Fails a request in the next turn of the event loop, because the connection closed immediately."""
        self.client = client
        self._shared.loop.call_soon(self._fail_at_once, client)

    def _fail_at_once(self, client: InstanceClient) -> None:
        if self.client is client:
            self.client = None
            client.failed(self.peer, _HUNG_UP, unsent=True)

    def write(self, data: bytes) -> None:
        if not self.lost and not self.transport.is_closing():
            self.transport.write(data)

    def pause_writing(self) -> None:
        self.blocked = True
        if self.client is not None:
            self.client.note_instance()

    def resume_writing(self) -> None:
        self.blocked = False
        if self.client is not None:
            self.client.note_instance()

    def buffered(self) -> int:
        return 0 if self.lost else int(self.transport.get_write_buffer_size())

    def pause(self) -> None:
        self._is_held_back = True
        self._choose_reading()

    def resume(self) -> None:
        self._is_held_back = False
        self._choose_reading()

    def _choose_reading(self) -> None:
        pause = self._is_held_back or self._waits_for_turn
        if pause is self.paused or self.lost or self.transport.is_closing():
            return
        self.paused = pause
        if pause:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def abandon(self) -> None:
        """Aborts the connection, because its client has disconnected."""
        self.client = None
        if not self.lost:
            self.transport.abort()

    def hang_up(self) -> None:
        if not self.lost:
            self.transport.close()

    def rest(self) -> None:
        """Returns the connection to the idle pool, or closes it if it cannot be reused."""
        peer, shared = self.peer, self._shared
        if self.lost or self.blocked or not peer.routes or peer.draining or shared.stopping:
            self.hang_up()
            return
        self.resume()
        self.since = shared.now
        peer.idle.append(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        while self.client is not None and self._left == CHUNKED_LENGTH and self._chunks.is_behind:
            self._pass_on_chunks(self.client, b"")
        client, self.client = self.client, None
        if client is None:
            self._forget()
        elif not self.begun:
            client.failed(self.peer, _HUNG_UP)
        elif self._left == _IN_HEAD:
            client.broken("It hung up in the midst of its answer.")
        elif self._left == UNTIL_CLOSE and exc is None:
            client.answered()
        else:
            client.cut()

    def eof_received(self) -> bool:
        if self.client is None:
            self._forget()
        return False

    def _forget(self) -> None:
        if self in self.peer.idle:
            self.peer.idle.remove(self)

    # The answer

    def data_received(self, data: bytes) -> None:
        client = self.client
        if client is None:  # bytes without a request
            self._forget()
            self.transport.abort()
            return
        left, answer = self._left, self._answer
        if left == _BEFORE_HEAD and answer is not None and data.startswith(answer.raw):
            self._begin(client, answer, data)
        elif left <= _BEFORE_HEAD:
            self._left = _IN_HEAD
            self._collect_head(client, data)
        elif left == CHUNKED_LENGTH:
            self._pass_on_chunks(client, data)
        elif left == UNTIL_CLOSE:
            client.transport.write(data)
        elif len(data) < left:
            self._left = left - len(data)
            client.transport.write(data)
        else:
            client.transport.write(data[:left] if len(data) > left else data)
            self._end(client, clean=len(data) == left)

    def _collect_head(self, client: InstanceClient, data: bytes) -> None:
        """Collects bytes until the head of the final answer is complete.

        Of interim answers (1xx) before it, only one with status 100 is passed on, to a client that waits for
        it. Some clients take another one for the final answer, such as nginx before 1.29. Such a proxy would
        then take the final answer, whose content the instance chooses, for that of the next request on this
        connection, which another service may have got.
        """
        self._held.add(data)
        try:
            while (head := self._held.head()) is not None:
                answer = AnswerHead(head)
                if answer.status >= 200:
                    self._answer = answer
                    self._begin(client, answer, head + self._held.take())
                    return
                if answer.status == 101:
                    self._switch_protocol(client, answer, self._held.take())
                    return
                self._interim += 1
                if self._interim > _MAX_INTERIM_ANSWERS:
                    raise Bad(502, "It sent too many interim answers.")
                if answer.status == 100 and not self._has_continued and client.expects_continue:
                    self._has_continued = True
                    client.transport.write(_CONTINUE)
        except Bad as bad:
            self._break_answer(client, bad.message)

    def _begin(self, client: InstanceClient, answer: AnswerHead, data: bytes) -> None:
        """Starts to pass on an answer. `data` begins with its head."""
        if client.attempts is not None and client.repeats(answer.status):
            self._leave_client(answer, data)
            return
        end = len(answer.raw)
        client.status = answer.status
        length = 0 if client.head_only else answer.length
        self._keep = answer.keep
        if answer.as_it_is and not client.close and not client.added and len(data) - end == length:
            client.transport.write(data)  # the whole answer in one piece, the most frequent case
            self._end(client, clean=True)
            return
        if length == UNTIL_CLOSE:
            client.close = True
        head = answer.head(closes_connection=client.close, plain=client.old)
        if client.added:
            head = with_lines(head, client.added)
        self._left = length
        acknowledge_quickly(self.transport)
        if length == CHUNKED_LENGTH:
            self._chunks = Chunks(self._shared.bounds, plain=client.old, at_once=CHUNKS_AT_ONCE)
            self._pass_on_chunks(client, data[end:], head)
        elif length == UNTIL_CLOSE:
            client.transport.write(head + data[end:])
        elif len(data) - end < length:
            self._left = length - (len(data) - end)
            client.transport.write(head + data[end:])
        else:
            client.transport.write(head + data[end : end + length])
            self._end(client, clean=len(data) - end == length)

    def _leave_client(self, answer: AnswerHead, data: bytes) -> None:
        self.client = None
        self._left = _BEFORE_HEAD
        if answer.keep and len(data) - len(answer.raw) == answer.length:
            self.rest()
        else:
            self.transport.abort()

    def _pass_on_chunks(self, client: InstanceClient, data: bytes, head: bytes = b"") -> None:
        try:
            data, after = self._chunks.feed(data)
        except Bad:
            if head:
                client.transport.write(head)
            self._cut_off(client)
            return
        if head or data:
            client.transport.write(head + data)
        if after is not None:
            self._end(client, clean=not after)
        elif self._chunks.is_behind and not self._waits_for_turn:
            self._waits_for_turn = True
            self._shared.connections.turns.wait(self._continue_reading)
            self._choose_reading()

    def _continue_reading(self) -> None:
        """Passes on further bytes of the answer that were already received."""
        self._waits_for_turn = False
        if self.client is not None and self._left == CHUNKED_LENGTH and self._chunks.is_behind:
            self._pass_on_chunks(self.client, b"")
        self._choose_reading()

    def _end(self, client: InstanceClient, *, clean: bool) -> None:
        """Ends an answer. If unexpected bytes follow it (not `clean`), closes the connection: they cannot
        belong to a later request."""
        self._left = _BEFORE_HEAD
        self.client = None
        if not client.whole:
            self.transport.abort()
        elif clean and self._keep:
            self.rest()
        else:
            self.hang_up()
        client.answered()

    def _switch_protocol(self, client: InstanceClient, answer: AnswerHead, remaining_data: bytes) -> None:
        if not client.upgrade or not answer.upgrade:
            self._break_answer(client, "It switched to another protocol without having been asked.")
            return
        self.client = None
        client.switch(self, answer.switching(), remaining_data)

    def _break_answer(self, client: InstanceClient, reason: str) -> None:
        self.client = None
        self.transport.abort()
        client.broken(reason)

    def _cut_off(self, client: InstanceClient) -> None:
        self.client = None
        self.transport.abort()
        client.cut()
