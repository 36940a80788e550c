"""Finds the variables that the code of an application reads without a default: it fails without them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from windlass.base.lazy import lazy_pattern

_NAME: Final = r"([A-Z][A-Z0-9_]{1,60}+)"
_READ: Final = lazy_pattern(
    rf"\benviron\[\s*+['\"]{_NAME}['\"]\s*+\](?!\s*+=[^=])"
    rf"|\bENV\.fetch\(\s*+['\"]{_NAME}['\"]\s*+\)(?!\s*+(?:\{{|do\b))"
    rf"|\bfetch_env!\(\s*+\"{_NAME}\"\s*+\)"
    rf"|\bgetOrThrow(?:<\w{{1,12}}+>)?\(\s*+['\"`]{_NAME}['\"`]"
    rf"|\bMustGetenv\(\s*+\"{_NAME}\"\s*+\)"
    rf"|\benv::var\(\s*+\"{_NAME}\"\s*+\)\s*+\.(?:expect|unwrap)\("
)
"""Matches code of Python, Ruby, Elixir, Node, Go and Rust that fails if the variable is not set."""
_OF_DECOUPLE: Final = lazy_pattern(
    rf"\bconfig\(\s*+['\"]{_NAME}['\"]\s*+(?:,\s*+cast\s*+=\s*+\w{{1,30}}+\s*+)?\)"
)
_OF_ENVIRON: Final = lazy_pattern(
    rf"\benv(?:\.(?:str|int|bool|url|list|float))?\(\s*+['\"]{_NAME}['\"]\s*+\)"
)
_SETTINGS: Final = lazy_pattern(r"^class \w{1,60}+\([^)\n]{0,200}BaseSettings[^)\n]{0,200}\):", re.MULTILINE)
_FIELD: Final = lazy_pattern(
    r"^[ \t]{1,8}([A-Za-z]\w{1,60}+)[ \t]*+:[ \t]*+([^=\n#]{1,80}+)(?:#[^\n]*+)?$", re.MULTILINE
)
_END_OF_CLASS: Final = lazy_pattern(r"^\S", re.MULTILINE)
_MAY_BE_NONE: Final = lazy_pattern(r"\bOptional\b|\bNone\b|\bClassVar\b")
_OF_ZOD: Final = lazy_pattern(
    rf"^[ \t]*+{_NAME}:[ \t]*+z\s*+\.(?:string|url|email|coerce)\b([^\n]*+(?:\n[ \t]*+\.[^\n]*+){{0,6}}+)",
    re.MULTILINE,
)
_HAS_DEFAULT: Final = lazy_pattern(r"\.(?:optional|default|nullish|catch)\(|\.enum\(")
_OF_ENVALID: Final = lazy_pattern(
    rf"^[ \t]*+{_NAME}:[ \t]*+(?:str|url|num|port|email|host|bool)\(\s*+\)", re.MULTILINE
)
_ASKED_BEFORE: Final = lazy_pattern(
    rf"['\"]{_NAME}['\"]\s++(?:not\s++)?in\s++(?:os\.)?environ\b"
    rf"|\b(?:environ\.(?:get|setdefault)|getenv|ENV\.key\?|has_key\?)\(\s*+['\"]{_NAME}['\"]"
    rf"|try:[ \t]*+\n[^\n]{{0,200}}?environ\[['\"]{_NAME}['\"]\]"
)
"""Matches code that does without the variable, or sets it."""
_GIVEN: Final = frozenset({
    "PORT", "HOST", "HOSTNAME", "PATH", "HOME", "USER", "PWD", "SHELL", "TERM", "LANG", "TMPDIR", "CI",
    "NODE_ENV", "RAILS_ENV", "RACK_ENV", "MIX_ENV", "PYTHONPATH", "DJANGO_SETTINGS_MODULE", "VIRTUAL_ENV",
})  # fmt: skip


def required_variables(path: str, text: str) -> Iterator[str]:
    """Yields the variables without which this file of code fails."""
    spared = {name for match in _ASKED_BEFORE.finditer(text) for name in match.groups() if name}
    for name in _reads(path, text):
        if name not in spared and name not in _GIVEN and not name.startswith(("WINDLASS_", "npm_")):
            yield name


def _reads(path: str, text: str) -> Iterator[str]:
    for match in _READ.finditer(text):
        yield next(filter(None, match.groups()))
    if path.endswith(".py"):
        if "decouple" in text:
            yield from (match[1] for match in _OF_DECOUPLE.finditer(text))
        if "environ" in text:
            yield from (match[1] for match in _OF_ENVIRON.finditer(text))
        if "env_prefix" not in text:
            yield from _fields_of_settings(text)
    elif path.endswith((".ts", ".js", ".mjs", ".mts", ".cjs")) and "process.env" in text:
        if "createEnv" in text or "z.object" in text:
            found = _OF_ZOD.finditer(text)
            yield from (match[1] for match in found if not _HAS_DEFAULT.search(match[2]))
        if "cleanEnv" in text:
            yield from (match[1] for match in _OF_ENVALID.finditer(text))


def _fields_of_settings(text: str) -> Iterator[str]:
    """Yields the variables of pydantic settings without a default."""
    for begun in _SETTINGS.finditer(text):
        end = _END_OF_CLASS.search(text, begun.end())
        for field in _FIELD.finditer(text, begun.end(), end.start() if end else len(text)):
            if not _MAY_BE_NONE.search(field[2]):
                yield field[1].upper()
