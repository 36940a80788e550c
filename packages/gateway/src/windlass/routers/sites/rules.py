"""Parses the files `_redirects` and `_headers` in Netlify's format. Pure.

An invalid line is skipped and reported in the build log; the rest of the site is published. The files are
untrusted, so that their size and number of rules are limited.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from windlass.base.http_in.own_headers import GATEWAY_HEADERS
from windlass.base.lazy import lazy_pattern
from windlass.routers.sites.patterns import PathPattern

MAX_RULES_BYTES: Final = 256 * 1024
MAX_REDIRECTS, MAX_PATTERNS = 2000, 100
MAX_HEADER_RULES, MAX_FIELDS = 200, 50
MAX_PROBLEMS: Final = 10
_MAX_LINE_LENGTH: Final = 2000
_STATUSES: Final = frozenset({200, 301, 302, 303, 307, 308, 404, 410})
_NAME_PATTERN: Final = lazy_pattern(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE_PATTERN: Final = lazy_pattern(r"[\t\x20-\x7e\x80-\xff]*")
_TARGET_PATTERN: Final = lazy_pattern(r"(?:/|https?://[^/?#]+)[^\x00-\x20\x7f]*")
_HOST_PATTERN: Final = lazy_pattern(r"https?://[^/?#:@]+(?::[0-9]+)?(?=[/?#]|\Z)")
"""A target host without placeholders. With a placeholder, the request could choose the host (an open
redirect)."""
_PATH_PATTERN: Final = lazy_pattern(r"/[^\x00-\x20\x7f]*")


class HeaderRule(Struct, frozen=True, array_like=True):
    """Response headers for the paths that match a pattern."""

    path: str
    fields: tuple[tuple[str, str], ...]


class Redirect(Struct, frozen=True, array_like=True):
    """A redirect for the paths that match a pattern. With status 200 or an error status, the target page is
    served at these paths instead."""

    path: str
    target: str
    status: int = 301
    force: bool = False
    """Whether the redirect applies even if a file exists at the path."""

    @property
    def moves(self) -> bool:
        return 300 <= self.status < 400


class ParsedRules(Struct, frozen=True):
    redirects: tuple[Redirect, ...] = ()
    headers: tuple[HeaderRule, ...] = ()
    problems: tuple[str, ...] = ()


def field_problem(name: str, value: str) -> str:
    """Returns why a header is not allowed in answers; empty if it is allowed."""
    if not _NAME_PATTERN.fullmatch(name):
        return f"{name!r} is no name of a field"
    if name.lower() in GATEWAY_HEADERS:
        return f"the router writes the field {name} by itself"
    if not _VALUE_PATTERN.fullmatch(value):
        return f"the value of {name} has characters that no field may have"
    return ""


def parse_redirects(text: str) -> ParsedRules:
    redirects: list[Redirect] = []
    problems: list[str] = []
    patterns = 0
    for number, line in _rule_lines(text):
        redirect = _parse_redirect(line)
        if isinstance(redirect, str):
            problems.append(f"_redirects, line {number}: {redirect}. It is left out")
            continue
        patterns += not PathPattern(redirect.path).is_plain
        if len(redirects) == MAX_REDIRECTS or patterns > MAX_PATTERNS:
            problems.append(
                f"_redirects, line {number}: it and all that follow are left out; write at most "
                f"{MAX_REDIRECTS} redirects, {MAX_PATTERNS} of them with * or :name"
            )
            break
        redirects.append(redirect)
    return ParsedRules(redirects=tuple(redirects), problems=tuple(problems[:MAX_PROBLEMS]))


def _parse_redirect(line: str) -> Redirect | str:
    """Parses a line. Returns the redirect, or a description of the problem."""
    words = line.split()
    if len(words) < 2 or len(line) > _MAX_LINE_LENGTH:
        return "write a path, a target and perhaps a status, such as /old /new 301"
    path, target, *rest = words
    if not _PATH_PATTERN.fullmatch(path) or path.count("*") > 1:
        return "begin it with a path that has one * at most: redirects of hosts are not supported"
    if not _TARGET_PATTERN.fullmatch(target):
        return "write a path or an address after the path: conditions on the query are not supported"
    if not target.startswith("/") and not _HOST_PATTERN.match(target):
        return "write the host of the target without names and logins, and a / after it"
    if len(rest) > 1:
        return "end it after the status: conditions are not supported"
    word = rest[0] if rest else "301"
    status = word.removesuffix("!")
    if not status.isdecimal() or int(status) not in _STATUSES:
        return f"use one of the statuses {', '.join(map(str, sorted(_STATUSES)))}"
    redirect = Redirect(path, target, int(status), word.endswith("!"))
    if not redirect.moves and not target.startswith("/"):
        return "use a status from 301 to 308: content of other servers is not passed on"
    return redirect


def parse_headers(text: str) -> ParsedRules:
    rules: list[HeaderRule] = []
    problems: list[str] = []
    path, fields = "", dict[str, tuple[str, str]]()

    def end() -> None:
        if path and fields:
            rules.append(HeaderRule(path, tuple(fields.values())))

    for number, line in _rule_lines(text, indented=True):
        if line[0] not in " \t":
            end()
            path, fields = line.strip(), {}
            if len(rules) == MAX_HEADER_RULES:
                path = ""
                problems.append(
                    f"_headers, line {number}: it and all that follow are left out; write at most "
                    f"{MAX_HEADER_RULES} paths"
                )
                break
            if not _PATH_PATTERN.fullmatch(path) or path.count("*") > 1:
                path = ""
                problems.append(
                    f"_headers, line {number}: begin it with a path that has one * at most. It is left out"
                )
        elif path and (problem := _add_field(fields, line.strip())):
            problems.append(f"_headers, line {number}: {problem}. It is left out")
    end()
    return ParsedRules(headers=tuple(rules), problems=tuple(problems[:MAX_PROBLEMS]))


def _add_field(fields: dict[str, tuple[str, str]], line: str) -> str:
    """Parses a header line and adds the header to `fields`. Returns a description of the problem; empty if
    there is none."""
    name, colon, value = (part.strip() for part in line.partition(":"))
    if not colon or len(line) > _MAX_LINE_LENGTH:
        return "write a name, a colon and a value"
    if problem := field_problem(name, value):
        return problem
    if len(fields) >= MAX_FIELDS:
        return f"write at most {MAX_FIELDS} fields for a path"
    key = name.lower()
    fields[key] = (name, f"{fields[key][1]}, {value}" if key in fields else value)
    return ""


def _rule_lines(text: str, *, indented: bool = False) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line.rstrip() if indented else line.strip()
