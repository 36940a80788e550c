"""Expands variables by the rules of Dockerfiles: quotes, escapes, `$NAME` and `${NAME:-otherwise}`.

The syntax resembles a shell's, but nothing is executed, and only a few forms are supported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

MAX_DEPTH: Final = 20
MAX_WORD_LENGTH: Final = 128 * 1024
"""Maximum length of an expanded word, in characters: a few words that double each other would exhaust the
memory."""

_NAME_PATTERN = re.compile(r"[^\W\d]\w*|\d+|[@*#?$!-]")


class BadWord(ValueError):
    """Raised if a word cannot be parsed. The message contains the reason."""


def words(text: str, escape: str) -> list[str]:
    """Splits a text at blanks outside quotes. Keeps quotes and escapes, which `substitute` removes."""
    names: list[str] = []
    word, quote, place = "", "", 0
    begun = False
    while place < len(text):
        sign = text[place]
        if not quote and sign.isspace():
            if begun:
                names.append(word)
            word, begun = "", False
        else:
            begun = True
            if sign == escape and quote != "'":
                if place + 1 == len(text):
                    break
                word += sign
                place += 1
                sign = text[place]
            elif sign == quote:
                quote = ""
            elif not quote and sign in "'\"":
                quote = sign
            word += sign
        place += 1
    if begun and word:
        names.append(word)
    return names


def substitute(text: str, variables: Mapping[str, str], escape: str) -> str:
    """Replaces variables by their values, and removes quotes and escapes."""
    reading = _Substitution(text, variables, escape)
    value = reading.until("")
    if reading.place < len(text):
        raise BadWord("cannot be read to its end")
    return value


class _Substitution:
    def __init__(self, text: str, variables: Mapping[str, str], escape: str) -> None:
        self._text = text
        self._variables = variables
        self._escape = escape
        self._deep = 0
        self.place = 0

    def until(self, stop: str, *, raw: bool = False) -> str:
        parts: list[str] = []
        size = 0
        while self.place < len(self._text):
            sign = self._text[self.place]
            if stop and sign == stop:
                self.place += 1
                return "".join(parts)
            parts.append(self._piece(sign, raw=raw))
            size += len(parts[-1])
            if size > MAX_WORD_LENGTH:
                raise BadWord("becomes too long")
        if stop:
            raise BadWord(f"has no closing {stop}")
        return "".join(parts)

    def _piece(self, character: str, *, raw: bool) -> str:
        if character == "$":
            return self._dollar()
        if character == "'":
            return self._single()
        if character == '"':
            return self._double()
        self.place += 1
        if character == self._escape:
            following = self._text[self.place : self.place + 1]
            self.place += 1
            return (character if raw else "") + following
        return character

    def _single(self) -> str:
        end = self._text.find("'", self.place + 1)
        if end < 0:
            raise BadWord("has no closing '")
        inside = self._text[self.place + 1 : end]
        self.place = end + 1
        return inside

    def _double(self) -> str:
        self.place += 1
        parts: list[str] = []
        while (sign := self._peek()) != '"':
            if not sign:
                raise BadWord('has no closing "')
            if sign == "$":
                parts.append(self._dollar())
                continue
            self.place += 1
            if sign == self._escape:
                following = self._peek()
                if following and following in f'"${self._escape}':
                    self.place += 1
                    sign = following
            parts.append(sign)
        self.place += 1
        return "".join(parts)

    def _dollar(self) -> str:
        self.place += 1
        if self._peek() == "{":
            self.place += 1
            self._deep += 1
            if self._deep > MAX_DEPTH:
                raise BadWord("has variables within variables, too deep to follow")
            try:
                return self._braces()
            finally:
                self._deep -= 1
        name = self._name()
        return self._variables.get(name, "") if name else "$"

    def _braces(self) -> str:
        name = self._name()
        if not name:
            raise BadWord("has a ${ without the name of a variable")
        value = self._variables.get(name)
        how = self._next_sign()
        if how == "}":
            return value or ""
        if how == ":" and (how := self._next_sign()) in "-+?" and how:
            return self._choose(name, value or None, how, "empty")
        if how and how in "-+?":
            return self._choose(name, value, how, "unset")
        if how and how in "#%" and self._text[self.place - 2] != ":":
            return _trim(value or "", how, self.until("}", raw=True))
        raise BadWord(f"has no closing }}, or ${{{name} continues in an unknown way")

    def _choose(self, name: str, value: str | None, how: str, what: str) -> str:
        other = self.until("}")
        if how == "+":
            return "" if value is None else other
        if value is None and how == "?":
            raise BadWord(f"needs {name}: {other or f'it must not be {what}'}")
        return other if value is None else value

    def _name(self) -> str:
        name = _NAME_PATTERN.match(self._text, self.place)
        self.place = name.end() if name else self.place
        return name[0] if name else ""

    def _next_sign(self) -> str:
        sign = self._peek()
        self.place += 1
        return sign

    def _peek(self) -> str:
        return self._text[self.place : self.place + 1]


def _trim(value: str, how: str, pattern: str) -> str:
    """Returns the value without the shortest (`#`, `%`) or longest (`##`, `%%`) matching prefix or suffix."""
    signs = _signs(pattern.removeprefix(how))
    ends = _match_ends(signs, value) if how == "#" else _match_ends(signs[::-1], value[::-1])
    if not ends:
        return value
    length = ends[-1] if pattern.startswith(how) else ends[0]
    return value[length:] if how == "#" else value[: len(value) - length]


def _signs(pattern: str) -> list[str]:
    """Splits a pattern into tokens: `*`, `?`, and literal characters, which are prefixed with a dot."""
    parts: list[str] = []
    place = 0
    while place < len(pattern):
        escaped = pattern[place] == "\\" and place + 1 < len(pattern)
        place += escaped
        plain = escaped or pattern[place] not in "*?"
        parts.append(f".{pattern[place]}" if plain else pattern[place])
        place += 1
    return parts


def _match_ends(pattern_parts: list[str], value: str) -> list[int]:
    """Returns the end positions of all matches of a pattern, without backtracking."""
    positions: list[int] = []
    here = _spread(pattern_parts, {0})
    for place in range(len(value) + 1):
        if len(pattern_parts) in here:
            positions.append(place)
        if place == len(value) or not here:
            break
        here = _spread(
            pattern_parts, {_next(pattern_parts, at) for at in here if _fits(pattern_parts, at, value[place])}
        )
    return positions


def _next(pattern_parts: list[str], position: int) -> int:
    return position if pattern_parts[position] == "*" else position + 1


def _fits(pattern_parts: list[str], position: int, character: str) -> bool:
    return position < len(pattern_parts) and pattern_parts[position] in ("*", "?", f".{character}")


def _spread(pattern_parts: list[str], indexes: set[int]) -> set[int]:
    """Adds the positions after stars, because a star also matches an empty text."""
    for at in list(indexes):
        while at < len(pattern_parts) and pattern_parts[at] == "*":
            at += 1
            indexes.add(at)
    return indexes
