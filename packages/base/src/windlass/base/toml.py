"""Parses untrusted TOML in time that grows with its length, and with one kind of error."""

from __future__ import annotations

import re
import tomllib
from typing import Any, Final

LONGEST: Final = 256 * 1024
"""Most characters: the time of `tomllib` grows with the square of the tables and keys of some files."""
MOST_PARTS: Final = 40
"""Maximum number of parts of one key, such as the three of `tool.poetry.name`."""
# A bare part is looked for at its beginning only: from each letter of a long word, a search takes hours.
# The bound of a quoted part keeps it short where quotes are not closed.
_PART: Final = r"""(?:(?<![\w-])[\w-]++|"(?:[^"\\\n]|\\.){0,60}"|'[^'\n]{0,60}+')"""
_LONG_KEY: Final = re.compile(rf"(?:{_PART}[ \t]*+\.[ \t]*+){{{MOST_PARTS}}}")


def parse_toml(text: str) -> dict[str, Any]:
    """Raises ValueError. The time that `tomllib` takes grows with the square of the parts of a key: to hours
    for one that fills a file. So a long key is refused, and a value that looks like one."""
    if len(text) > LONGEST:
        raise ValueError(f"it is longer than {LONGEST >> 10} KiB")
    if _LONG_KEY.search(text):
        raise ValueError(f"a key has more than {MOST_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
