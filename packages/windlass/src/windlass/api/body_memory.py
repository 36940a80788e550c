"""The memory of request bodies that arrive in several pieces, in total and per holder: an organization, or
the address of a client that is not signed in. Within an organization, it is also limited per caller.

The API reads bodies whole. A client may send one slowly or never complete it, over as many connections as it
gets. A body that arrives together with its head is not counted: it is processed at once.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from msgspec import Struct

from windlass.base.errors import Unavailable

MAX_BODIES_BYTES: Final = 256 * 1024 * 1024
"""The bytes of all bodies together, except those of sign-ins and accounts."""
MAX_ACCOUNT_BODIES_BYTES: Final = 32 * 1024 * 1024
"""The bytes of all bodies of sign-ins and accounts together."""
_MIN_BODIES: Final = 8
"""The number of bodies of the largest size for which there is memory in any case."""
_RETRY_SECONDS: Final = 5


class BodyMemory:
    """Limits the bodies of a holder to a part of the free memory.

    A holder may have as many bytes as remain free: one holder half of all, two a third each. A caller may
    have as many as it leaves to the others of its holder in the same way.
    """

    def __init__(self, largest_body: int = 0, most: int = MAX_BODIES_BYTES) -> None:
        self.most = max(most, _MIN_BODIES * largest_body)
        self.held = 0
        self._by_holder: Counter[str] = Counter()
        self._by_caller: Counter[tuple[str, str]] = Counter()

    def take(self, holder: str, caller: str, size: int) -> None:
        """Counts bytes of a body. Raises Unavailable if the holder or the caller may not have so many more.
        `caller` is empty for a holder that is one."""
        of_holder = self._by_holder[holder]
        share = (self.most - self.held + of_holder) // 2
        left = share - of_holder - size
        if left < 0 or (caller and self._by_caller[holder, caller] + size > left):
            raise Unavailable(
                "Repeat the request later, and send large ones one after another: incomplete requests "
                "take all memory that this server has left for yours",
                {"retry-after": str(_RETRY_SECONDS), "connection": "close"},
            )
        self._count(holder, caller, size)

    def give_back(self, holder: str, caller: str, size: int) -> None:
        self._count(holder, caller, -size)

    def _count(self, holder: str, caller: str, size: int) -> None:
        self.held += size
        self._by_holder[holder] += size
        self._by_caller[holder, caller] += size
        if not self._by_holder[holder]:
            del self._by_holder[holder]
        if not self._by_caller[holder, caller]:
            del self._by_caller[holder, caller]


class HeldBody(Struct):
    """The counted bytes of the body of one request. They are given back once the request is answered."""

    memory: BodyMemory
    holder: str
    caller: str
    size: int = 0

    def add(self, size: int) -> None:
        self.memory.take(self.holder, self.caller, size)
        self.size += size

    def release(self) -> None:
        """Gives the bytes back. Idempotent."""
        self.memory.give_back(self.holder, self.caller, self.size)
        self.size = 0
