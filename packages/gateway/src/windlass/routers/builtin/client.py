"""An HTTP connection of a client. Routes each request to an instance, by host and path.

For speed, a request has neither an object nor a task: its state is a few attributes of the connection, which
has at most one request in progress. The head and the received part of the body go to the instance in one
write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

from windlass.base.http_in.body import RequestBody
from windlass.base.http_in.heads import CHUNKED_LENGTH
from windlass.routers.builtin import pages
from windlass.routers.builtin.access_log import LoggedHead, RequestEntry, count_bytes
from windlass.routers.builtin.challenge_answers import CHALLENGE_PREFIX, ChallengeAnswer
from windlass.routers.builtin.client_attempts import SendingClient
from windlass.routers.builtin.client_socket import BUSY, IDLE, LOST, PARTING, RequestPhase
from windlass.routers.builtin.compression import AnswerCompression, CompressedBody
from windlass.routers.builtin.memory_shares import MAX_SMALL_HEAD_BYTES
from windlass.routers.builtin.pages import ErrorPage
from windlass.routers.builtin.pipes import Pipe, PipeEnd
from windlass.routers.builtin.retries import Attempts
from windlass.routers.builtin.route_rules import CompiledRules, LimitedBody, RouterPage, RuledTransport
from windlass.routers.builtin.shared_state import SharedState
from windlass.routers.builtin.site_preferences import preferences_of
from windlass.routers.builtin.table import Paths
from windlass.routers.builtin.upstream import Upstream
from windlass.routers.router import Route


class ClientConnection(SendingClient):
    protocol: ClassVar[str] = "HTTP/1.1"
    is_last: bool = False
    """Whether the connection closes after the next answer, in any case."""
    __slots__ = ("_began", "_entry", "_large_head_bytes", "_weight")

    def __init__(
        self, shared_state: SharedState, find_paths: Callable[[bytes], Paths | None], port: int
    ) -> None:
        super().__init__(shared_state, find_paths, port)
        self._began, self._weight = 0.0, 0
        """The start time of the request, and the number of requests for which its duration is a sample. A
        weight of 0 means that the request is not timed."""
        self._large_head_bytes = 0
        """The size of the head of the request in progress, if it is large."""
        self._entry: RequestEntry | None = None
        """The access log entry of the request, if it is logged."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        while isinstance(self.transport, RuledTransport):
            self.transport.end()  # its timer would keep this object until the end of the time limit
        if isinstance(self.transport, CompressedBody):
            self.transport.release()

    # The request

    def _route(self, method: bytes, target: bytes, body: bytes) -> None:
        fields = self._fields
        self.close = fields.close or self.is_last
        self.head_only = method == b"HEAD"
        shared = self._shared
        if shared.certificates.http_answers and target.startswith(CHALLENGE_PREFIX):
            is_there = self._port == shared.http_port
            path = target.partition(b"?")[0]
            answer = shared.certificates.answer_http(fields.host, path) if is_there else None
            if answer is not None:
                self._say_unrouted(ChallengeAnswer(answer), method, target)
                return
        paths = self._find(fields.host)
        if paths is None:
            page = pages.unknown(fields.host.decode()) if self._shared.is_complete else pages.starting()
            self._say_unrouted(page, method, target)
            return
        backend = paths.only or paths.match(target)
        if backend is None:
            page = pages.no_path(fields.host.decode(), target.partition(b"?")[0].decode("latin-1"))
            self._say_unrouted(page, method, target)
            return
        is_admitted = shared.shares.admit(backend.organization, self.network)
        if is_admitted and len(fields.raw) > MAX_SMALL_HEAD_BYTES:
            is_admitted = shared.large_heads.take(backend.organization, len(fields.raw))
            self._large_head_bytes = len(fields.raw) if is_admitted else 0
        if not is_admitted:
            self._say_unrouted(pages.too_many_connections(), method, target)
            return
        request_id = fields.id or shared.request_id()
        self._backend = backend
        self.times = backend.times
        traffic = backend.traffic
        traffic.requests += 1
        self.status = 0
        if not traffic.requests & traffic.mask:
            self._weight = traffic.mask + 1
            self._began = traffic.begin()
            if shared.access_log is not None or backend.route.rules.log is not None:
                self._entry = self._begin_entry(backend.route, method, target, request_id)
        self._phase = BUSY
        self._served = True
        if self.is_secure:
            self.added = backend.added
        elif shared.https_port and backend.route.redirect and self._port == shared.http_port:
            location = shared.secure_location(fields.host, target, self.network)
            if location:
                self._fail(pages.https_only(backend.title, location))
                return
        passed = target
        if backend.is_special:
            if backend.moves_to and (location := self._location_at(backend.moves_to, target)):
                self._fail(pages.moved(backend.title, backend.moves_to, location))
                return
            if backend.rules is not None and not self._passes_rules(backend.rules, method, target, body):
                return
            passed = backend.rewritten(target)
            if backend.site:
                self._serve_file(backend, method, passed)
                return
            peer = backend.pick_for(fields.raw)
        else:
            peer = backend.pick()
        traffic.used = shared.now
        self._sent = b"%b %b HTTP/1.1%b%b%b\r\n\r\n%b" % (
            method,
            passed,
            fields.passed,
            request_id,
            backend.proof,
            body,
        )
        if peer is None and backend.sleeps:
            self._wait_for_wake(backend, method, target)
        else:
            self._send(peer)

    def _location_at(self, host: str, target: bytes) -> str:
        """Returns the address of a request at another host; empty if the request stays here."""
        port, network = self._fields.port, self.network
        return self._shared.location_at(host, port, target, network, is_secure=self.is_secure)

    def _passes_rules(self, rules: CompiledRules, method: bytes, target: bytes, body: bytes) -> bool:
        """Returns whether the rules of a route let a request pass. Answers it otherwise."""
        fields, shared = self._fields, self._shared
        page = rules.judge(
            method, fields.raw, self._address.decode(), shared.connections.trusts, fields.length
        )
        added = rules.added(fields.raw)
        if page is None and rules.body_bytes and self._body is not None and fields.length == CHUNKED_LENGTH:
            if len(body) > rules.body_bytes:
                page = rules.too_large()
            self._body = cast(RequestBody, LimitedBody(self._body, rules.body_bytes - len(body)))
        if added or (page is None and rules.awaits_answer):
            self._await_answer(rules, added, is_passed=page is None)
        if rules.closes(self._shared.now - self._opened):
            self.close = True
        if page is not None:
            self._fail(page)
        elif rules.retry is not None:
            rules.budget.note_request()
            self.attempts = Attempts(rules.retry, rules.budget, target)
        return page is None

    def _await_answer(
        self, rules: CompiledRules, added_headers: dict[bytes, bytes], *, is_passed: bool
    ) -> None:
        backend = self._backend
        sticky = backend.sticky if backend is not None and is_passed else None
        known = sticky.peer_of(self._fields.raw) if sticky is not None else None

        def give_back(transport: Any) -> None:
            self.transport = transport

        def end() -> None:
            if self.transport is awaiting and self._phase is BUSY:
                if left := self._time_left(seconds):
                    awaiting.wait(self._shared.loop.call_later(left, end))
                    return
                if self._upstream is not None:
                    self._upstream.abandon()
                self._fail(rules.too_late())
                self._advance()

        compression = None
        if rules.compresses and is_passed and not (self.head_only or self._fields.old):
            is_wanted = preferences_of(self._fields.raw).gzip
            shared = self._shared
            compression = AnswerCompression(
                shared.bounds, shared.compressors, give_back, self.yield_turn, is_wanted=is_wanted
            )

        def cookie() -> bytes:
            """Returns the header line that names the instance, unless the client knows it."""
            if sticky is None or self._peer is known:
                return b""
            return sticky.cookie_of(self._peer, is_secure=self.is_secure)

        seconds = rules.answer_seconds if is_passed else 0
        awaiting = self.transport = RuledTransport(
            self.transport, added_headers, give_back, cookie, compression
        )
        if seconds:
            awaiting.wait(self._shared.loop.call_later(seconds, end))

    def _continue(self, is_complete: bool) -> None:
        """Handles the next request, or closes the connection. `is_complete`: the last request was received
        completely."""
        if self.close or self._eof or not is_complete or self._shared.stopping:
            self.whole = True
            if is_complete and not self._held.held:
                self._phase = PARTING
                self._since = self._shared.now
                self.transport.close()
            else:
                self._hang_up()
        elif self._held.held:
            self._advance()
        elif self._shared.give is not None:
            self._shared.loop.call_soon(self._hand_over)

    def busy_for(self) -> str:
        backend = self._backend
        if backend is None or self._phase is not BUSY or self.waits_since() is not None:
            return ""
        return backend.organization

    def _release_large_head(self, organization: str) -> None:
        if self._large_head_bytes:
            self._shared.large_heads.give_back(organization, self._large_head_bytes)
            self._large_head_bytes = 0

    def _end_request(self, then: RequestPhase = IDLE) -> None:
        backend, peer = self._backend, self._peer
        if peer is not None:
            self._leave_instance(peer)
        if self._hold is not None:
            self._end_hold(self._hold)
        self._sent = b""
        if self._counted is not None:
            self._drop_sent()
        upstream = self._upstream
        self._upstream = self._peer = self._backend = None
        self._phase = then
        self._since = self._shared.now
        if upstream is not None and upstream.blocked:
            self._note_buffers()
        if self.attempts is not None:
            self._end_attempts(self.attempts)
        self._forget_large_head()
        if backend is not None:
            self._release_large_head(backend.organization)
            traffic = backend.traffic
            traffic.answers[self.status // 100] += 1
            if peer is not None:
                traffic.used = self._shared.now
            if self._weight:
                traffic.end(self._began, self._weight)
                self._weight = 0
                if self._entry is not None:
                    self._entry.end(self.status)
                    self._entry = None

    def switch(self, upstream: Upstream, head: bytes, remaining_data: bytes) -> None:
        """Called when the protocol switches. Replaces the request handling by a byte pipe between client and
        instance."""
        backend, peer = self._backend, self._peer
        assert backend is not None
        assert peer is not None
        self.transport.write(head + remaining_data)
        self._drop_sent()
        if self.attempts is not None:
            self._end_attempts(self.attempts)
        ours = PipeEnd(self.transport, paused=self._paused, blocked=self._blocked)
        theirs = PipeEnd(upstream.transport, paused=upstream.paused, blocked=upstream.blocked)
        ahead = self._held.take()
        self.transport.set_protocol(ours)
        upstream.transport.set_protocol(theirs)
        traffic = backend.traffic
        self._release_large_head(backend.organization)
        traffic.answers[1] += 1
        traffic.switched += 1
        self._weight = 0
        entry, self._entry = self._entry, None

        def note_end() -> None:
            traffic.switched -= 1
            traffic.used = self._shared.now
            if entry is not None:
                entry.end(101)

        ours.eof = self._eof
        if ahead:
            ours.data_received(ahead)
        Pipe(self._shared, peer, ours, theirs, note_end, self, backend.organization)
        self._peer = self._backend = self._upstream = None

    # Answers of the router itself

    def _fail(self, page: RouterPage) -> None:
        """Answers the request in progress with an error page, because no instance answers it."""
        backend = self._backend
        if backend is not None and backend.rules is not None:
            page = backend.rules.own_page(page)
        self.status = page.status
        entry, self._entry = self._entry, None
        self._end_request()
        self._send_page(page)
        if entry is not None:
            entry.end(page.status)

    def _say_unrouted(self, page: ErrorPage | ChallengeAnswer, method: bytes, target: bytes) -> None:
        """Answers a request without a service."""
        entry = self._begin_entry(None, method, target, self._fields.id)
        self._send_page(page)
        self._forget_large_head()
        if entry is not None:
            entry.end(page.status)

    def _send_page(self, page: RouterPage | ChallengeAnswer) -> None:
        close = self._decide_close()
        fields = self._fields.raw
        if not (self._phase is LOST or self.transport.is_closing()):
            self.transport.write(page.rendered(fields, head_only=self.head_only, closes_connection=close))
            self._served = True
            if close:
                self._continue(self.whole)

    def _give_up_instance(self) -> None:
        backend, upstream = self._backend, self._upstream
        assert backend is not None
        if upstream is None or upstream.begun:
            self.transport.abort()
        else:
            upstream.abandon()
            self._fail(pages.takes_nothing(backend.title, self.times.take_request))

    def _refuse(self, status: int, message: str) -> None:
        upstream = self._upstream
        if upstream is not None:
            upstream.abandon()
        self.status = status
        entry = self._entry or self._begin_entry()
        self._entry = None
        self._end_request()
        self.head_only = False
        self._shared.connections.refuse(str(status))
        if not (self._phase is LOST or self.transport.is_closing()):
            page = pages.bad_request(status, message)
            self.transport.write(page.rendered(b"", head_only=False, closes_connection=True))
            self._hang_up()
        if entry is not None:
            entry.end(status)

    def _begin_entry(
        self, route: Route | None = None, method: bytes = b"", target: bytes = b"", request_id: bytes = b""
    ) -> RequestEntry | None:
        """Creates the access log entry of a request. Returns None if there is no access log."""
        shared = self._shared
        own = route.rules.log if route is not None else None
        if shared.access_log is None and own is None:
            return None
        log = shared.access_log or shared.closed_log
        self.transport = transport = count_bytes(self.transport)
        fields = self._fields
        head = None
        if method:
            head = LoggedHead(method, target, fields.host, fields.raw, request_id, self.protocol)
        put = shared.service_logs.of(own, route.service) if own is not None and route is not None else None
        return RequestEntry(log, transport, self._address.decode(), self._port, route, head, put)
