"""Rate limits: each caller has a budget of requests per hour.

Requests are charged to a small grant in memory. A grant is reserved in the database before it is used, so
that a restart does not reset the budget, several replicas share it, and most requests cause no write. At the
end of the hour, less than one percent of a budget is reserved but unused.
"""

from __future__ import annotations

import asyncio
from ipaddress import IPv6Address, ip_address

from windlass.base.clock import HOUR, SECOND, Clock
from windlass.base.errors import DatabaseUnavailable, Unavailable
from windlass.store import Store, Tx

# A grant is the limit divided by this number.
_GRANT_DIVISOR = 100
# Maximum number of addresses whose requests without a token are counted; the counts are only in memory. With
# more addresses, the one whose window ends first is forgotten. If all further ones shared a window instead, a
# client with many addresses could use it up, and nobody could sign in from a new address.
_MAX_ADDRESSES = 20_000
# Number of callers from which ended windows are removed.
_MAX_CALLERS = 20_000


class Window:
    """The budget of one caller in one hour."""

    __slots__ = ("asked_at", "left", "limit", "limit_text", "lock", "opened", "reset_text", "used")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.limit = self.opened = self.used = self.left = self.asked_at = 0
        self.limit_text = self.reset_text = b"0"

    def renew(self, limit: int, opened_at: int, used_count: int, grant: int) -> None:
        self.limit, self.opened, self.used, self.left = limit, opened_at, used_count, grant
        self.limit_text = b"%d" % limit
        self.reset_text = b"%d" % -(-(opened_at + HOUR) // SECOND)

    @property
    def remaining(self) -> int:
        """The number of requests left in this hour, as far as this server knows."""
        return max(0, self.limit - self.used + self.left)

    def is_open(self, now: int, limit: int) -> bool:
        return now < self.opened + HOUR and limit == self.limit

    def retry_after(self, now: int) -> int:
        return max(1, -(-(self.opened + HOUR - now) // SECOND))


class Budgets:
    def __init__(self, store: Store, clock: Clock, limit: int) -> None:
        self._store = store
        self._clock = clock
        self._limit = limit
        self._windows: dict[str, Window] = {}
        self._addresses: dict[str, Window] = {}

    def take_from_grant(self, subject: str, limit: int | None, now: int) -> Window | None:
        """Charges one request to the grant in memory. Returns None if there is no grant left."""
        window = self._windows.get(subject)
        if window is None or window.left == 0 or not window.is_open(now, limit or self._limit):
            return None
        window.left -= 1
        return window

    async def take(self, subject: str, limit: int | None) -> tuple[Window, bool]:
        """Charges one request, and reserves a new grant if needed.

        Returns the window, and whether the request is within the budget.
        """
        limit = limit or self._limit
        if len(self._windows) >= _MAX_CALLERS:
            _remove_ended(self._windows, self._clock.now())
        window = self._windows.setdefault(subject, Window())
        async with window.lock:
            now = self._clock.now()
            if (window.left == 0 or not window.is_open(now, limit)) and not self._is_spent(
                window, now, limit
            ):
                await self._reserve(window, subject, limit)
            if window.left == 0:
                return window, False
            window.left -= 1
            return window, True

    def _is_spent(self, window: Window, now: int, limit: int) -> bool:
        """Returns whether the budget was spent when it was last read, less than a second ago. Avoids a
        database access for every refused request."""
        return window.is_open(now, limit) and window.left == 0 and now < window.asked_at + SECOND

    async def _reserve(self, window: Window, subject: str, limit: int) -> None:
        async def change(tx: Tx) -> tuple[int, int, int]:
            opened, used = await tx.budgets.get(subject) or (tx.now, 0)
            # A window of the future was opened while the clock was ahead, and would last until then.
            if not opened - HOUR < tx.now < opened + HOUR:
                opened, used = tx.now, 0
            grant = max(0, min(max(1, limit // _GRANT_DIVISOR), limit - used))
            if grant:
                await tx.budgets.set(subject, opened, used + grant)
            return opened, used + grant, grant

        try:
            opened, used, grant = await self._store.write(change)
        except DatabaseUnavailable:
            raise
        except Unavailable:  # nothing can be stored, for example on a full disk, but callers may read
            now = self._clock.now()
            opened, used = (window.opened, window.used) if window.is_open(now, limit) else (now, 0)
            grant = max(0, min(max(1, limit // _GRANT_DIVISOR), limit - used))
            used += grant
        window.renew(limit, opened, used, grant)
        if grant == 0:
            window.asked_at = self._clock.now()

    def window_of_address(self, address: str, spend: bool) -> tuple[Window, bool]:
        """Returns the window of a caller without a valid token, and whether the request is within its
        budget."""
        now = self._clock.now()
        window = self._addresses.get(address)
        if window is None or not window.is_open(now, self._limit):
            window = Window()
            window.renew(self._limit, now, self._limit, self._limit)
            if spend:
                self._keep(address, window)
        if spend and window.left == 0:
            return window, False
        window.left -= spend
        return window, True

    def _keep(self, address: str, window: Window) -> None:
        """Keeps the new window of an address. All are equally long, so that the first one ends first."""
        self._addresses.pop(address, None)
        if len(self._addresses) >= _MAX_ADDRESSES:
            del self._addresses[next(iter(self._addresses))]
        self._addresses[address] = window

    async def give_back(self) -> None:
        """Returns reserved but unused requests to the database, before the server stops."""
        unused = [(subject, window) for subject, window in self._windows.items() if window.left]

        async def change(tx: Tx) -> None:
            for subject, window in unused:
                await tx.budgets.give_back(subject, window.opened, window.left)

        if unused:
            await self._store.write(change)


def _remove_ended(windows: dict[str, Window], now: int) -> None:
    ended = [
        name for name, window in windows.items() if now >= window.opened + HOUR and not window.lock.locked()
    ]
    for name in ended:
        del windows[name]


def subject_of_address(host: str) -> str:
    """Returns the budget's key for a caller without a token: its IPv4 address or its IPv6 /64 network."""
    try:
        address = ip_address(host)
    except ValueError:
        return f"address:{host}"
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or IPv6Address(int(address) >> 64 << 64)
    return f"address:{address}"
