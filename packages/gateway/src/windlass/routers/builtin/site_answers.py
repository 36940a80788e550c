"""Answers requests from the files of static sites.

An answer whose content is in memory is written at once. For another one, a `SiteStream` takes the place that
a connection to an instance has otherwise: it loads what is needed, and sends a large file piece by piece as
fast as the client reads.
"""

from __future__ import annotations

import asyncio
import time
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, NamedTuple

from windlass.base.log import log
from windlass.routers.builtin import pages
from windlass.routers.builtin.pages import ErrorPage
from windlass.routers.builtin.site_files import PIECE, SMALL, SharedFile, SiteFiles
from windlass.routers.builtin.site_pages import LocationAnswer, SiteContent
from windlass.routers.builtin.site_preferences import is_unchanged, preferences_of, range_of

if TYPE_CHECKING:
    from windlass.routers.builtin.client_sites import SiteClient
    from windlass.routers.builtin.shared_state import SharedState

_log = log("router")
_READS: Final = frozenset({b"GET", b"HEAD"})
_LOADS: Final = 3
"""Things that an answer may have to wait for: the index, its file, and one that was given up meanwhile."""
_PIECES: Final = 4
"""Pieces that one client is sent before others have their turn."""
_UNREADABLE: Final = (OSError, RuntimeError)
"""RuntimeError: the kernel has no process number left for a thread that reads."""


class NeedsSite(Exception):
    """The index of a site has to be loaded first."""


class NeedsFile(Exception):
    """A file has to be loaded first."""

    def __init__(self, path: str, size: int) -> None:
        super().__init__(path)
        self.path, self.size = path, size


class SiteRequest(NamedTuple):
    folder: str
    """The release that answers it."""
    title: str
    method: bytes
    target: bytes
    fields: bytes
    """All lines but the first."""


class SiteAnswer:
    """An answer that can be written: its head, and its body or the file with it."""

    __slots__ = ("begin", "body", "end", "file", "lines", "status")

    def __init__(self, status: int, lines: bytes, body: bytes = b"") -> None:
        self.status, self.lines, self.body = status, lines, body
        self.file: SharedFile | None = None
        self.begin = self.end = 0
        """The part of the file."""


class SiteServer:
    """Makes the answers of all sites of a router."""

    def __init__(self) -> None:
        self.files = SiteFiles()
        self._site, self._small = self.files.sites.get, self.files.small.get
        self._second = 0
        self._date = b""

    def ready(self, folder: str, target: bytes, fields: bytes) -> bytes | None:
        """Returns the whole answer to a GET, if it is a usual one and in memory; see `answer` for others."""
        site = self._site(folder)
        page = site.kept(target) if site is not None else None
        if page is None:
            return None
        wishes = preferences_of(fields)
        if not wishes.is_plain:
            return None
        content = page.packed if page.packed is not None and wishes.gzip else page.plain
        body = self._small(content.path)
        if body is None:
            return None
        second = int(time.time())
        if content.second != second:
            content.second = second
            content.head = self.head(SiteAnswer(200, content.whole), close=False)
        return content.head + body

    def answer(self, request: SiteRequest) -> SiteAnswer | ErrorPage:
        """Makes the answer to a request. Raises NeedsSite or NeedsFile if something is not in memory."""
        folder, title, method, target, fields = request
        if method not in _READS:
            return pages.only_read(title)
        site = self.files.sites.get(folder)
        if site is None:
            raise NeedsSite
        wishes = preferences_of(fields)
        page = site.find(target, likes_html=wishes.html)
        if page is None:
            return pages.no_file(title)
        if isinstance(page, LocationAnswer):
            return SiteAnswer(page.status, page.head)
        content = page.packed if page.packed is not None and wishes.gzip else page.plain
        begin, end, lines, status = 0, content.size, content.whole, page.status
        if not wishes.is_plain and status == 200:
            if is_unchanged(wishes, page, content):
                return SiteAnswer(304, content.lines_unchanged)
            part = range_of(wishes, page, content) if wishes.range and method == b"GET" else None
            if part is not None:
                begin, end = part
                if begin == end:
                    return _not_there(content)
                status = 206
                lines = b"%bContent-Range: bytes %d-%d/%d\r\nContent-Length: %d\r\n" % (
                    content.lines,
                    begin,
                    end - 1,
                    content.size,
                    end - begin,
                )
        if method == b"HEAD":
            return SiteAnswer(status, lines)
        return self._with_content(content.path, content.size, status, lines, begin, end)

    def _with_content(
        self, path: str, size: int, status: int, lines: bytes, begin: int, end: int
    ) -> SiteAnswer:
        if size <= SMALL:
            body = self.files.small.get(path)
            if body is None:
                raise NeedsFile(path, size)
            return SiteAnswer(status, lines, body if end - begin == size else body[begin:end])
        file = self.files.opened.get(path)
        if file is None:
            raise NeedsFile(path, size)
        answer = SiteAnswer(status, lines)
        answer.file, answer.begin, answer.end = file, begin, end
        return answer

    def head(self, answer: SiteAnswer, *, close: bool) -> bytes:
        second = int(time.time())
        if second != self._second:
            self._second, self._date = second, f"Date: {formatdate(second, usegmt=True)}\r\n".encode()
        end = b"Connection: close\r\n\r\n" if close else b"\r\n"
        return b"".join((_FIRST_LINES[answer.status], self._date, answer.lines, end))


_FIRST_LINES: Final = {
    status: f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()
    for status in (200, 206, 301, 302, 303, 304, 307, 308, 404, 410, 416)
}


def _not_there(content: SiteContent) -> SiteAnswer:
    lines = b"Content-Range: bytes */%d\r\nAccept-Ranges: bytes\r\nContent-Length: 0\r\n" % content.size
    return SiteAnswer(416, lines)


class SiteStream:
    """An answer that takes longer, used instead of a connection to an instance."""

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

    def __init__(self, client: SiteClient, shared: SharedState) -> None:
        self._client: SiteClient | None = client
        self._shared = shared
        self._file: SharedFile | None = None
        self._at = self._end = 0
        self._is_paused = self._is_reading = False
        self.begun = False
        """True as soon as the head of the answer is written."""
        self.blocked = False

    # As a connection to an instance

    def write(self, data: bytes) -> None:
        """Takes the rest of a body, which no file is interested in."""

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        if self._file is not None:
            self._send()

    def abandon(self) -> None:
        """Ends it, because the client has disconnected."""
        self._client = None
        if not self._is_reading:
            self._release_file()

    # Loading

    async def load(self, request: SiteRequest) -> None:
        """Loads what the answer needs, and gives it to the client."""
        sites = self._shared.sites
        result: SiteAnswer | ErrorPage = pages.unreadable(request.title)
        try:
            for _ in range(_LOADS):
                try:
                    result = sites.answer(request)
                    break
                except NeedsSite:
                    await sites.files.load_site(request.folder)
                except NeedsFile as need:
                    await sites.files.load_file(need.path, need.size)
        except (*_UNREADABLE, ValueError) as error:
            _log.error(
                "a file of a site cannot be read", extra={"folder": request.folder, "reason": str(error)}
            )
        if self._client is not None:
            self._client.answer_late(result)

    # Sending

    def send(self, answer: SiteAnswer) -> None:
        """Sends the file of an answer. Its head is written already."""
        assert answer.file is not None
        answer.file.use()
        self._shared.files_sent += 1
        self._file, self._at, self._end = answer.file, answer.begin, answer.end
        self.begun = True
        self._send()

    def _send(self) -> None:
        for _ in range(_PIECES):
            if self._is_paused or self._is_reading or self._file is None:
                return
            piece = self._file.read_now(self._at, min(PIECE, self._end - self._at))
            if piece is None:
                self._is_reading = True
                self._shared.do(self._read(self._file))
                return
            self._pass_on(piece)
        self._shared.loop.call_soon(self._send)  # others have their turn first

    async def _read(self, file: SharedFile) -> None:
        """Reads a piece that the kernel has to fetch from the disk."""
        try:
            piece = await asyncio.to_thread(file.read, self._at, min(PIECE, self._end - self._at))
        except _UNREADABLE as error:
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
        """Sends a piece. If the file has become shorter, the answer is aborted."""
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
