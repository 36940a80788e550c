"""Writes the configuration language of Terraform (HCL). Pure.

A value from outside is written as a quoted string, and cannot leave it: quotes, line breaks and the
beginnings of templates are escaped. Only an `Expression` is written as it is, and only this product makes
them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Final, NamedTuple

from windlass.base.lazy import lazy_pattern

_INDENT: Final = "  "
_ESCAPES: Final = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
# A `$` or `%` before a brace begins a template, and `$${` stands for `${`. A longer run of these characters
# is ambiguous, so that each of them is written by its number.
_TO_ESCAPE_PATTERN: Final = lazy_pattern(
    r'[\\"\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]|(?<!\$)\$++(?=\{)|(?<!%)%++(?=\{)|(?<![$%])[$%]++\Z'
)
_IDENTIFIER_PATTERN: Final = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_IN_NAMES_PATTERN: Final = lazy_pattern(r"[^a-z0-9]+")
MAX_IDENTIFIER_LENGTH: Final = 60
"""Maximum length of an identifier before a number is appended that makes it unique."""
_MAX_COMMENT_LENGTH: Final = 200


class Expression(NamedTuple):
    """An expression of the language, such as `var.cluster_id`."""

    text: str


class Template(NamedTuple):
    """A string of texts and of expressions, whose values are inserted."""

    parts: tuple[str | Expression, ...]


class JsonCode(NamedTuple):
    """An object that the provider takes as JSON."""

    fields: dict[str, Any]


def quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return _TO_ESCAPE_PATTERN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    found = match[0]
    if found in _ESCAPES:
        return _ESCAPES[found]
    if found in "$%" and match.end() < len(match.string):
        return found * 2
    return "".join(f"\\u{ord(character):04x}" for character in found)


def block(kind: str, labels: Iterable[str], body: Mapping[str, Any], notes: Iterable[str] = ()) -> str:
    """Returns a block, after comments of one line each."""
    head = " ".join([kind, *(f'"{label}"' for label in labels)])
    lines = [f"{comment(note)}\n" for note in notes]
    return f"{''.join(lines)}{head} {{\n{_attributes(body, _INDENT)}}}\n"


def comment(text: str) -> str:
    """Returns a comment, which ends with its line whatever is in the text."""
    shown = json.dumps(text)[1:-1].replace('\\"', '"').replace("\\\\", "\\")
    return f"# {shown}"


def shortened(value: object) -> str:
    """Returns a value for a comment."""
    text = json.dumps(value)
    return text if len(text) <= _MAX_COMMENT_LENGTH else f"{text[:_MAX_COMMENT_LENGTH]} …"


def _attributes(fields: Mapping[str, Any], indent: str) -> str:
    lines = [(_key(name), _value(value, indent)) for name, value in fields.items()]
    widths = _widths([(len(name), "\n" in value) for name, value in lines])
    return "".join(
        f"{indent}{name:{width}} = {value}\n" for (name, value), width in zip(lines, widths, strict=True)
    )


def _widths(names: list[tuple[int, bool]]) -> list[int]:
    """Returns the widths of the names so that the signs of a run of short attributes are below each other, as
    Terraform formats them. A value of several lines ends a run, and stands alone."""
    widths = []
    for is_long, run in groupby(names, key=lambda name: name[1]):
        lengths = [length for length, _ in run]
        widths += lengths if is_long else [max(lengths)] * len(lengths)
    return widths


def _key(name: str) -> str:
    # `for` begins an expression.
    return name if _IDENTIFIER_PATTERN.fullmatch(name) and name != "for" else quoted(name)


def _value(value: Any, indent: str) -> str:
    deeper = indent + _INDENT
    match value:
        case Expression(text):
            return text
        case Template(parts):
            return f'"{"".join(map(_part, parts))}"'
        case JsonCode(fields):
            return f"jsonencode({_value(fields, indent)})"
        case str():
            return quoted(value)
        case bool() | int() | float() | None:
            return json.dumps(value)
        case dict():
            return f"{{\n{_attributes(value, deeper)}{indent}}}" if value else "{}"
        case list() | tuple() if any(isinstance(item, dict) for item in value):
            items = "".join(f"{deeper}{_value(item, deeper)},\n" for item in value)
            return f"[\n{items}{indent}]"
        case list() | tuple():
            return f"[{', '.join(_value(item, indent) for item in value)}]"
    raise TypeError(f"{type(value).__name__} has no form in HCL")


def _part(part: str | Expression) -> str:
    return f"${{{part.text}}}" if isinstance(part, Expression) else _escaped(part)


class Identifiers:
    """Makes identifiers that are valid and unique."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}
        """The last number used for each prefix, so that many equal prefixes do not try all numbers again."""

    def make(self, text: str, otherwise: str) -> str:
        """Returns an identifier that resembles a text. `otherwise`: the beginning if the text gives none."""
        plain = _NOT_IN_NAMES_PATTERN.sub("_", text.lower()).strip("_")[:MAX_IDENTIFIER_LENGTH]
        first = plain if plain[:1].isalpha() else f"{otherwise}_{plain}".rstrip("_")
        found, number = first, self._numbers.get(first, 1)
        while found in self._taken:
            number += 1
            found = f"{first}_{number}"
        self._numbers[first] = number
        self._taken.add(found)
        return found
