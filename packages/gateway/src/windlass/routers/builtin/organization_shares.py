"""Divides the connections of a router among organizations while nearly all of them are in use.

A connection whose request is at an instance cannot be closed for a new one: the instance may answer as late
as it likes. So services of one organization could hold all connections of a router, and visitors of others
would get 503. Therefore a part of the connections is kept free. Above that, the organization with the most
requests in progress gets no further one, and requests of others take the places of some of its requests.

Within the largest organization, clients share in the same way: a request takes the place of one of the client
with most, which could otherwise keep all other visitors away. A trusted proxy has many clients, and keeps its
requests.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from typing import Any, Final, NamedTuple

from windlass.base.http_in.connections import ConnectionTable

_PARTS: Final = 16
"""One of this many parts of the connections is kept free of requests in progress."""
_COUNT_INTERVAL: Final = 0.1
"""Seconds between two counts. Each looks at all connections."""


class BusyConnection:
    """A connection that may have a request in progress at an instance."""

    __slots__ = ()

    network: str
    """That of the client."""

    def busy_for(self) -> str:
        """Returns the organization whose instance works for the client; empty if the router does not wait for
        an instance."""
        raise NotImplementedError

    def abort(self) -> None:
        raise NotImplementedError


class _Clients(NamedTuple):
    """The clients of an organization at the last count."""

    numbers: dict[str, int]
    """The number of their requests in progress, by network."""
    busiest: list[Any]
    """The connections of the one with most that is no trusted proxy."""


class OrganizationShares:
    """The requests in progress of each organization, as they were at the last count."""

    def __init__(self, table: ConnectionTable) -> None:
        self._table = table
        self._busy: dict[str, list[Any]] = {}
        """The connections with a request in progress, by organization."""
        self._numbers: dict[str, int] = {}
        """The number of requests in progress, by organization, with those that began after the count."""
        self._total = 0
        self._clients: dict[str, _Clients] = {}
        """The clients of organizations, if they were looked for since the last count."""
        self._admitted: Counter[tuple[str, str]] = Counter()
        """The number of requests since the last count, by organization and network."""
        self._counted_at = -math.inf

    def admit(self, organization: str, network: str) -> bool:
        """Returns whether a further request to an organization may go to an instance. `network`: that of the
        client."""
        table = self._table
        most = table.limit - table.limit // _PARTS
        if len(table.members) < most:
            return True
        self._count()
        if self._total >= most and not self._make_room(organization, network):
            table.refuse("503, organization with most requests")
            return False
        self._numbers[organization] = self._numbers.get(organization, 0) + 1
        self._total += 1
        self._admitted[organization, network] += 1
        return True

    def _count(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._counted_at + _COUNT_INTERVAL:
            return
        self._counted_at = now
        self._busy = {}
        self._clients.clear()
        self._admitted.clear()
        for member in self._table.members:
            if isinstance(member, BusyConnection) and (organization := member.busy_for()):
                self._busy.setdefault(organization, []).append(member)
        self._numbers = {name: len(members) for name, members in self._busy.items()}
        self._total = sum(self._numbers.values())

    def _make_room(self, organization: str, network: str) -> bool:
        """Ends a request of the organization with most. If that is this organization itself, ends one of its
        client with most. Returns False if that is this client."""
        numbers = self._numbers
        largest = max(numbers, key=lambda name: numbers[name])
        if numbers.get(organization, 0) >= numbers[largest]:
            return self._make_room_for_client(organization, network)
        self._end_one(self._busy.get(largest, []), largest)
        return True

    def _make_room_for_client(self, organization: str, network: str) -> bool:
        clients = self._clients_of(organization)
        own = clients.numbers.get(network, 0) + self._admitted[organization, network]
        return len(clients.busiest) > own + 1 and self._end_one(clients.busiest, organization)

    def _clients_of(self, organization: str) -> _Clients:
        if organization not in self._clients:
            by_network: dict[str, list[Any]] = {}
            for member in self._busy.get(organization, ()):
                by_network.setdefault(member.network, []).append(member)
            others = [each for name, each in by_network.items() if not self._table.trusts(name)]
            self._clients[organization] = _Clients(
                {name: len(each) for name, each in by_network.items()}, max(others, key=len, default=[])
            )
        return self._clients[organization]

    def _end_one(self, members: list[Any], organization: str) -> bool:
        """Ends the request of one of these connections. Returns False if none of them has one any more."""
        while members:
            member = members.pop()
            if member in self._table.members and member.busy_for() == organization:
                self._table.refuse("closed for another organization or client")
                self._table.remove(member)
                member.abort()
                self._numbers[organization] -= 1
                self._total -= 1
                return True
        return False
