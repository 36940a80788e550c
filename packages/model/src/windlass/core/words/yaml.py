"""Writes documents of YAML from mappings, lists and scalars. Pure.

A text from outside is written in double quotes unless it is a plain word, and cannot leave them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from windlass.base.lazy import lazy_pattern
from windlass.core.words.hcl import comment

__all__ = ["comment", "documents"]

_INDENT: Final = "  "
# Words that every version of YAML reads as texts: no numbers, booleans, nulls or times.
_PLAIN_PATTERN: Final = lazy_pattern(r"[A-Za-z][A-Za-z0-9_./-]*(:[A-Za-z0-9_./-]+)?")
_OTHER_SCALARS: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})
# JSON escapes control characters; YAML takes some others only by their numbers.
_UNPRINTABLE_PATTERN: Final = lazy_pattern("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def documents(values: Iterable[Mapping[str, object]]) -> str:
    """Returns the documents of a file, each after a line `---`. None is empty, and no list is in another
    list."""
    return "".join("---\n" + "\n".join(_mapping(value, "")) + "\n" for value in values)


def _mapping(value: Mapping[str, object], indent: str) -> list[str]:
    lines: list[str] = []
    for key, item in value.items():
        name = f"{indent}{_scalar(key)}:"
        if isinstance(item, Mapping) and item:
            lines += [name, *_mapping(item, indent + _INDENT)]
        elif isinstance(item, list | tuple) and item:
            lines += [name, *_sequence(item, indent)]
        else:
            lines.append(f"{name} {_scalar(item)}")
    return lines


def _sequence(items: Sequence[object], indent: str) -> list[str]:
    lines: list[str] = []
    for item in items:
        inner = indent + _INDENT
        if isinstance(item, Mapping) and item:
            first, *rest = _mapping(item, inner)
            lines += [f"{indent}- {first.removeprefix(inner)}", *rest]
        else:
            lines.append(f"{indent}- {_scalar(item)}")
    return lines


def _scalar(value: object) -> str:
    if isinstance(value, str):
        is_plain = _PLAIN_PATTERN.fullmatch(value) and value.lower() not in _OTHER_SCALARS
        return value if is_plain else _quoted(value)
    if (
        value is None
        or isinstance(value, bool | int)
        or (isinstance(value, Mapping | list | tuple) and not value)
    ):
        return json.dumps(value)
    raise TypeError(f"{type(value).__name__} cannot be written as YAML")


def _quoted(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)
    return _UNPRINTABLE_PATTERN.sub(lambda match: f"\\u{ord(match[0]):04x}", written)
