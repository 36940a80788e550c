"""Pages of a static site: the file for each path, and the fields of its answer. No I/O.

A release never changes, so that the answer of a path is computed once and kept while there is space.

The path of a request is a name in an index, and never one of the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from email.utils import formatdate
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from windlass.routers.sites.index import GZIP, SiteFile, SiteIndex
from windlass.routers.sites.media_types import is_asset
from windlass.routers.sites.patterns import PathPattern, PatternTable, fill
from windlass.routers.sites.rules import Redirect

_HIDDEN: Final = re.compile(r"/\.(?!well-known(?:/|$))|/\.well-known(?:/.*)?/\.")
_UNSAFE: Final = re.compile(r"//|[\x00-\x1f\x7f\\]")
_ENCODED_SLASH: Final = re.compile(rb"%(?:2f|5c|00)", re.IGNORECASE)
_SAFE_IN_TARGET: Final = "%/?#[]@!$&'()*+,;=:-._~"
_SAFE_IN_PATH: Final = "/@!$&'()*+,;=:-._~"


def decoded_path(raw: bytes) -> str | None:
    """Returns the decoded path of a target without its query; None if it cannot be the path of a file."""
    if not raw.startswith(b"/") or _ENCODED_SLASH.search(raw):
        return None
    try:
        path = unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        return None
    return None if _UNSAFE.search(path) or _HIDDEN.search(path) else path


def encoded_path(path: str) -> str:
    """Returns a path as it is written in an address of the same site: never as one of another host."""
    return "/" + quote(path.lstrip("/"), _SAFE_IN_PATH)


def encoded_target(target: str) -> str:
    """Returns the target of a redirect for a field of an answer. A path stays on the same site."""
    encoded = quote(target, _SAFE_IN_TARGET)
    return "/" + encoded.lstrip("/") if encoded.startswith("/") else encoded


def with_query(target: str, query: bytes) -> str:
    """Adds the query of the request, unless the target has one of its own."""
    if not query or "?" in target:
        return target
    address, mark, fragment = target.partition("#")
    return f"{address}?{query.decode('latin-1')}{mark}{fragment}"


NOT_FOUND: Final = "404.html"
INDEX_PAGE: Final = "index.html"
_IMMUTABLE: Final = "public, max-age=31536000, immutable"
_CHECKED: Final = "no-cache"
_MOST_PAGES, _LONGEST_KEPT = 2048, 512
"""Maximum number of cached pages of a site, and maximum bytes of the path of a cached page."""
_MOST_KEPT: Final = 8 * 1024 * 1024
"""Bytes of the kept pages of a site. Its rules can give each a head of 200 KiB, and there are many ways to
write a path."""
_LONGEST_LOCATION: Final = 8000
_Fields = dict[str, tuple[str, str]]
"""Keyed by name in lower case: the name and the value."""


class SiteContent:
    """The plain or the compressed content of a file, with the lines of its answers."""

    __slots__ = ("etag", "head", "lines", "lines_unchanged", "path", "second", "size", "whole")

    def __init__(self, path: str, size: int, etag: str, fields: _Fields, encoding: str = "") -> None:
        self.path, self.size = path, size
        self.second, self.head = 0, b""
        """The cached head of the usual answer, and the second in its Date field."""
        self.etag = etag.encode()
        own = {**fields, "etag": ("ETag", etag)}
        unchanged = {key: field for key, field in own.items() if not key.startswith("content-")}
        if encoding:
            own["content-encoding"] = ("Content-Encoding", encoding)
        self.lines = _lines(own)
        """The header lines without the content length, each with its line end."""
        self.whole = self.lines + b"Content-Length: %d\r\n" % size
        self.lines_unchanged = _lines(unchanged)
        """The lines of an answer without content, because the client has it."""


class SitePage:
    """The answer to requests of one path."""

    __slots__ = ("modified", "packed", "plain", "size", "status")

    def __init__(self, folder: str, file: SiteFile, fields: _Fields, *, status: int = 200) -> None:
        self.status = status
        date = formatdate(file.modified, usegmt=True)
        self.modified = date.encode()
        shared: _Fields = {
            "content-type": ("Content-Type", file.type),
            "cache-control": ("Cache-Control", _IMMUTABLE if file.is_immutable else _CHECKED),
            "last-modified": ("Last-Modified", date),
            "accept-ranges": ("Accept-Ranges", "bytes"),
        }
        if file.gzip:
            add_vary(shared, "Accept-Encoding")
        for key, field in fields.items():
            if key == "vary":
                add_vary(shared, field[1])
            else:
                shared[key] = field
        digest = file.digest[:32]
        self.plain = SiteContent(f"{folder}/{file.digest}", file.size, f'"{digest}"', shared)
        self.packed: SiteContent | None = None
        """The compressed content, if there is one."""
        if file.gzip:
            etag = f'"{digest}-gzip"'
            self.packed = SiteContent(f"{folder}/{file.digest}{GZIP}", file.gzip, etag, shared, "gzip")
        self.size = 8 * len(self.plain.lines)
        """The approximate size in memory: each content has its header lines in four forms."""


class LocationAnswer:
    """A redirect to another address."""

    __slots__ = ("head", "status")

    def __init__(self, status: int, location: str, fields: _Fields) -> None:
        self.status = status
        own = {"cache-control": ("Cache-Control", _CHECKED), **fields}
        self.head = _lines(own | {"location": ("Location", location)}) + b"Content-Length: 0\r\n"


class _RedirectMatcher:
    """A redirect with its pattern."""

    __slots__ = ("pattern", "redirect")

    def __init__(self, redirect: Redirect) -> None:
        self.redirect = redirect
        self.pattern = PathPattern(redirect.path)


class _RedirectTable:
    """Redirects, of which a path tries few."""

    def __init__(self, redirects: Iterable[Redirect]) -> None:
        self._matchers = [_RedirectMatcher(redirect) for redirect in redirects]
        self._table = PatternTable(matcher.pattern for matcher in self._matchers)

    def find(self, path: str) -> Iterator[tuple[Redirect, Mapping[str, str]]]:
        """Yields the redirects of a path, in their order, each with the values of its names."""
        for number in self._table.candidates(path):
            matcher = self._matchers[number]
            values = matcher.pattern.match(path)
            if values is not None:
                yield matcher.redirect, values


class LoadedSite:
    def __init__(self, folder: str, index: SiteIndex) -> None:
        self._folder, self._index = folder, index
        self.size = index.size
        redirects = index.rules.redirects
        self._forced = _RedirectTable(redirect for redirect in redirects if redirect.force)
        self._others = _RedirectTable(redirect for redirect in redirects if not redirect.force)
        self._headers = [(PathPattern(rule.path), rule.fields) for rule in index.rules.headers]
        self._pages: dict[bytes, SitePage] = {}
        self._kept_size = 0
        self.kept = self._pages.get
        """Returns the page of a path that was asked for before."""

    def find(self, target: bytes, *, likes_html: bool) -> SitePage | LocationAnswer | None:
        """Returns the answer for the target of a request; None if it does not exist. `likes_html` is True
        for clients that request a page."""
        raw, _, query = target.partition(b"?")
        page = self._pages.get(raw)
        if page is not None:
            return page
        path = decoded_path(raw)
        if path is None:
            return self._not_found("/")
        if redirect := self._redirect(self._forced, path, query):
            return redirect
        if page := self._page(path, _names_of(path)):
            self._cache_page(raw, page)
            return page
        return (
            self._slash_corrected(path, query)
            or self._redirect(self._others, path, query)
            or (self._fallback(path) if likes_html else None)
            or self._not_found(path)
        )

    def _cache_page(self, raw: bytes, page: SitePage) -> None:
        if len(raw) > _LONGEST_KEPT or page.size > _MOST_KEPT:
            return
        if len(self._pages) >= _MOST_PAGES or self._kept_size + page.size > _MOST_KEPT:
            self._pages.clear()
            self._kept_size = 0
        self._pages[raw] = page
        self._kept_size += page.size

    def _page(self, path: str, names: tuple[str, ...], status: int = 200) -> SitePage | None:
        for name in names:
            if file := self._index.find(name):
                return SitePage(self._folder, file, self._fields(path), status=status)
        return None

    def _fields(self, path: str) -> _Fields:
        """Returns the fields that the site declares for a path."""
        fields: _Fields = {}
        for pattern, declared in self._headers:
            if pattern.match(path) is not None:
                fields |= {name.lower(): (name, value) for name, value in declared}
        return fields

    def _slash_corrected(self, path: str, query: bytes) -> LocationAnswer | None:
        """Leads to the folder of this name, or to the page of this name that is no folder."""
        if not path.endswith("/"):
            is_there, other = self._index.find(f"{path[1:]}/{INDEX_PAGE}"), f"{path}/"
        else:
            is_there, other = self._index.find(f"{path[1:-1]}.html"), path[:-1]
        if not is_there:
            return None
        return LocationAnswer(301, with_query(encoded_path(other), query), self._fields(path))

    def _redirect(self, rules: _RedirectTable, path: str, query: bytes) -> SitePage | LocationAnswer | None:
        for redirect, values in rules.find(path):
            target = fill(redirect.target, values)
            if redirect.moves:
                location = with_query(encoded_target(target), query)
                if len(location) <= _LONGEST_LOCATION:
                    return LocationAnswer(redirect.status, location, self._fields(path))
            elif page := self._rewritten(path, target, redirect.status):
                return page
        return None

    def _rewritten(self, path: str, target: str, status: int) -> SitePage | None:
        """Answers with the page at another path."""
        inner = decoded_path(encoded_target(target).partition("?")[0].encode())
        return self._page(path, _names_of(inner), status) if inner else None

    def _fallback(self, path: str) -> SitePage | None:
        name = self._index.rules.fallback
        if not name or is_asset(path):
            return None
        return self._for_people(self._index.find(name), path, 200)

    def _not_found(self, path: str) -> SitePage | None:
        return self._for_people(self._index.find(NOT_FOUND), path, 404)

    def _for_people(self, file: SiteFile | None, path: str, status: int) -> SitePage | None:
        """Answers with a page that another client would not get."""
        if file is None:
            return None
        fields = self._fields(path)
        add_vary(fields, "Accept")
        return SitePage(self._folder, file, fields, status=status)


def _names_of(path: str) -> tuple[str, ...]:
    """Returns the names of files that a path may mean, the first one first."""
    name = path[1:]
    if not name or name.endswith("/"):
        return (f"{name}{INDEX_PAGE}",)
    return name, f"{name}.html"


def add_vary(fields: _Fields, name: str) -> None:
    before = fields.get("vary")
    fields["vary"] = ("Vary", f"{before[1]}, {name}" if before else name)


def _lines(fields: _Fields) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in fields.values()).encode("latin-1")
