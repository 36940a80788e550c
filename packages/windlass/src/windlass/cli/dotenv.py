"""Reads files of `NAME=value` lines, as .env files are written. Nothing in a value is expanded."""

from __future__ import annotations

import re
from typing import Final

from windlass.terminal.stopped import Misused

_NAME: Final = re.compile(r"(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_.-]*)\s*=[^\S\n]*")
_BARE: Final = re.compile(r"[^\n]*")
_SINGLE: Final = re.compile(r"'(?P<text>[^']*)'[^\S\n]*(?:#[^\n]*)?(?=\n|\Z)")
_DOUBLE: Final = re.compile(r'"(?P<text>(?:[^"\\]|\\.)*)"[^\S\n]*(?:#[^\n]*)?(?=\n|\Z)', re.DOTALL)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$", "`": "`"}


def parse_dotenv(text: str, source: str) -> dict[str, str]:
    """Returns the variables of a text; the last line of a name wins. `source` names it in messages."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    values: dict[str, str] = {}
    place = 0
    while place < len(text):
        blank = re.compile(r"[^\S\n]*(?:#[^\n]*)?(?:\n|\Z)").match(text, place)
        if blank and blank.end() > place:
            place = blank.end()
            continue
        place += len(text[place:]) - len(text[place:].lstrip(" \t"))
        head = _NAME.match(text, place)
        if head is None:
            line = text.count("\n", 0, place) + 1
            raise Misused(f"{source}: fix line {line}: it must be like NAME=value")
        values[head["name"]], place = _value(text, head.end(), source)
    return values


def _value(text: str, start: int, source: str) -> tuple[str, int]:
    """Returns the value that begins here, and the place after it."""
    mark = text[start : start + 1]
    if mark in ("'", '"'):
        quoted = (_SINGLE if mark == "'" else _DOUBLE).match(text, start)
        if quoted is None:
            line = text.count("\n", 0, start) + 1
            raise Misused(f"{source}: fix line {line}: the quote {mark} is not closed, or text follows it")
        inner = quoted["text"]
        return (inner if mark == "'" else _unescape(inner)), quoted.end()
    bare = _BARE.match(text, start)
    assert bare is not None, "it matches the empty text, too"
    return re.sub(r"(?<!\s)\s+#.*", "", bare[0]).strip(), bare.end()


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), text, flags=re.DOTALL)
