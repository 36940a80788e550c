"""Limits the memory of requests with large heads that are in progress.

A head takes four times its size while its request is in progress, and an instance may answer as late as it
likes. With heads of 64 KiB, the connections of a router could take gigabytes.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

MAX_SMALL_HEAD_BYTES: Final = 16 * 1024
"""Size of the largest head that does not count."""
MAX_LARGE_HEADS_BYTES: Final = 32 * 1024 * 1024
"""Size of all large heads of requests in progress."""


class LargeHeads:
    """The large heads of requests in progress, by organization."""

    __slots__ = ("_by_organization", "_left")

    def __init__(self) -> None:
        self._left = MAX_LARGE_HEADS_BYTES
        self._by_organization: Counter[str] = Counter()

    def take(self, organization: str, size: int) -> bool:
        """Returns whether there is room for a head. An organization leaves as much as it has to others."""
        if self._by_organization[organization] + size > self._left:
            return False
        self._left -= size
        self._by_organization[organization] += size
        return True

    def give_back(self, organization: str, size: int) -> None:
        self._left += size
        self._by_organization[organization] -= size
        if not self._by_organization[organization]:
            del self._by_organization[organization]
