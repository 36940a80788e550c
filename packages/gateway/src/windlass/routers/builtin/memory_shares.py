"""Limits the memory of requests in progress, and divides it among organizations.

An instance may answer as late as it likes, and a sleeping service may take long to wake. A head takes four
times its size while its request is in progress. What has come of a body together with its head, 128 KiB at
most, is kept until it is sent, and longer if the request may be repeated. So the connections of a router
could take gigabytes.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

MAX_SMALL_HEAD_BYTES: Final = 16 * 1024
"""Size of the largest head that does not count."""
MAX_LARGE_HEADS_BYTES: Final = 32 * 1024 * 1024
"""Size of all large heads of requests in progress."""
MAX_SMALL_REQUEST_BYTES: Final = 16 * 1024
"""Size of the largest request that does not count while it waits, and while it is kept."""
MAX_WAITING_BYTES: Final = 64 * 1024 * 1024
"""Size of all large requests that wait for an instance."""


class MemoryShares:
    """The bytes that requests in progress use, by organization."""

    __slots__ = ("_by_organization", "_left")

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._by_organization: Counter[str] = Counter()

    def take(self, organization: str, size: int) -> bool:
        """Returns whether there is room, and uses it. An organization may have as much as remains free."""
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
