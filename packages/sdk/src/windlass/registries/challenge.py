"""Parses response headers of registries: the login challenge, the next page, and the remaining pulls.
Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, urlsplit

from msgspec import Struct

_SCHEME_PATTERN: Final = re.compile(
    r"\s*(?P<scheme>bearer|basic)(\s+(?P<rest>.*))?\Z", re.IGNORECASE | re.DOTALL
)
_PARAMETER_PATTERN: Final = re.compile(
    r'(?<![A-Za-z_])(?P<name>[A-Za-z_]+)\s*=\s*("(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^\s,"]+))'
)
_NEXT_PATTERN: Final = re.compile(r'<(?P<target>[^<>]*)>\s*;\s*rel="?next"?', re.IGNORECASE)
_LIMIT_PATTERN: Final = re.compile(r"(?P<count>[0-9]{1,9})\s*(;\s*w=(?P<window>[0-9]{1,9}))?")
_SECONDS_PATTERN: Final = re.compile(r"[0-9]{1,12}\Z")
MAX_WAIT_SECONDS: Final = 6 * 3600


class RegistryChallenge(Struct, frozen=True):
    """The authentication challenge of a registry."""

    scheme: str
    """`bearer`: a token from the server at `realm`. `basic`: user name and password with each request."""
    realm: str = ""
    service: str = ""
    error: str = ""
    """Why the registry rejected the token that was sent."""

    def token_url(self, scope: str) -> str:
        query = [("service", self.service), ("scope", scope)]
        asked = "&".join(f"{name}={quote(value, safe='')}" for name, value in query if value)
        joint = "&" if urlsplit(self.realm).query else "?"
        return f"{self.realm}{joint}{asked}" if asked else self.realm


class Allowance(Struct, frozen=True):
    """The pull rate limit, as reported by Docker Hub."""

    limit: int
    remaining: int
    window_seconds: int


def read_challenge(header: str) -> RegistryChallenge | None:
    """Returns the first supported challenge in a WWW-Authenticate header; None if there is none."""
    match = _SCHEME_PATTERN.match(header)
    if match is None:
        return None
    parameters = {
        parameter["name"].lower(): parameter["plain"] or re.sub(r"\\(.)", r"\1", parameter["quoted"] or "")
        for parameter in _PARAMETER_PATTERN.finditer(match["rest"] or "")
    }
    scheme = match["scheme"].lower()
    if scheme == "bearer" and not parameters.get("realm"):
        return None
    return RegistryChallenge(
        scheme, parameters.get("realm", ""), parameters.get("service", ""), parameters.get("error", "")
    )


def next_page(header: str, base: str) -> str:
    """Returns the path and query of the next page; empty if there is none at the same registry."""
    match = _NEXT_PATTERN.search(header)
    if match is None:
        return ""
    try:
        target = urlsplit(match["target"])
    except ValueError:
        return ""
    own = urlsplit(base)
    if target.netloc and target.netloc.lower() != own.netloc.lower():
        return ""
    path = target.path if target.path.startswith("/") else f"/v2/{target.path}"
    return f"{path}?{target.query}" if path.startswith("/v2/") else ""


def read_allowance(headers: Mapping[str, str]) -> Allowance | None:
    limit = _LIMIT_PATTERN.match(headers.get("ratelimit-limit", ""))
    remaining = _LIMIT_PATTERN.match(headers.get("ratelimit-remaining", ""))
    if limit is None or remaining is None:
        return None
    return Allowance(int(limit["count"]), int(remaining["count"]), int(limit["window"] or 0))


def wait_of(headers: Mapping[str, str], now: float) -> int:
    """Returns the value of Retry-After in seconds. The header may contain seconds or a Unix time; the default
    is a minute."""
    text = headers.get("retry-after", "") or headers.get("x-retry-after", "")
    if not _SECONDS_PATTERN.match(text):
        return 60
    seconds = int(text) if int(text) < 1_000_000_000 else int(text) - int(now)
    return min(max(seconds, 1), MAX_WAIT_SECONDS)
