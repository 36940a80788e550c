"""Byte pipes between a client and an instance, with back-pressure and half-closes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from windlass.base.http_in.connections import Admission, OpenConnection, network_of
from windlass.routers.builtin.access_log import RequestEntry, count_bytes
from windlass.routers.builtin.held_requests import HeldRequest
from windlass.routers.builtin.organization_shares import BusyConnection
from windlass.routers.builtin.peers import Peer
from windlass.routers.builtin.shared_state import SharedState
from windlass.routers.builtin.table import Backend


class PipeEnd(asyncio.Protocol):
    """One end of a pipe. `other` is set as soon as both ends are connected."""

    __slots__ = ("_ahead", "_pipe", "blocked", "eof", "lost", "other", "paused", "transport")

    def __init__(self, transport: Any = None, *, paused: bool = False, blocked: bool = False) -> None:
        self.transport = transport
        self.other: PipeEnd | None = None
        self.paused = paused
        """Whether reading from this end is paused."""
        self.blocked = blocked
        """Whether the write buffer of this end is full."""
        self.eof = False
        self.lost = False
        self._ahead = b""
        """Bytes received before the other end was connected."""
        self._pipe: Pipe | None = None

    def join(self, pipe: Pipe, other: PipeEnd) -> None:
        self._pipe = pipe
        self.other = other

    def begin(self) -> None:
        """Starts to pass bytes on, after `join` was called for both ends."""
        ahead, self._ahead = self._ahead, b""
        if ahead:
            self.data_received(ahead)
        if self.eof:
            self._pass_eof()
        self.flow()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        other = self.other
        if other is None:
            # Not already in connection_made, because uvloop starts reading after that in any case.
            self._ahead += data
            self.note_ahead(len(data))
            if not (self.paused or self.transport.is_closing()):
                self.paused = True
                self.transport.pause_reading()
        elif not other.lost:
            other.transport.write(data)

    def note_ahead(self, size: int) -> None:
        """Called after so many bytes were received before the other end was connected."""

    def pause_writing(self) -> None:
        self.blocked = True
        if self.other is not None:
            self.other.flow()
        if self._pipe is not None:
            self._pipe.note_buffers()

    def resume_writing(self) -> None:
        self.blocked = False
        if self.other is not None:
            self.other.flow()
        if self._pipe is not None:
            self._pipe.note_buffers()

    def flow(self) -> None:
        """Pauses reading from this end while the other end's write buffer is full."""
        if self.lost or self.eof or self.transport.is_closing() or self.other is None:
            return
        if self.paused is not self.other.blocked:
            self.paused = self.other.blocked
            if self.paused:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    def eof_received(self) -> bool:
        self.eof = True
        stays_open = self.other is None or self._pass_eof()
        return stays_open and bool(self.transport.can_write_eof())  # TLS closes both directions

    def _pass_eof(self) -> bool:
        """Passes an EOF to the other end. Returns whether this end stays open, because the other end may
        still send."""
        other = self.other
        assert other is not None
        if not other.lost and not other.transport.is_closing():
            if other.transport.can_write_eof():
                other.transport.write_eof()
            else:  # TLS: it sends what is left, and closes both directions
                other.transport.close()
        if other.eof:  # neither end sends any more
            other.transport.close()
            return False
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if self.other is not None and not self.other.lost:
            if exc is None:
                self.other.transport.close()
            else:
                self.other.transport.abort()
        if self._pipe is not None:
            self._pipe.end_lost()


class Pipe(BusyConnection):
    """A connected pair of ends: a client and an instance."""

    def __init__(
        self,
        shared_state: SharedState,
        peer: Peer,
        client: PipeEnd,
        instance: PipeEnd,
        on_end: Callable[[], None],
        http_connection: OpenConnection,
        organization: str = "",
    ) -> None:
        """`peer.active` already includes this pipe. `on_end` is called when both ends are closed.
        `http_connection`: the entry of the client's connection in the connection table, which the pipe
        replaces.
        `organization`: that of the instance."""
        self._shared = shared_state
        self._organization = organization
        self.network = http_connection.network
        self._peer = peer
        self._ends = (client, instance)
        self._left = 2 - client.lost - instance.lost
        self._ended = on_end
        shared_state.connections.replace(http_connection, self)
        peer.cuts.add(self.abort)
        for end in self._ends:
            enable_keepalive(end.transport)
        client.join(self, instance)
        instance.join(self, client)
        client.begin()
        instance.begin()
        if instance.lost:
            client.transport.abort()
        self.note_buffers()

    def note_buffers(self) -> None:
        """Records the bytes that the client and the instance have not taken."""
        full = [end for end in self._ends if end.blocked and not end.lost]
        if full:
            size = sum(end.transport.get_write_buffer_size() for end in full)
            self._shared.connections.unsent(self, size)
        else:
            self._shared.connections.sent(self)

    def end_lost(self) -> None:
        self._left -= 1
        if not self._left:
            self._shared.connections.remove(self)
            self._peer.cuts.discard(self.abort)
            self._peer.ended()
            self._ended()

    def waits_since(self) -> float | None:
        return None

    def busy_for(self) -> str:
        return self._organization

    def age(self, now: float) -> None:
        """Does nothing: a pipe has no idle limit. TCP keep-alive detects disconnected peers."""

    def abort(self) -> None:
        for end in self._ends:
            if not end.lost:
                end.transport.abort()


class Caller(PipeEnd, BusyConnection):
    """A client's connection to a TCP port, until an instance accepts the connection."""

    __slots__ = (
        "_active",
        "_backend",
        "_counted",
        "_dial",
        "_entry",
        "_find",
        "_held",
        "_peer",
        "_port",
        "_shared",
        "_tried",
        "network",
    )

    def __init__(
        self, shared_state: SharedState, find_backend: Callable[[], Backend | None], port: int
    ) -> None:
        """`port`: the port that the client connected to."""
        super().__init__()
        self.network = ""
        self._active = False
        self._shared = shared_state
        self._find = find_backend
        self._backend = find_backend()
        self._held: HeldRequest | None = None
        self._counted = 0
        """Number of received bytes that are counted while no instance has accepted the connection."""
        self._port = port
        self._entry: RequestEntry | None = None
        self._tried: list[Peer] = []
        self._dial: asyncio.Task[None] | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else "unknown"
        self.network = network_of(address)
        shared = self._shared
        if (
            self._backend is None
            or shared.stopping
            or shared.connections.admit(self) is not Admission.FREE
            or not shared.shares.admit(self._backend.organization, self.network)
        ):
            shared.connections.remove(self)
            transport.abort()
            return
        if shared.access_log is not None:
            transport = count_bytes(transport)
            route = self._backend.route
            self._entry = RequestEntry(shared.access_log, transport, address, self._port, route)
        super().connection_made(transport)
        self._active = True
        self._backend.traffic.requests += 1
        self._backend.traffic.used = shared.now
        self._try_next_peer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._shared.connections.remove(self)
        if self._pipe is None and self._active:
            self._active = False
            self._give_back()
            self._note_end()
            if self._held is not None:
                self._shared.held.drop(self._held)
            if self._dial is not None:
                self._shared.leave_dial(self._peer, self._dial)
        super().connection_lost(exc)

    def waits_since(self) -> float | None:
        return None

    def busy_for(self) -> str:
        return self._backend.organization if self._backend is not None and self._active else ""

    def age(self, now: float) -> None:
        """Does nothing: connecting has its own time limit."""

    def abort(self) -> None:
        self.transport.abort()

    def _try_next_peer(self) -> None:
        assert self._backend is not None
        peer = self._backend.pick(self._tried)
        if peer is None:
            if not self._backend.sleeps or not self._hold(self._backend):
                self.transport.close()
            return
        peer.active += 1
        self._peer = peer
        self._dial = self._shared.dial(peer, PipeEnd, self._take_connection, self._try_another)

    def _hold(self, backend: Backend) -> bool:
        """Waits for a sleeping service. Returns False if nothing can wake it now."""

        def resume() -> None:
            found = self._find()
            if self.transport.is_closing():
                return
            if found is None or found.traffic is not backend.traffic:
                self.transport.close()
                return
            self._backend = found
            self._try_next_peer()

        network = "" if self._shared.connections.trusts(self.network) else self.network
        self._held = HeldRequest(
            backend.route.service, backend.organization, network, resume, self.transport.close
        )
        return self._shared.held.hold(self._held, self._shared.bounds.wake_seconds)

    def _try_another(self, peer: Peer) -> None:
        peer.ended()
        self._tried.append(peer)
        if not self.lost:
            self._try_next_peer()

    def _take_connection(self, instance: PipeEnd) -> None:
        if self.lost or self.transport.is_closing():
            instance.transport.abort()
            self._peer.ended()
            return
        assert self._backend is not None
        self._give_back()
        Pipe(self._shared, self._peer, self, instance, self._note_end, self, self._backend.organization)

    def note_ahead(self, size: int) -> None:
        if not self._active or self._backend is None:
            return
        if self._shared.waiting_requests.take(self._backend.organization, size):
            self._counted += size
        else:
            self._shared.connections.refuse("closed, much data that waits")
            self.transport.abort()

    def _give_back(self) -> None:
        if self._counted and self._backend is not None:
            self._shared.waiting_requests.give_back(self._backend.organization, self._counted)
            self._counted = 0

    def _note_end(self) -> None:
        assert self._backend is not None
        self._backend.traffic.closed += 1
        self._backend.traffic.used = self._shared.now
        if self._entry is not None:
            self._entry.end(0)


def enable_keepalive(transport: Any) -> None:
    """Enables TCP keep-alive, so that the kernel detects within hours that a peer has disappeared without
    closing. A pipe has no other time limit."""
    raw_socket = transport.get_extra_info("socket")
    if raw_socket is not None:
        raw_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
