"""Creates the answers to requests for static sites.

If the content is in memory, the answer is written at once. Otherwise `client_sites` loads the content first.
"""

from __future__ import annotations

import time
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, NamedTuple

from windlass.routers.builtin import pages
from windlass.routers.builtin.pages import ErrorPage
from windlass.routers.builtin.site_files import MAX_CACHED_FILE_BYTES, SharedFile, SiteFiles
from windlass.routers.builtin.site_pages import LocationAnswer, SiteContent
from windlass.routers.builtin.site_preferences import is_unchanged, preferences_of, range_of

_READ_METHODS: Final = frozenset({b"GET", b"HEAD"})


class NeedsSite(Exception):
    """Raised if the site's index must be loaded first."""


class NeedsFile(Exception):
    """Raised if a file must be loaded first."""

    def __init__(self, path: str, size: int) -> None:
        super().__init__(path)
        self.path, self.size = path, size


class SiteRequest(NamedTuple):
    folder: str
    """The folder of the site's release."""
    title: str
    method: bytes
    target: bytes
    fields: bytes
    """The header lines (without the request line)."""


class SiteAnswer:
    """An answer whose content is loaded: its status, header lines, and either a body or an open file."""

    __slots__ = ("begin", "body", "end", "file", "lines", "status")

    def __init__(self, status: int, lines: bytes, body: bytes = b"") -> None:
        self.status, self.lines, self.body = status, lines, body
        self.file: SharedFile | None = None
        self.begin = self.end = 0
        """The byte range of the file to send."""


class SiteServer:
    """Creates the answers of all static sites of a router."""

    def __init__(self) -> None:
        self.files = SiteFiles()
        self._site, self._small = self.files.sites.get, self.files.small.get
        self._second = 0
        self._date = b""

    def ready(self, folder: str, target: bytes, fields: bytes) -> bytes | None:
        """Returns the complete answer to a plain GET request if all of it is in memory; otherwise None, and
        `answer` handles the request."""
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
            content.head = self.head(SiteAnswer(200, content.whole), closes_connection=False)
        return content.head + body

    def answer(self, request: SiteRequest) -> SiteAnswer | ErrorPage:
        """Creates the answer to a request. Raises NeedsSite or NeedsFile if the index or the file is not
        loaded."""
        folder, title, method, target, fields = request
        if method not in _READ_METHODS:
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
                    return _not_found_answer(content)
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
        if size <= MAX_CACHED_FILE_BYTES:
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

    def head(self, answer: SiteAnswer, *, closes_connection: bool) -> bytes:
        second = int(time.time())
        if second != self._second:
            self._second, self._date = second, f"Date: {formatdate(second, usegmt=True)}\r\n".encode()
        end = b"Connection: close\r\n\r\n" if closes_connection else b"\r\n"
        return b"".join((_FIRST_LINES[answer.status], self._date, answer.lines, end))


_FIRST_LINES: Final = {
    status: f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n".encode()
    for status in (200, 206, 301, 302, 303, 304, 307, 308, 404, 410, 416)
}


def _not_found_answer(content: SiteContent) -> SiteAnswer:
    lines = b"Content-Range: bytes */%d\r\nAccept-Ranges: bytes\r\nContent-Length: 0\r\n" % content.size
    return SiteAnswer(416, lines)
