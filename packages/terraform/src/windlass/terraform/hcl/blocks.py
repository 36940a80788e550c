"""Parses blocks and plain values of HCL. Expressions that Terraform would evaluate are refused or skipped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from msgspec import Raw, Struct

from windlass.terraform.hcl.tokens import MAX_DEPTH, HclError, HclToken, TokenKind, tokens_of

Value: TypeAlias = "str | bool | Raw | list[Value] | dict[str, Value] | None"
"""A plain value. Numbers are stored as raw JSON, because they may have any number of digits."""

_LITERALS: Final[dict[str, Value]] = {"true": True, "false": False, "null": None}
_CLOSING_BRACKETS: Final = {"(": ")", "[": "]", "{": "}"}


class Block(Struct, frozen=True):
    """A block with its requested attributes."""

    labels: list[str]
    attributes: dict[str, Value]
    line: int


def read_blocks(text: str, kind: str, attributes: frozenset[str]) -> Iterator[Block]:
    """Yields the blocks of a kind with the requested attributes. Skips everything else."""
    reader = _Reader(text)
    while name := reader.find_name():
        labels = reader.read_labels()
        reader.expect("{")
        if name.text != kind:
            reader.skip_to("}")
            continue
        yield Block(labels, reader.read_attributes(attributes, "}"), name.line)


def read_values(text: str) -> dict[str, Value]:
    """Returns the attributes of a file that contains only attributes."""
    return _Reader(text).read_attributes()


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = tokens_of(text)
        self._here = next(self._tokens)

    def _next_token(self) -> HclToken:
        token = self._here
        if token.kind is not TokenKind.END:
            self._here = next(self._tokens)
        return token

    def _skip_newlines(self) -> None:
        while self._here.kind is TokenKind.NEWLINE:
            self._next_token()

    def _take_mark(self, *marks: str) -> bool:
        is_here = self._here.is_mark(*marks)
        if is_here:
            self._next_token()
        return is_here

    def _ends(self, closing_token: str) -> bool:
        """Skips empty lines. Skips the closing mark if it is next, and returns whether it was."""
        self._skip_newlines()
        return self._take_mark(closing_token)

    def expect(self, token: str) -> None:
        if not self._take_mark(token):
            raise self._error_here(f"a {token} is missing")

    def _error_here(self, reason: str) -> HclError:
        return HclError(reason, self._here.line)

    def find_name(self) -> HclToken | None:
        """Returns the next name, or None at the end of the text."""
        self._skip_newlines()
        if self._here.kind is TokenKind.END:
            return None
        token = self._next_token()
        if token.kind is not TokenKind.NAME:
            raise HclError("a block or an attribute must begin with a name", token.line)
        return token

    def read_labels(self) -> list[str]:
        labels: list[str] = []
        while self._here.kind in (TokenKind.NAME, TokenKind.TEXT):
            labels.append(self._next_token().text)
        return labels

    def skip_to(self, closing_token: str) -> None:
        """Skips all tokens up to and including the closing mark."""
        begun, awaited = self._here.line, [closing_token]
        while awaited:
            token = self._next_token()
            if token.kind is TokenKind.END:
                raise HclError(f"a {awaited[-1]} is missing", begun)
            if token.kind is TokenKind.MARK:
                if token.text == awaited[-1]:
                    awaited.pop()
                elif token.text in _CLOSING_BRACKETS:
                    awaited.append(_CLOSING_BRACKETS[token.text])
                elif token.text in _CLOSING_BRACKETS.values():
                    raise HclError(f"a {awaited[-1]} is missing", token.line)

    def read_attributes(
        self, only_names: frozenset[str] | None = None, closing_token: str = ""
    ) -> dict[str, Value]:
        """Reads attributes up to the closing mark or the end of the text. With `only_names`, skips blocks and
        all other attributes."""
        attributes: dict[str, Value] = {}
        while not self._ends(closing_token):
            name = self.find_name()
            if name is None:
                if closing_token:
                    raise self._error_here(f"a {closing_token} is missing")
                break
            if name.text in attributes:
                raise HclError(f"{name.text} is there twice", name.line)
            if self._take_mark("="):
                if only_names is None or name.text in only_names:
                    attributes[name.text] = self._read_value(name.text)
                else:
                    self._skip_expression()
                self._end_line(closing_token)
            elif only_names is None:
                raise HclError(f"{name.text} must have a = and a value", name.line)
            else:
                self.read_labels()
                self.expect("{")
                self.skip_to("}")
        return attributes

    def _end_line(self, closing_token: str) -> None:
        here = self._here
        is_end = here.kind in (TokenKind.NEWLINE, TokenKind.END) or (
            closing_token and here.is_mark(closing_token)
        )
        if not is_end:
            raise self._error_here("there is more than a plain value: write its result instead")

    def _skip_expression(self) -> None:
        while self._here.kind not in (TokenKind.NEWLINE, TokenKind.END) and not self._here.is_mark("}"):
            token = self._next_token()
            if token.kind is TokenKind.MARK and token.text in _CLOSING_BRACKETS:
                self.skip_to(_CLOSING_BRACKETS[token.text])

    def _read_value(self, name: str, depth: int = 0) -> Value:
        if depth > MAX_DEPTH:
            raise self._error_here(f"the value of {name} is nested too deeply")
        token = self._next_token()
        match token.kind:
            case TokenKind.TEXT:
                return token.text
            case TokenKind.NUMBER:
                return _number(token.text)
            case TokenKind.NAME if token.text in _LITERALS and not self._here.is_mark("(", ".", "["):
                return _LITERALS[token.text]
            case TokenKind.MARK if token.text == "-" and self._here.kind is TokenKind.NUMBER:
                return _number(self._next_token().text, "-")
            case TokenKind.MARK if token.text == "[":
                return self._read_list(name, depth)
            case TokenKind.MARK if token.text == "{":
                return self._read_object(name, depth)
        raise HclError(f"the value of {name} is no plain value: write its result instead", token.line)

    def _read_list(self, name: str, depth: int) -> list[Value]:
        values: list[Value] = []
        while not self._ends("]"):
            values.append(self._read_value(name, depth + 1))
            self._skip_newlines()
            if not self._here.is_mark("]"):
                self.expect(",")
        return values

    def _read_object(self, name: str, depth: int) -> dict[str, Value]:
        values: dict[str, Value] = {}
        while not self._ends("}"):
            key = self._next_token()
            if key.kind not in (TokenKind.NAME, TokenKind.TEXT, TokenKind.NUMBER):
                raise HclError(f"a key in the value of {name} is no plain value", key.line)
            if not self._take_mark("=", ":"):
                raise self._error_here(f"a = is missing in the value of {name}")
            values[key.text] = self._read_value(name, depth + 1)
            if not (self._here.is_mark("}") or self._here.kind is TokenKind.NEWLINE):
                self.expect(",")
        return values


def _number(text: str, sign: str = "") -> Raw:
    """Returns the number as JSON, which does not allow leading zeros."""
    digits = text.lstrip("0")
    return Raw(sign + (digits if digits[:1].isdecimal() else f"0{digits}"))
