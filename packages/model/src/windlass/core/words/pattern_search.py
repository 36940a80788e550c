"""Finds the longest of many patterns at each position of a text. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

MIN_PATTERN_LENGTH: Final = 6
"""Minimum length of a pattern, in characters. Shorter values occur everywhere, and masking them would make
logs unreadable."""


class PatternSearch:
    """Finds the longest pattern at each position of a text.

    A binary search over the pattern lengths finds the longest match. The prefixes that this search visits are
    stored for each pattern. A position therefore needs only a few look-ups, whatever the number of patterns.
    """

    def __init__(self, patterns: Iterable[str]) -> None:
        whole = frozenset(patterns)
        self.lengths = sorted({len(pattern) for pattern in whole})
        self._heads = re.compile(
            _tree_pattern(_build_tree(pattern[:MIN_PATTERN_LENGTH] for pattern in sorted(whole)))
        )
        beginnings = {beginning for pattern in whole for beginning in self._searched_prefixes(pattern)}
        self.known = {beginning: self._longest_match(whole, beginning) for beginning in beginnings}
        """Stored prefixes, each with the length of the longest pattern that it begins with."""

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yields the start and end of each match, from left to right, without overlaps."""
        place = 0 if self.lengths else len(text) + 1
        while place <= len(text) and (head := self._heads.search(text, place)) is not None:
            start = head.start()
            length = self._match_length(text, start)
            if length:
                yield start, start + length
            place = start + (length or 1)

    def _match_length(self, text: str, start: int) -> int:
        """Returns the length of the longest pattern at a position; 0 if there is none."""
        low, high, length = 0, len(self.lengths), 0
        while low < high:
            middle = (low + high) // 2
            end = start + self.lengths[middle]
            known_length = self.known.get(text[start:end]) if end <= len(text) else None
            if known_length is None:
                high = middle
            else:
                low, length = middle + 1, known_length or length
        return length

    def _searched_prefixes(self, pattern: str) -> Iterator[str]:
        low, high = 0, len(self.lengths)
        while low < high:
            middle = (low + high) // 2
            if self.lengths[middle] > len(pattern):
                high = middle
            else:
                low = middle + 1
                yield pattern[: self.lengths[middle]]

    def _longest_match(self, all_names: Collection[str], beginning: str) -> int:
        return max((n for n in self.lengths if n <= len(beginning) and beginning[:n] in all_names), default=0)


def _build_tree(patterns: Iterable[str]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for pattern in patterns:
        node = root
        for sign in pattern:
            node = node.setdefault(sign, {})
        node[""] = {}
    return root


def _tree_pattern(node: Mapping[str, Any]) -> str:
    """Returns a regular expression for the tree that prefers longer matches."""
    branches = [_chain_pattern(sign, below) for sign, below in sorted(node.items()) if sign]
    if not branches:
        return ""
    joined = branches[0] if len(branches) == 1 and "" not in node else f"(?:{'|'.join(branches)})"
    return f"{joined}?" if "" in node else joined


def _chain_pattern(sign: str, node: Mapping[str, Any]) -> str:
    signs = [re.escape(sign)]
    while len(node) == 1 and "" not in node:
        sign, node = next(iter(node.items()))
        signs.append(re.escape(sign))
    return "".join(signs) + _tree_pattern(node)
