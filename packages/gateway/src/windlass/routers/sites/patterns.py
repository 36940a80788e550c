"""Path patterns in `_redirects` and `_headers`, such as `/blog/:year/*`. Matching never backtracks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

SPLAT_PARAMETER: Final = "splat"
_PARAMETER_PATTERN: Final = re.compile(r"(?<=/):([A-Za-z_][A-Za-z0-9_]{0,40})(?=/|$)")
_VALUE_PATTERN: Final = re.compile(r":([A-Za-z_][A-Za-z0-9_]{0,40})")
_UNESCAPED_CHARACTERS: Final = "/@!$&'()+,;=-._~"


class PathPattern:
    """A path pattern: `:name` matches one path segment, and a single `*` matches any text."""

    __slots__ = ("_after", "_before", "_has_splat", "beginning", "is_plain")

    def __init__(self, text: str) -> None:
        before, star, self._after = text.partition("*")
        self._has_splat = bool(star)
        if not star:
            before = before.rstrip("/") or "/"
        parts = [*_PARAMETER_PATTERN.split(before), ""]
        self._before = list(zip(parts[::2], parts[1::2], strict=True))
        """Pairs of literal text and the placeholder name that follows; the last name is empty."""
        self.is_plain = not star and len(self._before) == 1
        """Whether the pattern matches exactly one path."""
        self.beginning = self._before[0][0]
        """The literal text with which each matching path begins; for a plain pattern, the whole path."""

    def match(self, path: str) -> Mapping[str, str] | None:
        """Returns the placeholder values if the pattern matches a path; otherwise None."""
        if not self._has_splat:
            return self._match(path.rstrip("/") or "/")
        values = self._match(path)
        # The pattern /folder/* matches /folder, too.
        return self._match(f"{path}/") if values is None and not self._after else values

    def _match(self, path: str) -> Mapping[str, str] | None:
        values: dict[str, str] = {}
        at = 0
        for text, name in self._before:
            if not path.startswith(text, at):
                return None
            at += len(text)
            if name:
                end = path.find("/", at)
                end = len(path) if end < 0 else end
                if end == at:
                    return None
                values[name] = path[at:end]
                at = end
        if not self._has_splat:
            return values if at == len(path) else None
        end = len(path) - len(self._after)
        if end < at or not path.endswith(self._after):
            return None
        values[SPLAT_PARAMETER] = path[at:end]
        return values


class PatternTable:
    """An index of patterns. Limits matching to the few patterns that may match a path, in their order."""

    def __init__(self, patterns: Iterable[PathPattern]) -> None:
        self._plain: dict[str, list[int]] = {}
        self._others: dict[str, list[int]] = {}
        """Numbers of patterns with placeholders, keyed by the folder that contains all matching paths."""
        for number, pattern in enumerate(patterns):
            if pattern.is_plain:
                self._plain.setdefault(pattern.beginning, []).append(number)
            else:
                folder = pattern.beginning[: pattern.beginning.rfind("/") + 1]
                self._others.setdefault(folder, []).append(number)
        self._depth = max((folder.count("/") for folder in self._others), default=0)

    def candidates(self, path: str) -> list[int]:
        """Returns the numbers of patterns that may match a path, in order."""
        numbers = [*self._plain.get(path.rstrip("/") or "/", ()), *self._others.get("", ())]
        whole, end = f"{path}/", 0  # a pattern such as /folder/* matches /folder, too
        for _ in range(self._depth):
            end = whole.find("/", end) + 1
            if not end:
                break
            numbers += self._others.get(whole[:end], ())
        return sorted(numbers)


def fill(target: str, values: Mapping[str, str], limit: int) -> str | None:
    """Returns the target of a redirect with its placeholders replaced by URL-encoded values; None if it would
    have more than `limit` characters. A target may name a long value hundreds of times."""
    quoted: dict[str, str] = {}
    parts: list[str] = []
    at, left = 0, limit
    for mention in _VALUE_PATTERN.finditer(target):
        name = mention[1]
        if name not in values:
            continue
        if name not in quoted:
            if len(values[name]) > limit:
                return None
            quoted[name] = quote(values[name], _UNESCAPED_CHARACTERS)
        parts += (target[at : mention.start()], quoted[name])
        at = mention.end()
        left -= len(parts[-2]) + len(parts[-1])
        if left < 0:
            return None
    return "".join(parts) + target[at:] if len(target) - at <= left else None
