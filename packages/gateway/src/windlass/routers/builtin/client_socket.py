"""The connection of one client: its phase, flow control in both directions, and time limits.

`client_requests` reads requests from the connection, and `client` passes them on to an instance. There is no
timer per connection: the connection table regularly calls `age`, which checks the time limits.
"""

from __future__ import annotations

import asyncio
import os
from enum import Enum
from typing import Any, ClassVar, Final

from windlass.base.http_in.bounds import READ_AHEAD_BYTES
from windlass.base.http_in.connections import Admission, network_of
from windlass.base.http_in.wire import HeadBuffer
from windlass.routers.builtin import pages
from windlass.routers.builtin.organization_shares import BusyConnection
from windlass.routers.builtin.peers import AnswerSource
from windlass.routers.builtin.proxied_connection import ProxiedConnection
from windlass.routers.builtin.shared_state import ClientWait, GiveAway, SharedState
from windlass.routers.rules import DEFAULT_TIMES


class RequestPhase(Enum):
    IDLE = "no request is under way"
    BUSY = "a request is at an instance, or on its way there"
    PARTING = "nothing more is answered, and the connection is about to close"
    LOST = "the connection is closed"


IDLE: Final = RequestPhase.IDLE
BUSY: Final = RequestPhase.BUSY
PARTING: Final = RequestPhase.PARTING
LOST: Final = RequestPhase.LOST


class GatewaySocket(asyncio.Protocol, BusyConnection):
    scheme: ClassVar[bytes] = b"http"
    is_secure: ClassVar[bool] = False

    __slots__ = (
        "_address",
        "_blocked",
        "_eof",
        "_has_unsent",
        "_held",
        "_opened",
        "_paused",
        "_phase",
        "_port",
        "_served",
        "_shared",
        "_since",
        "_upstream",
        "_waits_for_turn",
        "_yields",
        "network",
        "times",
        "transport",
        "whole",
    )

    def __init__(self, shared_state: SharedState, port: int) -> None:
        """`port`: the port that the client connected to."""
        self._shared = shared_state
        self._port = port
        self._address = b""
        """The client's address; empty until it is known."""
        self._phase = IDLE
        self._held = HeadBuffer(shared_state.bounds.head_bytes, shared_state.bounds.target_bytes)
        """Received bytes of requests that wait for the request in progress."""
        self._eof = False
        """Whether the client has closed its sending direction. It may have disconnected, or be waiting for
        its answer."""
        self._blocked = False
        """Whether the write buffer is full, because the client does not read."""
        self._has_unsent = False
        """Whether a part of the last answer was unsent when the limits of a closing connection were last
        checked."""
        self._paused = False
        """Whether reading from the client is paused."""
        self._waits_for_turn = False
        """Whether received body bytes wait for a later turn of the event loop."""
        self._yields = False
        """Whether the next piece of the answer waits for a later turn of the event loop."""
        self._served = False
        """Whether the client has received an answer. Its idle limit is then longer than before its first
        request."""
        self._since = self._opened = shared_state.loop.time()
        """The time since which the gateway has been waiting for the client."""
        self.times = DEFAULT_TIMES
        """The time limits of the route of the last request."""
        self.whole = True
        """Whether the request in progress was received completely."""
        self._upstream: AnswerSource | None = None
        """The source of the answer in progress: a connection to an instance, or a file of a static site."""

    # Left to the requests

    def _advance(self) -> None:
        """Handles the waiting requests in order."""
        raise NotImplementedError

    def _end_request(self, then: RequestPhase = IDLE) -> None:
        """Ends the request in progress, and releases its instance."""
        raise NotImplementedError

    def _refuse(self, status: int, message: str) -> None:
        """Answers an invalid request with an error, and closes the connection: bytes after an invalid request
        cannot be interpreted safely."""
        raise NotImplementedError

    def _give_up_instance(self) -> None:
        """Ends a request of which its instance takes nothing."""
        raise NotImplementedError

    # The connection

    def connection_made(self, transport: Any) -> None:
        shared = self._shared
        if self._address:  # told by a proxy, by the HTTPS port, or in a handover
            self._begin_as(transport, self._address.decode())
            return
        peer = transport.get_extra_info("peername")
        host = str(peer[0]) if peer else "unknown"
        if self._port != shared.http_port or not shared.sends_header(host):
            self._begin_as(transport, host)
            return

        def begin(told: str) -> GatewaySocket:
            transport.set_protocol(self)
            self._begin_as(transport, told or host)
            return self

        ProxiedConnection(shared, transport, host, begin)

    def _begin_as(self, transport: Any, host: str) -> None:
        """Begins to serve the client with this address."""
        self.transport = transport
        self._address = host.encode()
        self.network = network_of(host)
        shared = self._shared
        admission = Admission.NONE if shared.stopping else shared.connections.admit(self)
        if admission is Admission.NONE:
            transport.abort()
        elif admission is Admission.FULL:
            transport.write(
                pages.too_many_connections().rendered(b"", head_only=False, closes_connection=True)
            )
            self._hang_up()

    def connection_lost(self, exc: Exception | None) -> None:
        was_busy = self._phase is BUSY
        self._phase = LOST
        self._shared.connections.remove(self)
        if was_busy:
            if self._upstream is not None:
                self._upstream.abandon()
            self._end_request(LOST)

    def eof_received(self) -> bool:
        self._eof = True
        if self._phase is not BUSY or not self.whole:
            return False
        self._since = self._shared.now
        return True

    def abort(self) -> None:
        self.transport.abort()

    def _hang_up(self) -> None:
        """Closes the connection after the last answer. Keeps reading for a moment if the client may still
        send: closing a socket with unread bytes resets the connection, and the client would lose the
        answer."""
        if self._phase is LOST or self._phase is PARTING or self.transport.is_closing():
            return
        self._part()
        if self._eof:
            self.transport.close()
            return
        self.transport.write_eof()
        self._resume_reading()

    def _part(self) -> None:
        """Answers nothing more."""
        self._phase = PARTING
        self._since = self._shared.now
        self._held.take()

    # Flow

    def pause_writing(self) -> None:
        self._blocked = True
        self._since = self._shared.now
        self._note_buffers()
        if self._upstream is not None:
            self._upstream.pause()

    def resume_writing(self) -> None:
        self._blocked = False
        self._note_buffers()
        if self._upstream is not None:
            if not self._yields:
                self._upstream.resume()
        elif self._phase is not BUSY:
            self._advance()

    def _note_buffers(self) -> None:
        """Records the bytes in the full buffers of this connection and of the one to its instance."""
        size = self._unsent_bytes()
        if self._paused:
            size += len(self._held.held)
        if self._upstream is not None and (self._paused or self._upstream.blocked):
            size += self._upstream.buffered()
        if size:
            self._shared.connections.unsent(self, size)
        else:
            self._shared.connections.sent(self)

    def note_instance(self) -> None:
        """Called when the instance takes no more of the request for now, or takes it again."""
        self.choose_reading()
        self._note_buffers()

    def _unsent_bytes(self) -> int:
        """Returns the number of bytes of an answer that the client does not take."""
        return self.transport.get_write_buffer_size() if self._blocked else 0

    def yield_turn(self) -> None:
        """Takes no more of the answer until other clients had a turn."""
        if self._upstream is not None:
            self._upstream.pause()
            if not self._yields:
                self._yields = True
                self._shared.connections.turns.wait(self._end_yield)

    def _end_yield(self) -> None:
        self._yields = False
        if self._upstream is not None and not self._blocked:
            self._upstream.resume()

    def choose_reading(self) -> None:
        """Pauses reading while further bytes cannot be processed, and resumes it afterwards."""
        upstream = self._upstream
        if self._phase is BUSY and not self.whole:
            pause = self._waits_for_turn or (self._is_far_ahead() if upstream is None else upstream.blocked)
        else:
            pause = len(self._held.held) > READ_AHEAD_BYTES
        if pause is self._paused:
            return
        if not pause:
            self._resume_reading()
        elif self._is_readable():
            self._paused = True
            self.transport.pause_reading()
            self._note_buffers()

    def _is_far_ahead(self) -> bool:
        """Returns whether reading pauses while no instance takes the request in progress."""
        return True

    def _resume_reading(self) -> None:
        if self._paused and self._is_readable():
            self._paused = False
            self.transport.resume_reading()
            self._note_buffers()

    def _is_readable(self) -> bool:
        return not (self._phase is LOST or self._eof or self.transport.is_closing())

    # Handing over

    def continue_after(self, client_wait: ClientWait, address: str) -> None:
        """Continues the connection of a client with this address, and the idle time that another process has
        measured before the handover."""
        self._address = address.encode()
        self._served = client_wait.served
        self._since -= client_wait.seconds

    def _waits_for_nothing(self) -> bool:
        """Returns whether the connection is idle between two requests, with all bytes of the last answer
        sent."""
        return (
            self._phase is IDLE
            and not (self._eof or self._blocked or self._held.held or self.transport.is_closing())
            and not self.transport.get_write_buffer_size()
        )

    def _hand_over(self) -> bool:
        """Hands over the connection if it is idle and a successor process is ready. Returns whether it was
        handed over."""
        give = self._shared.give
        if give is None or not self._waits_for_nothing():
            return False
        self._give_away(give)
        return True

    def _give_away(self, give_away: GiveAway) -> None:
        """Passes the connection to another process. Aborting the transport only closes this process's
        descriptor."""
        self.transport.pause_reading()
        give_away(self._port, os.dup(self.transport.get_extra_info("socket").fileno()), self._client_wait())
        self.transport.abort()

    def _client_wait(self) -> ClientWait:
        return ClientWait(
            self._served, self._shared.loop.time() - self._since, address=self._address.decode()
        )

    # Time

    def waits_since(self) -> float | None:
        """Returns the time since which the gateway has been waiting for the client; None while an instance
        works."""
        if (
            self._phase is BUSY
            and not self._blocked
            and (self.whole or self._paused or self._upstream is None)
        ):
            return None
        return self._since

    def age(self, now: float) -> None:
        if self._hand_over():
            return
        bounds, age, busy = self._shared.bounds, now - self._since, self._phase is BUSY
        if self._phase is PARTING:
            self._age_parting(age)
        elif busy and self._eof:
            if age > bounds.leaving_seconds:
                self.transport.abort()
        elif self._blocked:
            if age > (self.times.take_answer or bounds.stall_seconds):
                self.transport.abort()
        elif busy:
            if not self.whole:
                self._age_body(age)
        elif self._held.held:
            if age > bounds.head_seconds:
                self._time_out("The head of the request did not arrive in time.")
        elif age > ((self.times.idle or bounds.idle_seconds) if self._served else bounds.head_seconds):
            self.transport.close()

    def _age_parting(self, age: float) -> None:
        """Ends a connection whose client does not take the rest of the last answer, or does not close after
        it."""
        bounds, had_unsent = self._shared.bounds, self._has_unsent
        self._has_unsent = self.transport.get_write_buffer_size() > 0
        if self._has_unsent:
            limit = self.times.take_answer or bounds.stall_seconds
        elif had_unsent:  # the client has just got it
            self._since = self._shared.now
            return
        else:
            limit = bounds.parting_seconds
        if age > limit:
            self.transport.abort()

    def _age_body(self, age: float) -> None:
        """Ends a request whose body does not arrive, or is not taken by its instance."""
        if not self._paused:
            if age > self._shared.bounds.stall_seconds:
                self._time_out("The rest of the request did not arrive in time.")
        elif 0 < self.times.take_request < age and self._upstream is not None and self._upstream.blocked:
            self._give_up_instance()

    def _time_out(self, message: str) -> None:
        if self._upstream is not None and self._upstream.begun:
            self.transport.abort()
        else:
            self._refuse(408, message)
