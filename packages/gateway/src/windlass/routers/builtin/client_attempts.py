"""Sends a request to an instance, and once more to the same or another one where this is safe.

A request that no instance has accepted may go to any other. One whose connection closes before the answer is
repeated once if its method permits it. The rules of a route may name further failures: see `retries`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from windlass.routers.builtin import pages
from windlass.routers.builtin.client_socket import BUSY
from windlass.routers.builtin.held_requests import HeldRequest
from windlass.routers.builtin.http2_instance import Http2Instance
from windlass.routers.builtin.memory_shares import MAX_SMALL_REQUEST_BYTES, MemoryShares
from windlass.routers.builtin.peers import InstanceConnection, Peer
from windlass.routers.builtin.requests import IDEMPOTENT_METHODS
from windlass.routers.builtin.retries import MAX_KEPT_BODY_BYTES, AttemptFailure, Attempts
from windlass.routers.builtin.route_rules import RouterPage
from windlass.routers.builtin.shared_state import SharedState
from windlass.routers.builtin.site_preferences import preferences_of
from windlass.routers.builtin.table import Backend, Paths
from windlass.routers.builtin.upstream import InstanceClient, Upstream

_IDEMPOTENT_BEGINNINGS: Final = tuple(method + b" " for method in sorted(IDEMPOTENT_METHODS))
_NO_ATTEMPTS: Final = Attempts()
_PART_OF_LIMIT: Final = 0.9
"""The part of the time limit for an answer for which a request is held at most."""
_READING_METHODS: Final = frozenset({b"GET", b"HEAD"})


class SendingClient(InstanceClient):
    __slots__ = ("_backend", "_counted", "_dial", "_dials", "_find", "_hold", "_peer")

    def __init__(
        self, shared_state: SharedState, find_paths: Callable[[bytes], Paths | None], port: int
    ) -> None:
        super().__init__(shared_state, port)
        self._find = find_paths
        # The request in progress
        self._backend: Backend | None = None
        self._peer: Peer | None = None
        self._dial: asyncio.Task[None] | None = None
        """The task that opens the last one."""
        self._dials = 0
        """Number of connections to instances that were opened for this client. Only the last one may be for
        the present attempt."""
        self._hold: HeldRequest | None = None
        """Set while the request waits for a sleeping service."""
        self._counted: tuple[MemoryShares, int] | None = None
        """Where the bytes of `_sent` are counted, and how many, if they are."""

    # Left to `client`

    def _fail(self, page: RouterPage) -> None:
        """Answers the request in progress with an error page of the router."""
        raise NotImplementedError

    # Sending

    def _send(self, peer: Peer | None, *, fresh: bool = False) -> None:
        if peer is None:
            backend = self._backend
            assert backend is not None
            self._fail(backend.error_page())
            return
        self._peer = peer
        peer.active += 1
        idle = peer.idle
        while idle and not fresh:
            upstream = idle.pop()
            if not upstream.transport.is_closing():
                self._send_over(upstream)
                return
        if not self._may_wait():
            self._peer = None
            peer.ended()
            self._fail(pages.too_many_connections())
            return
        shared = self._shared
        self._dials = number = self._dials + 1

        def refused(peer: Peer) -> None:
            self._try_another(peer, number)

        made, seconds = self._take_connection, self.times.connect
        if peer.speaks_http2:
            self._dial = shared.dial(
                peer,
                lambda: Http2Instance(shared, Upstream(shared, peer)),
                lambda instance: made(instance.upstream),
                refused,
                seconds,
            )
        else:
            self._dial = shared.dial(peer, lambda: Upstream(shared, peer), made, refused, seconds)
        self.choose_reading()

    def _leave_instance(self, peer: Peer) -> None:
        """Called at the end of the request that was sent to an instance, or waits for a connection to it."""
        if self._upstream is not None:
            peer.ended()
        elif self._dial is not None:
            # If it is still opened, it stays in `peer.active` until it is open or has failed.
            self._shared.leave_dial(peer, self._dial)

    def _take_connection(self, upstream: Upstream) -> None:
        if upstream.peer is not self._peer or self._phase is not BUSY or self._upstream is not None:
            # The request that needed this connection has ended. A later request can use the connection.
            upstream.peer.ended()
            upstream.rest()
            return
        self._since = self._shared.now
        if upstream.transport.is_closing():
            self._upstream = upstream
            upstream.fail_soon(self)
        else:
            self._send_over(upstream)

    def _send_over(self, upstream: InstanceConnection) -> None:
        self._upstream = upstream
        if self._blocked:
            upstream.pause()
        if self.attempts is not None:
            self._limit_attempt(self.attempts)
        upstream.carry(self, self._sent)
        if len(self._sent) > MAX_SMALL_REQUEST_BYTES:
            self._choose_keeping()
        if not self.whole:
            if self._held.held or self._is_behind():  # arrived while the connection was being made
                self._read_body(self._held.take())
            self.choose_reading()

    def _pass_on(self, data: bytes) -> None:
        if self.attempts is not None and self._keeps(self.attempts, len(data)):
            self._sent += data
        else:
            self._drop_sent()
        assert self._upstream is not None
        self._upstream.write(data)

    # Memory

    def _may_wait(self) -> bool:
        """Returns whether there is room for the request until it is sent."""
        size = len(self._sent)
        if size <= MAX_SMALL_REQUEST_BYTES or self._counted is not None:
            return True
        if self._count(self._shared.waiting_requests, size):
            return True
        self._shared.connections.refuse("503, large requests that wait")
        return False

    def _choose_keeping(self) -> None:
        """Called when a large request is sent. Keeps it only if it may be repeated, and if there is room."""
        sent = self._sent
        self._drop_sent()
        if _is_idempotent(sent) and self._count(self._shared.kept_requests, len(sent)):
            self._sent = sent

    def _keeps(self, attempts: Attempts, size: int) -> bool:
        """Returns whether so many further bytes of a request are kept: if it is small and may be sent once
        more."""
        return (
            attempts.keeps_bodies
            and _is_idempotent(self._sent)
            and len(self._sent) + size <= MAX_KEPT_BODY_BYTES
            and self._count(self._shared.kept_requests, size)
        )

    def _count(self, shares: MemoryShares, size: int) -> bool:
        backend = self._backend
        assert backend is not None
        if not shares.take(backend.organization, size):
            return False
        before = self._counted[1] if self._counted is not None else 0
        self._counted = shares, before + size
        return True

    def _drop_sent(self) -> None:
        """Forgets what was sent of the request, which can no longer be repeated."""
        self._sent = b""
        if self._counted is not None:
            shares, size = self._counted
            self._counted = None
            assert self._backend is not None
            shares.give_back(self._backend.organization, size)

    # A sleeping service

    def _wait_for_wake(self, backend: Backend, method: bytes, target: bytes) -> None:
        """Holds the request until the service is awake. Answers it if that takes too long, or if nothing can
        wake the service now."""
        fields, held = self._fields.raw, self._shared.held
        may_reload = method in _READING_METHODS
        bounds = self._shared.bounds
        is_person = may_reload and preferences_of(fields).html
        seconds = bounds.wake_page_seconds if is_person else bounds.wake_seconds
        if limit := backend.route.rules.answer_seconds:
            seconds = min(seconds, _PART_OF_LIMIT * limit)

        def resume() -> None:
            self._hold = None
            self._backend = found = self._current_backend(target, backend)
            self._send(found.pick_for(fields))
            self._advance()

        def give_up() -> None:
            self._hold = None
            self._fail(pages.waking(backend.title, reloads=may_reload))
            self._advance()

        network = "" if self._shared.connections.trusts(self.network) else self.network
        self._hold = HeldRequest(backend.route.service, backend.organization, network, resume, give_up)
        if held.hold(self._hold, seconds) and self._may_wait():
            self.choose_reading()
        else:
            self._end_hold(self._hold)
            self._fail(pages.asleep(backend.title, reloads=may_reload))

    def _is_far_ahead(self) -> bool:
        # While a request is held, a little is read: otherwise, nobody would notice that the client has left.
        return self._hold is None or len(self._held.held) > MAX_SMALL_REQUEST_BYTES

    def _end_hold(self, held_request: HeldRequest) -> None:
        """Called at the end of a request that is still held."""
        self._hold = None
        self._shared.held.drop(held_request)

    # Further attempts

    def _try_another(self, peer: Peer, number: int) -> None:
        """Called when an instance refuses the connection with this number. Nothing was sent yet, so any
        request may go to another instance. A connection may also fail when its request has ended, and a later
        request is at the same instance: this one goes on."""
        peer.ended()
        is_awaited = number == self._dials and self._upstream is None
        if is_awaited and self._phase is BUSY and peer is self._peer and self._backend is not None:
            self._peer = None
            attempts = self.attempts = self.attempts or Attempts()
            attempts.tried.append(peer)
            other = self._backend.pick(attempts.tried)
            if other is not None or not self._repeat(AttemptFailure.CONNECT):
                self._send(other)
                self._advance()

    def failed(self, peer: Peer, reason: str, *, unsent: bool = False) -> None:
        """Called when the connection ended before the first byte of the answer. Retries the request once if a
        repetition is safe."""
        self._upstream = self._peer = None
        self._note_buffers()
        backend = self._backend
        assert backend is not None
        peer.ended()
        attempts = self.attempts = self.attempts or Attempts()
        attempts.wait(None)
        if (unsent or self._is_repeatable()) and self._sent and not attempts.repeated:
            attempts.repeated = True
            self._send(backend.pick([peer]) or peer, fresh=True)
        else:
            attempts.tried.append(peer)
            self.broken(reason)

    def broken(self, reason: str) -> None:
        """Called when the instance's answer is invalid, before the client has received any part of an
        answer."""
        backend = self._backend
        assert backend is not None
        if not self._repeat(AttemptFailure.RESET):
            self._fail(pages.bad_answer(backend.title, reason))
            self._advance()

    def repeats(self, status: int) -> bool:
        """Called with the status of an answer before any of it is passed on. Returns whether the request is
        sent once more instead."""
        attempts = self.attempts or _NO_ATTEMPTS
        attempts.wait(None)
        if self._is_repeatable() and attempts.take_status(status, self._shared.loop.time()):
            self._wait_for_attempt(attempts)
            return True
        return False

    def _repeat(self, failure: AttemptFailure) -> bool:
        """Returns whether the request is sent once more after a failure."""
        attempts = self.attempts or _NO_ATTEMPTS
        is_safe = bool(self._sent) if failure is AttemptFailure.CONNECT else self._is_repeatable()
        if is_safe and attempts.take(failure, self._shared.loop.time()):
            self._wait_for_attempt(attempts)
            return True
        return False

    def _is_repeatable(self) -> bool:
        return self.whole and _is_idempotent(self._sent)

    def _wait_for_attempt(self, attempts: Attempts) -> None:
        peer = self._peer
        if peer is not None:
            attempts.tried.append(peer)
            if self._upstream is not None:
                peer.ended()
        self._upstream = self._peer = None
        self._note_buffers()
        attempts.wait(self._shared.loop.call_later(attempts.pause(), self._send_again))

    def _send_again(self) -> None:
        attempts, backend = self.attempts, self._backend
        if attempts is None or backend is None:
            return
        self._backend = backend = self._current_backend(attempts.target, backend)
        self._send(backend.pick(attempts.avoided(backend.peers)), fresh=True)
        self._advance()

    def _current_backend(self, target: bytes, backend: Backend) -> Backend:
        """Returns the service of the request with its present instances, which may have been replaced."""
        paths = self._find(self._fields.host)
        found = paths and (paths.only or paths.match(target))
        return found if found and found.traffic is backend.traffic else backend

    def _limit_attempt(self, attempts: Attempts) -> None:
        seconds = attempts.try_seconds
        attempts.wait(self._shared.loop.call_later(seconds, self._end_attempt) if seconds else None)

    def _end_attempt(self) -> None:
        """Called when an instance has not begun its answer in the time of an attempt."""
        attempts, upstream, backend = self.attempts, self._upstream, self._backend
        if attempts is None or upstream is None or backend is None:
            return
        if left := self._time_left(attempts.try_seconds):
            attempts.wait(self._shared.loop.call_later(left, self._end_attempt))
            return
        upstream.abandon()
        if not self._repeat(AttemptFailure.RESET):
            self._fail(pages.too_late(backend.title, attempts.try_seconds))
            self._advance()

    def _time_left(self, limit: float) -> float:
        """Returns the seconds until a time limit for the beginning of an answer, which was set before the
        whole request had arrived; 0 if there is none left. The limit begins anew with each piece of the body
        that the instance takes."""
        if self._body is None or not self._fields.length:
            return 0.0  # the request came in one piece
        if not self.whole and not (self._upstream is not None and self._upstream.blocked):
            return limit  # the client is late, not the instance
        shared = self._shared  # `_since` is by a clock that may be late by one tick
        return max(0.0, self._since + shared.bounds.tick_seconds + limit - shared.loop.time())

    def _end_attempts(self, attempts: Attempts) -> None:
        """Called at the end of a request that has further attempts."""
        attempts.wait(None)
        self.attempts = None


def _is_idempotent(request: bytes) -> bool:
    return request.startswith(_IDEMPOTENT_BEGINNINGS)
