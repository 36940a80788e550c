"""The order in which work is taken: organizations by turns, in each the longest-waiting piece first. Pure.

The turn of a piece of work is its place among the due work of its organization, plus the pieces of that
organization that are under way. So pieces can be taken one by one: each time from the organization with the
least under way, or of several the one whose first piece waits longest.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct


class Due(Struct, frozen=True, order=True, gc=False):
    """A piece of work that waits, or whose lease has ended."""

    since: int
    id: str
    org: str


class OrganizationQueue(Struct, gc=False):
    """The due work of one organization, as far as it is known."""

    pieces: list[Due]
    whole: bool
    """True if there are no pieces after these."""
    taken: int = 0


class Turns:
    """Takes pieces one by one, from what is known of each organization."""

    def __init__(self, held: Mapping[str, int]) -> None:
        self._held = held
        self._queues: dict[str, OrganizationQueue] = {}
        self._heap: list[tuple[int, Due]] = []

    def idle(self) -> int:
        """Counts the known organizations that have nothing under way."""
        return sum(not self._held.get(org) for org in self._queues)

    def add(self, pieces: Iterable[Due], *, whole: bool) -> None:
        """Adds the first pieces of new organizations; `whole` if they have no others."""
        fresh: dict[str, list[Due]] = {}
        for piece in sorted(pieces):
            fresh.setdefault(piece.org, []).append(piece)
        for org, first in fresh.items():
            self._queues[org] = OrganizationQueue(first, whole)
            self._enter(org)

    def add_firsts(self, pieces: Iterable[Due]) -> None:
        """Adds the first of these pieces of each organization that is not known yet."""
        firsts: dict[str, Due] = {}
        for piece in sorted(pieces):
            firsts.setdefault(piece.org, piece)
        self.add([piece for org, piece in firsts.items() if org not in self._queues], whole=False)

    def take(self, *, only_idle: bool = False) -> Due | None:
        """Takes the next piece, if any is known; `only_idle`: of an organization with nothing under way."""
        if not self._heap or (only_idle and self._heap[0][0] > 1):
            return None
        _, piece = heapq.heappop(self._heap)
        self._queues[piece.org].taken += 1
        return piece

    def lacks(self, org: str) -> bool:
        """True if the next piece of an organization has to be read from the database."""
        queue = self._queues[org]
        return queue.taken == len(queue.pieces) and not queue.whole

    def refill(self, org: str, pieces: Sequence[Due]) -> None:
        """Replaces the pieces of an organization by all that can be needed, with those already taken."""
        self._queues[org].pieces = sorted(pieces)
        self._queues[org].whole = True

    def advance(self, org: str) -> None:
        """The next piece of an organization, if there is one, takes its place among the others."""
        queue = self._queues[org]
        if queue.taken < len(queue.pieces):
            self._enter(org)

    def _enter(self, org: str) -> None:
        queue = self._queues[org]
        turn = self._held.get(org, 0) + queue.taken + 1
        heapq.heappush(self._heap, (turn, queue.pieces[queue.taken]))
