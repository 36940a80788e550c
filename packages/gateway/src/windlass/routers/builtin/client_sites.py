"""Answers requests of a client from the files of static sites, and decides when the connection closes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.routers.builtin.client_requests import RequestReader
from windlass.routers.builtin.client_socket import PARTING
from windlass.routers.builtin.pages import ErrorPage
from windlass.routers.builtin.site_answers import NeedsFile, NeedsSite, SiteAnswer, SiteRequest, SiteStream

if TYPE_CHECKING:
    from windlass.routers.builtin.shared_state import SharedState
    from windlass.routers.builtin.table import Backend


class SiteClient(RequestReader):
    __slots__ = ("_sent", "close", "status")

    def __init__(self, shared: SharedState, port: int) -> None:
        super().__init__(shared, port)
        self._sent = b""
        """All bytes of the request that were sent. Empty once the request cannot be sent again from here."""
        self.status = 0
        """The status of its answer, as soon as there is one."""
        self.close = False
        """The connection closes after the answer."""

    # Left to `client`

    def _fail(self, page: ErrorPage) -> None:
        """Answers the request under way with a page of the router."""
        raise NotImplementedError

    def _continue(self, whole: bool) -> None:
        """Takes the next request, or closes."""
        raise NotImplementedError

    # Answers

    def _closes(self) -> bool:
        """Decides whether the connection closes after an answer that is not of an instance."""
        self.close = self.close or self._shared.stopping or not self.whole or self._eof
        return self.close

    def _serve_file(self, backend: Backend, method: bytes, target: bytes) -> None:
        """Answers the request under way with a file of a static site."""
        closes = self._closes()
        if method == b"GET" and not closes:
            answer = self._shared.sites.ready(backend.site, target, self._fields.raw)
            if answer is not None:
                self.status = 200
                self.transport.write(answer)
                self._end_request()
                return
        self._load_answer(backend, method, target)

    def _load_answer(self, backend: Backend, method: bytes, target: bytes) -> None:
        request = SiteRequest(backend.site, backend.title, method, target, self._fields.raw)
        try:
            answer = self._shared.sites.answer(request)
        except (NeedsSite, NeedsFile):
            stream = self._upstream = SiteStream(self, self._shared)
            self._shared.do(stream.load(request))
        else:
            self._write_answer(answer)

    def answer_late(self, answer: SiteAnswer | ErrorPage) -> None:
        """Called with the answer when all that it needs has been loaded."""
        self._upstream = None
        self._write_answer(answer)
        self._advance()

    def _write_answer(self, answer: SiteAnswer | ErrorPage) -> None:
        if isinstance(answer, ErrorPage):
            self._fail(answer)
            return
        self.status = answer.status
        close = self._closes()
        head = self._shared.sites.head(answer, close=close)
        if answer.file is not None:
            self.transport.write(head)
            stream = self._upstream = SiteStream(self, self._shared)
            if self._blocked:
                stream.pause()
            stream.send(answer)
            return
        self.transport.write(head + answer.body)
        self._end_request()
        if close:
            self._continue(self.whole)

    def answered(self) -> None:
        """Called when the answer is complete."""
        whole = self.whole
        self._end_request()
        self._continue(whole)

    def cut(self) -> None:
        """Called when the answer breaks off: so must the connection, for the client to see it."""
        self._end_request(PARTING)
        self.transport.close()
