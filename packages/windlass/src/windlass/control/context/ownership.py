"""Ownership of the places of machines, on which servers run services.

Each server has one place, named by its setting `place`, and runs services only there. Of the servers of a
place, one owner does the work. `control.background.place_lease` keeps the lease.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.store import FIRST_PLACE, PlaceHolder, Surroundings, is_owned, queues_of


class Ownership:
    """The owners of places, as this server sees them."""

    def __init__(
        self, place: str = FIRST_PLACE, owner: Callable[[], str] | None = None, home: str = ""
    ) -> None:
        """`owner` returns the id of this server as an owner; empty while its engine, which reports it, is
        unavailable. Without `owner`, this is the only server. `home` differs from that of a server with the
        same id that has a copy of the data directory; empty where one id may have several homes."""
        self.place, self.home = place, home
        self.queues = queues_of(place)
        self.is_alone = owner is None
        self.is_owner = self.is_alone
        self.elsewhere: Surroundings | None = None
        """The facts about the machine of the owner, if another server owns the place."""
        self.lost: frozenset[str] = frozenset()
        """Places whose owner is lost: its lease has expired."""
        self._owner = owner or str

    @property
    def holder(self) -> PlaceHolder | None:
        """This server as the owner of its place; None if it cannot be one now."""
        owner = self._owner()
        return PlaceHolder(self.place, owner) if owner else None

    def may_claim(self, queue: int) -> bool:
        """Returns True for queues of work that this server can do: at its own place, if it is the owner,
        and at engines that all servers reach."""
        return self.is_owner if abs(queue) in self.queues else not is_owned(queue)
