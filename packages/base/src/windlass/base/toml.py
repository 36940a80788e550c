"""Parses untrusted TOML in time proportional to its length. Reports all errors as ValueError."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

MAX_LENGTH: Final = 256 * 1024
"""The maximum number of characters. The running time of `tomllib` is quadratic for some files."""
MAX_KEY_PARTS: Final = 40
"""The maximum number of parts of a key; `tool.poetry.name` has three."""
# An unquoted part matches only at its beginning; otherwise the search in a long word would take hours. The
# bound of a quoted part limits the search if a quote is not closed.
_PART: Final = r"""(?:(?<![\w-])[\w-]++|"(?:[^"\\\n]|\\.){0,60}"|'[^'\n]{0,60}+')"""
_LONG_KEY_PATTERN: Final = re.compile(rf"(?:{_PART}[ \t]*+\.[ \t]*+){{{MAX_KEY_PARTS}}}")


def parse_toml(text: str) -> dict[str, Any]:
    """Parses TOML. Raises ValueError.

    The running time of `tomllib` is quadratic in the number of a key's parts: a key as long as a file would
    take hours. Therefore, texts with a long key are refused, and texts with a value that looks like one.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"it is longer than {MAX_LENGTH >> 10} KiB")
    if _LONG_KEY_PATTERN.search(text):
        raise ValueError(f"a key has more than {MAX_KEY_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
