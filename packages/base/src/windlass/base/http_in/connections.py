"""Keeps the open connections of one public port: limits their number, and selects a connection to close when
a new one needs its slot.

When all slots are in use, the connection that has kept the server waiting longest is closed: it is silent,
sends an incomplete head, stalls in a body, or does not read. A flood of silent connections thus closes only
itself. An address may use half of the slots at most, except a trusted proxy, which serves many clients.
Services that call from their own networks have one address for each organization. All these addresses
together may use half of the slots. Each may use as many of them as it leaves free for others.

A periodic tick updates the coarse clock and checks all connections. A timer for each request would cost more
than all other work for the request.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable
from enum import Enum
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final, Protocol

from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.turns import Turns
from windlass.base.log import log

_log = log("connections")
_RESCAN_SECONDS: Final = 0.1
"""The pause between two searches for connections to close, if the last search found none."""
_MAX_LOGGED_REASONS: Final = 16
"""The connections above the limit that get a 503 response: the limit divided by this number. Further
connections are closed without a response."""
_ANYWHERE: Final = ""
_SERVICE_NETWORKS: Final = ip_network("198.18.0.0/15")
"""The addresses of service networks (base/isolation/network.py), which no other client has."""


class OpenConnection(Protocol):
    """A client connection."""

    network: str
    """The client's network; see `network_of`."""

    def waits_since(self) -> float | None:
        """Returns when the server began to wait for the client; None if it is not waiting."""

    def age(self, now: float) -> None:
        """Checks all timeouts of the connection."""

    def abort(self) -> None: ...


class Admission(Enum):
    FREE = "it is served"
    FULL = "it is told to come back, and closed"
    NONE = "it is closed"


class ConnectionTable:
    def __init__(
        self,
        port: str,
        bounds: Bounds,
        trusts: Callable[[str], bool] = lambda network: False,
        also: Callable[[float], None] | None = None,
    ) -> None:
        """`also` is called on each tick with the current time."""
        self.bounds = bounds
        self.limit = bounds.connections
        self.now = 0.0
        self.members: set[OpenConnection] = set()
        self.turns = Turns()
        self._port = port
        self.trusts = trusts
        self._also = also
        self._by_network: Counter[str] = Counter()
        self._inside = 0
        """The number of connections from service networks."""
        self._waiting: dict[str, deque[tuple[float, OpenConnection]]] = {}
        """The connections that could be closed at the last search, by network, the longest waiting first."""
        self._look_after: dict[str, float] = {}
        """The earliest time of the next search in each network that had no closable connection."""
        self._unsent: dict[OpenConnection, int] = {}
        """The number of unread bytes of each client, the longest waiting client first."""
        self._unsent_bytes = 0
        self._refused: Counter[str] = Counter()
        self._log_at = 0.0
        self._ticking: asyncio.TimerHandle | None = None
        self._tick_seconds = bounds.tick_seconds

    # Members

    def admit(self, connection: OpenConnection) -> Admission:
        if self._ticking is None:
            self.start()
        network = connection.network
        most = self._max_connections_of(network)
        if self._by_network[network] >= most:
            free = self._close_one(network)
        else:
            free = len(self.members) < self.limit or self._close_one(_ANYWHERE)
        if not free:
            self.refuse("503")
            if _is_far_above(self._by_network[network], most) or _is_far_above(len(self.members), self.limit):
                return Admission.NONE
        self._add(connection)
        return Admission.FREE if free else Admission.FULL

    def remove(self, connection: OpenConnection) -> None:
        """Removes a connection. Idempotent."""
        if connection in self.members:
            self.members.discard(connection)
            self.sent(connection)
            network = connection.network
            self._by_network[network] -= 1
            self._inside -= is_inside(network)
            if not self._by_network[network]:
                del self._by_network[network]

    def replace(self, connection: OpenConnection, successor: OpenConnection) -> None:
        """Replaces a connection by its successor, such as a websocket."""
        self.remove(connection)
        self._add(successor)

    def _add(self, connection: OpenConnection) -> None:
        self.members.add(connection)
        self._by_network[connection.network] += 1
        self._inside += is_inside(connection.network)

    def _max_connections_of(self, network: str) -> int:
        half = max(1, self.limit // 2)
        if self.trusts(network):
            return self.limit
        if is_inside(network):
            others = self._inside - self._by_network[network]
            return max(1, (half - others) // 2)
        return half

    def _close_one(self, network: str) -> bool:
        """Closes the connection of a network, or of any network, that has kept the server waiting longest."""
        member = self._next_waiting(network) or self._find_waiting_again(network)
        if member is None:
            return False
        self.remove(member)
        member.abort()
        self.refuse("closed for a new one")
        return True

    def _next_waiting(self, network: str) -> OpenConnection | None:
        waiting = self._waiting.get(network, ())
        while waiting:
            since, member = waiting.popleft()
            if member in self.members and member.waits_since() == since:
                return member
        return None

    def _find_waiting_again(self, network: str) -> OpenConnection | None:
        now = asyncio.get_running_loop().time()
        if now < self._look_after.get(network, 0.0):
            return None
        waiting = [(since, member) for member in self.members if (since := member.waits_since()) is not None]
        waiting.sort(key=lambda entry: entry[0])
        self._waiting = {_ANYWHERE: deque(waiting)}
        for entry in waiting:
            self._waiting.setdefault(entry[1].network, deque()).append(entry)
        oldest = self._next_waiting(network)
        if oldest is None:
            self._look_after[network] = now + _RESCAN_SECONDS
        return oldest

    # Unread bytes

    def unsent(self, connection: OpenConnection, size: int) -> None:
        """Records the number of bytes that a client has not read, or that wait in other buffers of its
        connection. Closes the longest waiting clients if the total is too high."""
        if connection not in self.members:
            return  # it is about to be closed
        self._unsent_bytes += size - self._unsent.get(connection, 0)
        self._unsent[connection] = size
        while self._unsent_bytes > self.bounds.unsent_bytes:
            longest = next(iter(self._unsent))
            self.remove(longest)
            asyncio.get_running_loop().call_soon(longest.abort)  # its transport may be writing just now
            self.refuse("unread")

    def sent(self, connection: OpenConnection) -> None:
        self._unsent_bytes -= self._unsent.pop(connection, 0)

    # Refusals

    def refuse(self, reason: str) -> None:
        """Counts a refusal. The next tick logs the counts, so that bad requests cannot fill the log."""
        self._refused[reason] += 1

    def _log_refused(self, now: float) -> None:
        if self._refused and now >= self._log_at:
            self._log_at = now + self.bounds.log_seconds
            counts = ", ".join(f"{why}: {times}" for why, times in sorted(self._refused.items()))
            _log.warning("clients were refused or closed", extra={"port": self._port, "refused": counts})
            self._refused.clear()

    # The clock

    def start(self) -> None:
        self.now = asyncio.get_running_loop().time()
        self._schedule()

    def stop(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None
        self._log_at = 0.0
        self._log_refused(self.now)

    def _schedule(self) -> None:
        self._ticking = asyncio.get_running_loop().call_later(self._tick_seconds, self._run_periodic_checks)

    def _run_periodic_checks(self) -> None:
        self.now = now = asyncio.get_running_loop().time()
        if self._also is not None:
            self._also(now)
        for member in list(self.members):
            member.age(now)
        self._log_refused(now)
        self._look_after.clear()
        if self.members or self._refused or self._also is not None:
            self._schedule()
        else:
            self._ticking = None


def _is_far_above(connections: int, limit: int) -> bool:
    return connections >= limit + max(1, limit // _MAX_LOGGED_REASONS)


@lru_cache(4096)
def is_inside(network: str) -> bool:
    """Returns whether a client is a service in its own network."""
    try:
        return ip_address(network) in _SERVICE_NETWORKS
    except ValueError:
        return False


@lru_cache(4096)
def network_of(host: str) -> str:
    """Returns the address of a client; for IPv6 its /64 network, because a client usually owns all of it."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or IPv6Address(int(address) >> 64 << 64)
    return str(address)


def trust_check(proxies: Iterable[str]) -> Callable[[str], bool]:
    """Returns a function that checks whether an address belongs to a trusted proxy.

    `proxies` is the setting `trusted_proxies`.
    """
    words = frozenset(proxies)
    networks = [network for word in words if (network := _parse_network(word))]

    @lru_cache(4096)
    def trusts(host: str) -> bool:
        if "*" in words or host in words:
            return True
        try:
            address = ip_address(host)
        except ValueError:
            return False
        # All addresses of a /64 network are trusted, even if only one of them is a proxy.
        return any(address in network or network_of(str(network[0])) == host for network in networks)

    return trusts


def _parse_network(network: str):  # type: ignore[no-untyped-def]
    try:
        return ip_network(network, strict=False)
    except ValueError:
        return None
