"""Parses the request headers that affect the answer of a static site: encoding, conditions, ranges. Pure."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from windlass.routers.builtin.site_pages import SiteContent, SitePage

_INTERPRETED_FIELDS_PATTERN: Final = re.compile(
    rb"\r\n(accept|accept-encoding|if-none-match|if-modified-since|if-range|range):[\t ]*([^\r]*)",
    re.IGNORECASE,
)
_RANGE_PATTERN: Final = re.compile(rb"bytes=([0-9]{0,18})-([0-9]{0,18})", re.IGNORECASE)
"""Matches a single byte range. For several ranges or other units, the whole content is sent, as HTTP
allows."""
_NO_GZIP_PATTERN: Final = re.compile(rb"gzip[\t ]*;[\t ]*q=0(?:\.0{0,3})?[\t ]*(?:,|$)")
_MAX_CACHED_HEADERS_BYTES, _MAX_ENCODINGS_BYTES = 4096, 500
"""Maximum size of headers whose parsed form is cached, and maximum length of a parsed Accept-Encoding, in
bytes."""


class SitePreferences(NamedTuple):
    """The client's preferences and conditions for an answer."""

    gzip: bool = False
    html: bool = False
    unless_match: bytes = b""
    unless_modified: bytes = b""
    range: bytes = b""
    if_range: bytes = b""
    is_plain: bool = True
    """Whether the request has neither conditions nor a range."""


def preferences_of(fields: bytes) -> SitePreferences:
    """Parses the header lines of a request. The result is cached, because most clients repeat their
    headers."""
    return (
        _cached_preferences(fields)
        if len(fields) <= _MAX_CACHED_HEADERS_BYTES
        else _parse_preferences(fields)
    )


def _parse_preferences(fields: bytes) -> SitePreferences:
    values: dict[bytes, bytes] = {}
    for name, value in _INTERPRETED_FIELDS_PATTERN.findall(fields):
        key = name.lower()
        values[key] = values[key] + b"," + value if key in values else value
    unless_match, unless_modified = values.get(b"if-none-match", b""), values.get(b"if-modified-since", b"")
    wanted = values.get(b"range", b"")
    return SitePreferences(
        gzip=_takes_gzip(values.get(b"accept-encoding", b"")),
        html=b"text/html" in values.get(b"accept", b"").lower(),
        unless_match=unless_match,
        unless_modified=b"" if unless_match else unless_modified.strip(b"\t "),
        range=wanted.strip(b"\t "),
        if_range=values.get(b"if-range", b"").strip(b"\t "),
        is_plain=not (unless_match or unless_modified or wanted),
    )


_cached_preferences = lru_cache(512)(_parse_preferences)


def _takes_gzip(value: bytes) -> bool:
    value = value.lower()
    return b"gzip" in value and len(value) <= _MAX_ENCODINGS_BYTES and not _NO_GZIP_PATTERN.search(value)


def is_unchanged(wishes: SitePreferences, page: SitePage, content: SiteContent) -> bool:
    """Returns whether the client already has this content. If-Modified-Since must equal the modification date
    exactly, because a rollback may bring back a file with an older date."""
    if wishes.unless_match:
        return wishes.unless_match.strip(b"\t ") == b"*" or content.etag in wishes.unless_match
    return bool(wishes.unless_modified) and wishes.unless_modified == page.modified


def range_of(wishes: SitePreferences, page: SitePage, content: SiteContent) -> tuple[int, int] | None:
    """Returns the begin and end of the requested byte range; None for the whole content. An empty range means
    that the request cannot be satisfied (416)."""
    match = _RANGE_PATTERN.fullmatch(wishes.range)
    if match is None or (wishes.if_range and wishes.if_range not in {content.etag, page.modified}):
        return None
    first, last = match.groups()
    if first:
        begin = int(first)
        end = min(int(last) + 1, content.size) if last else content.size
        if last and int(last) < begin:
            return None  # an invalid range is ignored (RFC 9110, 14.1.1)
    elif last:
        begin, end = max(0, content.size - int(last)), content.size
    else:
        return None
    return (begin, end) if begin < end else (0, 0)
