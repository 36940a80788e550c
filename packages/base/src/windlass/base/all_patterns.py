"""Searches a text for several patterns that must all occur, in any order and however far apart.

One expression for this, such as `A[\\s\\S]*?B`, tries each A anew: the time grows with the square of the
text, while no other thread runs. Programs whose output is examined could stop the server in this way.
"""

from __future__ import annotations

import re
from typing import Protocol, cast

from windlass.base.lazy import lazy_pattern


class TextSearch(Protocol):
    """A pattern, or something that is used like one."""

    def search(self, text: str, /) -> re.Match[str] | None: ...


class AllPatterns:
    def __init__(self, *patterns: str, flags: int = 0) -> None:
        self._patterns = [lazy_pattern(pattern, flags) for pattern in patterns]

    def search(self, text: str) -> re.Match[str] | None:
        """Returns the match of the last pattern, if all patterns occur; otherwise None."""
        found: re.Match[str] | None = None
        for pattern in self._patterns:
            if (found := pattern.search(text)) is None:
                return None
        return found


def as_search(pattern: object, flags: int = 0) -> TextSearch:
    """Returns a pattern for its text, and anything else unchanged."""
    return lazy_pattern(pattern, flags) if isinstance(pattern, str) else cast(TextSearch, pattern)
