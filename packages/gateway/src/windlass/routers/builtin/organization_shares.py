"""Divides the connections of a router among organizations while nearly all of them are in use.

A connection whose request is at an instance cannot be closed for a new one: the instance may answer as late
as it likes. So services of one organization could hold all connections of a router, and visitors of others
would get 503. Therefore a part of the connections is kept free. Above that, the organization with the most
requests in progress gets no further one, and requests of others take the places of some of its requests.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any, Final

from windlass.base.http_in.connections import ConnectionTable

_PARTS: Final = 16
"""One of this many parts of the connections is kept free of requests in progress."""
_COUNT_INTERVAL: Final = 0.1
"""Seconds between two counts. Each looks at all connections."""


class BusyConnection:
    """A connection that may have a request in progress at an instance."""

    __slots__ = ()

    def busy_for(self) -> str:
        """Returns the organization whose instance works for the client; empty if the router does not wait for
        an instance."""
        raise NotImplementedError

    def abort(self) -> None:
        raise NotImplementedError


class OrganizationShares:
    """The requests in progress of each organization, as they were at the last count."""

    def __init__(self, table: ConnectionTable) -> None:
        self._table = table
        self._busy: dict[str, list[Any]] = {}
        """The connections with a request in progress, by organization."""
        self._numbers: dict[str, int] = {}
        """The number of requests in progress, by organization, with those that began after the count."""
        self._total = 0
        self._counted_at = -math.inf

    def admit(self, organization: str) -> bool:
        """Returns whether a further request of an organization may go to an instance."""
        table = self._table
        most = table.limit - table.limit // _PARTS
        if len(table.members) < most:
            return True
        self._count()
        if self._total >= most and not self._make_room(organization):
            table.refuse("503, organization with most requests")
            return False
        self._numbers[organization] = self._numbers.get(organization, 0) + 1
        self._total += 1
        return True

    def _count(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._counted_at + _COUNT_INTERVAL:
            return
        self._counted_at = now
        self._busy = {}
        for member in self._table.members:
            if isinstance(member, BusyConnection) and (organization := member.busy_for()):
                self._busy.setdefault(organization, []).append(member)
        self._numbers = {name: len(members) for name, members in self._busy.items()}
        self._total = sum(self._numbers.values())

    def _make_room(self, organization: str) -> bool:
        """Ends a request of the organization with most. Returns False if that is this organization itself."""
        numbers = self._numbers
        largest = max(numbers, key=lambda name: numbers[name])
        if numbers.get(organization, 0) >= numbers[largest]:
            return False
        members = self._busy.get(largest, [])
        while members:
            member = members.pop()
            if member in self._table.members and member.busy_for() == largest:
                self._table.refuse("closed for another organization")
                self._table.remove(member)
                member.abort()
                numbers[largest] -= 1
                self._total -= 1
                break
        return True
