"""The quota for open event streams and websockets, in total, per organization and per caller."""

from __future__ import annotations

from collections import Counter
from types import TracebackType
from typing import Final

from windlass.base.errors import TooMany
from windlass.base.http_in.bounds import Bounds

_RETRY_SECONDS: Final = 10


class StreamQuota:
    """Limits the open streams of organizations and callers to a part of the free slots.

    An organization may open a stream while it has fewer streams than there are free slots, and a caller while
    it has fewer than half of that. A single organization can thus use half of all slots, and two
    organizations a third each, so that a slot is always left for another organization.
    """

    def __init__(self, limit: int = Bounds().streams) -> None:
        self.most = limit
        self._total = 0
        self._by_org: Counter[str] = Counter()
        self._by_caller: Counter[str] = Counter()

    def take(self, org: str, caller: str) -> StreamPlace:
        """Takes a slot, which is freed by the returned context manager. Raises TooMany if the quota is used
        up."""
        free = self.most - self._total
        if self._by_caller[caller] * 2 >= free:
            raise _too_many("you have", self._by_caller[caller])
        if self._by_org[org] >= free:
            raise _too_many("this organization has", self._by_org[org])
        self._count(org, caller, 1)
        return StreamPlace(self, org, caller)

    def leave(self, org: str, caller: str) -> None:
        self._count(org, caller, -1)

    def _count(self, org: str, caller: str, step: int) -> None:
        self._total += step
        for counter, key in ((self._by_org, org), (self._by_caller, caller)):
            counter[key] += step
            if not counter[key]:
                del counter[key]


class StreamPlace:
    """The quota slot of one open stream. It is freed at the end of the `with` block."""

    def __init__(self, quota: StreamQuota, org: str, caller: str) -> None:
        self._quota, self._org, self._caller = quota, org, caller

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._quota.leave(self._org, self._caller)


def _too_many(requester: str, streams: int) -> TooMany:
    return TooMany(
        f"Close event streams or websockets, or try again later: {requester} {streams} of them open, and the "
        "places that are left are for others",
        {"retry-after": str(_RETRY_SECONDS)},
    )
