"""Answers requests of a client with files of static sites, and decides when the connection closes.

A `SiteStream` loads the files of an answer, and sends a large file in pieces at the client's speed. The
client uses it in place of a connection to an instance.
"""

from __future__ import annotations

import asyncio
from typing import Final

from windlass.base.log import log
from windlass.routers.builtin import pages
from windlass.routers.builtin.answers import with_lines
from windlass.routers.builtin.client_requests import RequestReader
from windlass.routers.builtin.client_socket import PARTING
from windlass.routers.builtin.pages import ErrorPage
from windlass.routers.builtin.shared_state import SharedState
from windlass.routers.builtin.site_answers import NeedsFile, NeedsSite, SiteAnswer, SiteRequest
from windlass.routers.builtin.site_files import CHUNK_BYTES, SharedFile
from windlass.routers.builtin.table import Backend

_log = log("router")
_MAX_ATTEMPTS: Final = 3
"""Maximum number of attempts to create an answer: before and after the index is loaded, and after the file is
loaded."""
_MAX_CHUNKS_PER_TURN: Final = 4
"""Maximum number of pieces that one client gets in one turn of the event loop."""
_READ_ERRORS: Final = (OSError, RuntimeError)
"""Errors of a failed read. RuntimeError: the process limit is reached, so that no thread can be started."""


class SiteClient(RequestReader):
    __slots__ = ("_sent", "added", "close", "status")

    def __init__(self, shared_state: SharedState, port: int) -> None:
        super().__init__(shared_state, port)
        self._sent = b""
        """All bytes of the request that were sent to the instance. Empty once the request cannot be
        repeated."""
        self.status = 0
        """The status of the answer, once it is known."""
        self.close = False
        """Whether the connection closes after the answer."""
        self.added = b""
        """Header lines that are added to the answer. Each line begins with its line break."""

    # Left to `client`

    def _fail(self, page: ErrorPage) -> None:
        """Answers the request in progress with an error page of the router."""
        raise NotImplementedError

    def _continue(self, is_complete: bool) -> None:
        """Handles the next request, or closes the connection."""
        raise NotImplementedError

    # Answers

    def _decide_close(self) -> bool:
        """Decides whether the connection closes after an answer that comes from the router, not from an
        instance."""
        self.close = self.close or self._shared.stopping or not self.whole or self._eof
        return self.close

    def _serve_file(self, backend: Backend, method: bytes, target: bytes) -> None:
        """Answers the request in progress with a file of a static site."""
        closes = self._decide_close()
        if method == b"GET" and not closes:
            answer = self._shared.sites.ready(backend.site, target, self._fields.raw)
            if answer is not None:
                self.status = 200
                self.transport.write(with_lines(answer, self.added) if self.added else answer)
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
        """Called when all files of the answer are loaded."""
        self._upstream = None
        self._write_answer(answer)
        self._advance()

    def _write_answer(self, answer: SiteAnswer | ErrorPage) -> None:
        if isinstance(answer, ErrorPage):
            self._fail(answer)
            return
        self.status = answer.status
        close = self._decide_close()
        head = with_lines(self._shared.sites.head(answer, closes_connection=close), self.added)
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
        """Called when the answer is incomplete. Closes the connection, because the client cannot detect this
        otherwise."""
        self._end_request(PARTING)
        self.transport.close()


class SiteStream:
    """An answer whose files must be loaded or sent in pieces. Has the interface of a connection to an
    instance."""

    __slots__ = (
        "_at",
        "_client",
        "_end",
        "_file",
        "_is_paused",
        "_is_reading",
        "_shared",
        "begun",
        "blocked",
    )

    def __init__(self, client: SiteClient, shared_state: SharedState) -> None:
        self._client: SiteClient | None = client
        self._shared = shared_state
        self._file: SharedFile | None = None
        self._at = self._end = 0
        self._is_paused = self._is_reading = False
        self.begun = False
        """Whether the head of the answer was written."""
        self.blocked = False

    # As a connection to an instance

    def write(self, data: bytes) -> None:
        """Ignores the rest of a request's body."""

    def buffered(self) -> int:
        return 0

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        if self._file is not None:
            self._send()

    def abandon(self) -> None:
        """Stops the answer, because the client has disconnected."""
        self._client = None
        if not self._is_reading:
            self._release_file()

    # Loading

    async def load(self, request: SiteRequest) -> None:
        """Loads the files that the answer needs, and passes the answer to the client connection."""
        sites = self._shared.sites
        result: SiteAnswer | ErrorPage = pages.unreadable(request.title)
        try:
            for _ in range(_MAX_ATTEMPTS):
                try:
                    result = sites.answer(request)
                    break
                except NeedsSite:
                    await sites.files.load_site(request.folder)
                except NeedsFile as need:
                    await sites.files.load_file(need.path, need.size)
        except (*_READ_ERRORS, ValueError) as error:
            _log.error(
                "a file of a site cannot be read", extra={"folder": request.folder, "reason": str(error)}
            )
        if self._client is not None:
            self._client.answer_late(result)

    # Sending

    def send(self, answer: SiteAnswer) -> None:
        """Sends the file of an answer. The caller has already written the head."""
        assert answer.file is not None
        answer.file.use()
        self._shared.files_sent += 1
        self._file, self._at, self._end = answer.file, answer.begin, answer.end
        self.begun = True
        self._send()

    def _send(self) -> None:
        for _ in range(_MAX_CHUNKS_PER_TURN):
            if self._is_paused or self._is_reading or self._file is None:
                return
            piece = self._file.read_now(self._at, min(CHUNK_BYTES, self._end - self._at))
            if piece is None:
                self._is_reading = True
                self._shared.do(self._read(self._file))
                return
            self._pass_on(piece)
        self._shared.loop.call_soon(self._send)  # other clients get a turn

    async def _read(self, file: SharedFile) -> None:
        """Reads a piece in a thread, because it is not in the kernel's page cache."""
        try:
            piece = await asyncio.to_thread(file.read, self._at, min(CHUNK_BYTES, self._end - self._at))
        except _READ_ERRORS as error:
            _log.error("a file of a site cannot be read", extra={"reason": str(error)})
            piece = b""
        finally:
            self._is_reading = False
        if self._client is None:
            self._release_file()
        else:
            self._pass_on(piece)
            self._send()

    def _pass_on(self, piece: bytes | bytearray) -> None:
        """Sends a piece. Aborts the answer if the file turns out to be shorter than expected."""
        client = self._client
        assert client is not None
        self._at += len(piece)
        if piece:
            client.transport.write(piece)
        if piece and self._at < self._end:
            return
        self._release_file()
        self._client = None
        if piece:
            client.answered()
        else:
            client.cut()

    def _release_file(self) -> None:
        if self._file is not None:
            self._file.release()
            self._shared.files_sent -= 1
            self._file = None
