"""Paths of requests to static sites. A path is a name in an index, and never one of the machine."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote_to_bytes

_HIDDEN: Final = re.compile(r"/\.(?!well-known(?:/|$))|/\.well-known(?:/.*)?/\.")
_UNSAFE: Final = re.compile(r"//|[\x00-\x1f\x7f\\]")
_ENCODED_SLASH: Final = re.compile(rb"%(?:2f|5c|00)", re.IGNORECASE)
_SAFE_IN_TARGET: Final = "%/?#[]@!$&'()*+,;=:-._~"
_SAFE_IN_PATH: Final = "/@!$&'()*+,;=:-._~"


def decoded_path(raw: bytes) -> str | None:
    """Returns the path of a target without its query, decoded; None if no file can be meant by it."""
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
