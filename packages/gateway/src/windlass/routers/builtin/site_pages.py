"""Pages of a static site: maps a path to its file and response headers. No I/O.

A release never changes, so that the answer for a path is computed once and cached while there is space. A
request path is only looked up in the site's index; it is never a path in the file system.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from email.utils import formatdate
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from windlass.routers.sites.index import GZIP_SUFFIX, SiteFile, SiteIndex
from windlass.routers.sites.media_types import is_asset
from windlass.routers.sites.patterns import PathPattern, PatternTable, fill
from windlass.routers.sites.rules import Redirect

_HIDDEN_PATH_PATTERN: Final = re.compile(r"/\.(?!well-known(?:/|$))|/\.well-known(?:/.*)?/\.")
_UNSAFE_PATH_PATTERN: Final = re.compile(r"//|[\x00-\x1f\x7f\\]")
_ENCODED_SLASH_PATTERN: Final = re.compile(rb"%(?:2f|5c|00)", re.IGNORECASE)
_SAFE_IN_TARGET: Final = "%/?#[]@!$&'()*+,;=:-._~"
_SAFE_IN_PATH: Final = "/@!$&'()*+,;=:-._~"


def decoded_path(raw: bytes) -> str | None:
    """Returns the decoded path of a request target without query; None if it cannot be the path of a file."""
    if not raw.startswith(b"/") or _ENCODED_SLASH_PATTERN.search(raw):
        return None
    try:
        path = unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        return None
    return None if _UNSAFE_PATH_PATTERN.search(path) or _HIDDEN_PATH_PATTERN.search(path) else path


def encoded_path(path: str) -> str:
    """Returns the URL-encoded path. The result begins with exactly one slash, so that it can never lead to
    another host."""
    return "/" + quote(path.lstrip("/"), _SAFE_IN_PATH)


def encoded_target(target: str) -> str:
    """Returns the URL-encoded target of a redirect for the Location header. A path stays on the same site."""
    encoded = quote(target, _SAFE_IN_TARGET)
    return "/" + encoded.lstrip("/") if encoded.startswith("/") else encoded


def with_query(target: str, query: bytes) -> str:
    """Adds the query of the request to a redirect target, unless the target already has a query."""
    if not query or "?" in target:
        return target
    address, mark, fragment = target.partition("#")
    return f"{address}?{query.decode('latin-1')}{mark}{fragment}"


NOT_FOUND: Final = "404.html"
INDEX_PAGE: Final = "index.html"
_IMMUTABLE_CACHE: Final = "public, max-age=31536000, immutable"
_CHECKED_CACHE: Final = "no-cache"
_MAX_PAGES, _MAX_CACHED_PATH_BYTES = 2048, 512
"""Maximum number of cached pages of a site, and maximum length in bytes of a cached page's path."""
_MAX_CACHE_BYTES: Final = 8 * 1024 * 1024
"""Maximum size of the page cache of a site, in bytes. The rules of a site can give each page 200 KiB of
headers, and one path has many spellings."""
_MAX_LOCATION_LENGTH: Final = 8000
_MAX_REWRITTEN_LENGTH: Final = 2000
"""Maximum length of the target of a rewrite, which is the path of a file."""
_MAX_MISSED_REWRITES: Final = 10
"""Number of rewrites that are tried for a request, if the pages at their targets do not exist."""
_MAX_FIELDS_OF_ANSWER: Final = 100
"""Number of headers that a site can add to an answer. Many rules may apply to one path, and answers that are
not cached collect them for each request, while the requests of all services wait."""
_Fields = dict[str, tuple[str, str]]
"""Header name and value, keyed by the name in lower case."""


class SiteContent:
    """The uncompressed or compressed content of a file, with the header lines of its answers."""

    __slots__ = ("etag", "head", "lines", "lines_unchanged", "path", "second", "size", "whole")

    def __init__(self, path: str, size: int, etag: str, fields: _Fields, encoding: str = "") -> None:
        self.path, self.size = path, size
        self.second, self.head = 0, b""
        """The cached head of a plain answer, and the second of its Date header."""
        self.etag = etag.encode()
        own = {**fields, "etag": ("ETag", etag)}
        unchanged = {key: field for key, field in own.items() if not key.startswith("content-")}
        if encoding:
            own["content-encoding"] = ("Content-Encoding", encoding)
        self.lines = _header_lines(own)
        """Header lines without Content-Length, each with its line end."""
        self.whole = self.lines + b"Content-Length: %d\r\n" % size
        self.lines_unchanged = _header_lines(unchanged)
        """Header lines of a 304 answer."""


class SitePage:
    """The answer to requests for one path."""

    __slots__ = ("modified", "packed", "plain", "size", "status")

    def __init__(self, folder: str, file: SiteFile, fields: _Fields, *, status: int = 200) -> None:
        self.status = status
        date = formatdate(file.modified, usegmt=True)
        self.modified = date.encode()
        shared: _Fields = {
            "content-type": ("Content-Type", file.type),
            "cache-control": ("Cache-Control", _IMMUTABLE_CACHE if file.is_immutable else _CHECKED_CACHE),
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
        """The compressed content, if it exists."""
        if file.gzip:
            etag = f'"{digest}-gzip"'
            self.packed = SiteContent(f"{folder}/{file.digest}{GZIP_SUFFIX}", file.gzip, etag, shared, "gzip")
        self.size = 8 * len(self.plain.lines)
        """Approximate size in memory: the header lines exist in four variants per content."""


class LocationAnswer:
    """A redirect to another address."""

    __slots__ = ("head", "status")

    def __init__(self, status: int, location: str, fields: _Fields) -> None:
        self.status = status
        own = {"cache-control": ("Cache-Control", _CHECKED_CACHE), **fields}
        self.head = _header_lines(own | {"location": ("Location", location)}) + b"Content-Length: 0\r\n"


class _RedirectMatcher:
    """A redirect with its compiled path pattern."""

    __slots__ = ("pattern", "redirect")

    def __init__(self, redirect: Redirect) -> None:
        self.redirect = redirect
        self.pattern = PathPattern(redirect.path)


class _RedirectTable:
    """Redirects, indexed so that few patterns are tried for a path."""

    def __init__(self, redirects: Iterable[Redirect]) -> None:
        self._matchers = [_RedirectMatcher(redirect) for redirect in redirects]
        self._table = PatternTable(matcher.pattern for matcher in self._matchers)

    def find(self, path: str) -> Iterator[tuple[Redirect, Mapping[str, str]]]:
        """Yields the redirects that match a path, in order, each with its placeholder values."""
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
        self._headers = [
            (PathPattern(rule.path), {name.lower(): (name, value) for name, value in rule.fields})
            for rule in index.rules.headers
        ]
        self._pages: dict[bytes, SitePage] = {}
        self._kept_size = 0
        self.kept = self._pages.get
        """Returns the cached page for a raw path."""

    def find(self, target: bytes, *, likes_html: bool) -> SitePage | LocationAnswer | None:
        """Returns the answer for a request target; None if nothing exists there. `likes_html`: the client
        accepts HTML."""
        raw, _, query = target.partition(b"?")
        page = self._pages.get(raw)
        if page is not None:
            return page
        path = decoded_path(raw)
        if path is None:
            return self._not_found_page("/")
        if redirect := self._redirect(self._forced, path, query):
            return redirect
        if page := self._find_page(path, _candidate_names(path)):
            self._cache_page(raw, page)
            return page
        return (
            self._slash_corrected(path, query)
            or self._redirect(self._others, path, query)
            or (self._fallback(path) if likes_html else None)
            or self._not_found_page(path)
        )

    def _cache_page(self, raw: bytes, page: SitePage) -> None:
        if len(raw) > _MAX_CACHED_PATH_BYTES or page.size > _MAX_CACHE_BYTES:
            return
        if len(self._pages) >= _MAX_PAGES or self._kept_size + page.size > _MAX_CACHE_BYTES:
            self._pages.clear()
            self._kept_size = 0
        self._pages[raw] = page
        self._kept_size += page.size

    def _find_page(self, path: str, names: tuple[str, ...], status: int = 200) -> SitePage | None:
        for name in names:
            if file := self._index.find(name):
                return SitePage(self._folder, file, self._custom_headers(path), status=status)
        return None

    def _custom_headers(self, path: str) -> _Fields:
        """Returns the custom headers that the site declares for a path, up to a limit."""
        fields: _Fields = {}
        for pattern, declared in self._headers:
            if pattern.match(path) is None:
                continue
            if len(fields) + len(declared) <= _MAX_FIELDS_OF_ANSWER:
                fields |= declared
                continue
            for key, field in declared.items():
                if key in fields or len(fields) < _MAX_FIELDS_OF_ANSWER:
                    fields[key] = field
        return fields

    def _slash_corrected(self, path: str, query: bytes) -> LocationAnswer | None:
        """Returns a redirect that adds a missing slash to a folder's path, or removes a wrong slash from a
        page's path."""
        if not path.endswith("/"):
            is_there, other = self._index.find(f"{path[1:]}/{INDEX_PAGE}"), f"{path}/"
        else:
            is_there, other = self._index.find(f"{path[1:-1]}.html"), path[:-1]
        if not is_there:
            return None
        return LocationAnswer(301, with_query(encoded_path(other), query), self._custom_headers(path))

    def _redirect(self, rules: _RedirectTable, path: str, query: bytes) -> SitePage | LocationAnswer | None:
        """Returns the answer of the first redirect that applies to a path; None if there is none, if its
        target is too long, or if the pages at the targets of several rewrites do not exist."""
        for missed, (redirect, values) in enumerate(rules.find(path)):
            if missed == _MAX_MISSED_REWRITES:
                return None
            limit = _MAX_LOCATION_LENGTH if redirect.moves else _MAX_REWRITTEN_LENGTH
            target = fill(redirect.target, values, limit)
            if target is None:
                return None
            if redirect.moves:
                location = with_query(encoded_target(target), query)
                if len(location) > _MAX_LOCATION_LENGTH:
                    return None
                return LocationAnswer(redirect.status, location, self._custom_headers(path))
            if page := self._rewritten_page(path, target, redirect.status):
                return page
        return None

    def _rewritten_page(self, path: str, target: str, status: int) -> SitePage | None:
        """Returns the page at the target path of a rewrite."""
        inner = decoded_path(encoded_target(target).partition("?")[0].encode())
        return self._find_page(path, _candidate_names(inner), status) if inner else None

    def _fallback(self, path: str) -> SitePage | None:
        name = self._index.rules.fallback
        if not name or is_asset(path):
            return None
        return self._page_by_accept(self._index.find(name), path, 200)

    def _not_found_page(self, path: str) -> SitePage | None:
        return self._page_by_accept(self._index.find(NOT_FOUND), path, 404)

    def _page_by_accept(self, file: SiteFile | None, path: str, status: int) -> SitePage | None:
        """Returns a page whose selection depends on the Accept header."""
        if file is None:
            return None
        fields = self._custom_headers(path)
        add_vary(fields, "Accept")
        return SitePage(self._folder, file, fields, status=status)


def _candidate_names(path: str) -> tuple[str, ...]:
    """Returns candidate file names for a path, in order of preference."""
    name = path[1:]
    if not name or name.endswith("/"):
        return (f"{name}{INDEX_PAGE}",)
    return name, f"{name}.html"


def add_vary(fields: _Fields, name: str) -> None:
    before = fields.get("vary")
    fields["vary"] = ("Vary", f"{before[1]}, {name}" if before else name)


def _header_lines(fields: _Fields) -> bytes:
    return "".join(f"{name}: {value}\r\n" for name, value in fields.values()).encode("latin-1")
