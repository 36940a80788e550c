"""Ownership of places, which are machines on which servers run services.

Each server has one place, named by its setting `place`, and runs services only there. If a place has several
servers, one of them is the owner and does the work. `control.background.place_lease` keeps the lease.
"""

from __future__ import annotations

from collections.abc import Callable

from windlass.store import FIRST_PLACE, PlaceHolder, Surroundings, is_owned, queues_of


class Ownership:
    """The ownership of places from the view of this server."""

    def __init__(
        self, place: str = FIRST_PLACE, owner: Callable[[], str] | None = None, home: str = ""
    ) -> None:
        """`owner` returns the owner id of this server; empty while its engine, which reports the id, is
        unavailable. Without `owner`, this server is the only one.

        `home` distinguishes this server from a server with the same id and a copy of the data directory.
        It is empty if one id may have several homes.
        """
        self.place, self.home = place, home
        self.queues = queues_of(place)
        self.is_alone = owner is None
        self.is_owner = self.is_alone
        self.elsewhere: Surroundings | None = None
        """The facts about the owner's machine, if another server owns this place."""
        self.lost: frozenset[str] = frozenset()
        """Places whose owner's lease has expired."""
        self._owner = owner or str

    @property
    def holder(self) -> PlaceHolder | None:
        """This server as an owner of its place; None while it cannot be the owner."""
        owner = self._owner()
        return PlaceHolder(self.place, owner) if owner else None

    def may_claim(self, queue: int) -> bool:
        """Returns whether this server may claim work from a queue. The owner may claim work of its own place.
        All servers may claim work at engines that every server reaches."""
        return self.is_owner if abs(queue) in self.queues else not is_owned(queue)
