"""Limits the requests of each address to a service.

Of an address, only one number is kept: the time at which its whole allowance is there again (GCRA).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from windlass.base.http_in.connections import network_of
from windlass.routers.rules import RouteRate

MAX_ADDRESSES: Final = 4096
"""Number of addresses that are kept for a service. Those that have waited longest are forgotten first."""
_MAX_ADDRESS_LENGTH: Final = 64
_MINUTE: Final = 60.0


class RequestRates:
    """The requests to one service."""

    __slots__ = ("_full_at",)

    def __init__(self) -> None:
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, address: str, rate: RouteRate, now: float) -> float:
        """Counts a request. Returns the seconds until the address may send another one if it has sent too
        many; then, the request is not counted. Otherwise 0."""
        key = network_of(address[:_MAX_ADDRESS_LENGTH])
        each = _MINUTE / rate.requests
        full_at = max(self._full_at.get(key, 0.0), now)
        wait = full_at - now - (rate.at_once - 1) * each
        # Sums of fractions are not exact: a thousandth of a request is none.
        if wait > each / 1000:
            return wait
        self._full_at[key] = full_at + each
        self._full_at.move_to_end(key)
        if len(self._full_at) > MAX_ADDRESSES:
            self._full_at.popitem(last=False)
        return 0.0
