"""Splits HCL into tokens. The number of tokens and the run time are linear in the length of the text, and the
nesting depth is limited."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Final

from msgspec import Struct

MAX_DEPTH: Final = 32
"""The maximum nesting depth of templates, lists and objects."""

_MAX_ERROR_LENGTH: Final = 200
"""Maximum characters of an error message."""

_TOKEN_PATTERN: Final = re.compile(
    r"""
    (?P<blank>[ \t\r]+ | (?:\#|//)[^\n]*)
  | (?P<newline>\n)
  | (?P<comment>/\*)
  | (?P<quote>")
  | (?P<heredoc><<(?P<indented>-?)(?P<marker>[^\W\d][\w-]*)\r?\n)
  | (?P<name>[^\W\d][\w-]*)
  | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
  | (?P<mark>==|=>|!=|<=|>=|&&|\|\||\.\.\.|[{}\[\]().,:=?!<>+*/%-])
    """,
    re.VERBOSE,
)
_PIECE_PATTERN: Final = re.compile(
    r"""
    (?P<plain>[^"\\$%\n]+ | \$(?!\$?\{) | %(?!%?\{))
  | (?P<doubled>\$\$\{ | %%\{)
  | (?P<template>[$%]\{)
  | (?P<escape>\\(?:[nrt"\\] | u[0-9A-Fa-f]{4} | U[0-9A-Fa-f]{8}))
  | (?P<quote>")
    """,
    re.VERBOSE,
)
"""A piece of a quoted string."""
_TEMPLATE_BELOW_PATTERN: Final = re.compile(r"(?<!\$)\$\{|(?<!%)%\{")
_DOUBLED_PATTERN: Final = re.compile(r"([$%])\1\{")
_STRING_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}


class HclError(Exception):
    """Raised if a text is not valid HCL or uses unsupported features. The message contains the place but no
    values."""

    def __init__(self, reason: str, line: int = 0, file: str = "") -> None:
        place = ", ".join(filter(None, (file, f"line {line}" if line else "")))
        self.reason, self.line = _shorten(reason), line
        super().__init__(f"{place}: {self.reason}" if place else self.reason)

    def of_file(self, name: str) -> HclError:
        """Returns the same error with the name of its file."""
        return HclError(self.reason, self.line, name)


def _shorten(reason: str) -> str:
    """Shortens an error message and replaces unprintable characters. The message may contain names of any
    length."""
    return "".join(sign if sign.isprintable() else "�" for sign in reason[:_MAX_ERROR_LENGTH])


def _unindent(text: str) -> str:
    """Removes the smallest common indentation from all lines, ignoring blank lines. A tab counts as one
    character."""
    lines = text.split("\n")
    indents = [len(line) - len(line.lstrip(" \t")) for line in lines if not _is_blank(line)]
    least = min(indents, default=0)
    return "\n".join(line if _is_blank(line) else line[least:] for line in lines)


def _is_blank(line: str) -> bool:
    return not line.strip(" \t\r")


class TokenKind(Enum):
    NAME = "name"
    NUMBER = "number"
    TEXT = "text"
    TEMPLATE = "template"
    """A string with parts that Terraform evaluates."""
    MARK = "mark"
    NEWLINE = "newline"
    END = "end"


class HclToken(Struct, frozen=True, gc=False):
    kind: TokenKind
    text: str
    line: int

    def is_mark(self, *marks: str) -> bool:
        return self.kind is TokenKind.MARK and self.text in marks


def tokens_of(text: str) -> Iterator[HclToken]:
    """Yields the tokens of a text. The last token has the kind END."""
    scanner = _Scanner(text)
    yield from scanner.read()
    yield HclToken(TokenKind.END, "", scanner.line)


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.line = 1

    def read(self, depth: int = 0) -> Iterator[HclToken]:
        """Yields the tokens up to the end of the text or, in a template, up to its closing brace."""
        if depth > MAX_DEPTH:
            raise HclError("templates are nested too deeply", self.line)
        begun, open_braces = self.line, 0
        while token := self._next(depth):
            if token.is_mark("{"):
                open_braces += 1
            elif token.is_mark("}"):
                open_braces -= 1
                if depth and open_braces < 0:
                    return
            yield token
        if depth:
            raise HclError("a template has no end", begun)

    def _next(self, depth: int) -> HclToken | None:
        """Returns the next token, or None at the end of the text."""
        while self._at < len(self._text):
            match = _TOKEN_PATTERN.match(self._text, self._at)
            if match is None:
                raise HclError("this is no HCL", self.line)
            self._at = match.end()
            match match.lastgroup:
                case "blank":
                    continue
                case "comment":
                    self._skip_comment()
                case "newline":
                    self.line += 1
                    return HclToken(TokenKind.NEWLINE, "", self.line - 1)
                case "quote":
                    return self._read_quoted(depth)
                case "heredoc":
                    return self._read_heredoc(match["marker"], bool(match["indented"]))
                case kind:
                    return HclToken(TokenKind(kind), match[0], self.line)
        return None

    def _skip_comment(self) -> None:
        end = self._text.find("*/", self._at)
        if end < 0:
            raise HclError("a comment has no end", self.line)
        self.line += self._text.count("\n", self._at, end)
        self._at = end + 2

    def _read_quoted(self, depth: int) -> HclToken:
        line, kind, parts = self.line, TokenKind.TEXT, list[str]()
        while match := _PIECE_PATTERN.match(self._text, self._at):
            self._at = match.end()
            match match.lastgroup:
                case "quote":
                    return HclToken(kind, "".join(parts), line)
                case "template":
                    kind = TokenKind.TEMPLATE
                    for _ in self.read(depth + 1):
                        pass
                case "escape":
                    parts.append(self._unescape(match[0]))
                case "doubled":
                    parts.append(match[0][1:])
                case _:
                    parts.append(match[0])
        raise HclError("a text in quotes has no end, or an escape that is none", line)

    def _unescape(self, escape: str) -> str:
        if plain := _STRING_ESCAPES.get(escape[1]):
            return plain
        point = int(escape[2:], 16)
        if point > 0x10FFFF or 0xD800 <= point <= 0xDFFF:
            raise HclError(f"{escape} is no character", self.line)
        return chr(point)

    def _read_heredoc(self, marker: str, indented: bool) -> HclToken:
        line = self.line
        content = self._up_to(marker)
        kind = TokenKind.TEMPLATE if _TEMPLATE_BELOW_PATTERN.search(content) else TokenKind.TEXT
        content = _DOUBLED_PATTERN.sub(r"\1{", content)
        return HclToken(kind, _unindent(content) if indented else content, line)

    def _up_to(self, marker: str) -> str:
        """Returns the lines before the line with only the marker, and moves to the end of the marker's
        line."""
        begin = start = self._at
        while start < len(self._text):
            self.line += 1
            end = self._text.find("\n", start)
            end = len(self._text) if end < 0 else end
            if self._text[start:end].strip(" \t\r") == marker:
                self._at = end
                return self._text[begin:start]
            start = end + 1
        raise HclError(f"the text up to {marker} has no end", self.line)
