"""Decides the order in which work is claimed, as a pure function of the waiting and running work.

Organizations take turns, and so do the environments of one organization. Within an environment, the piece
that has waited longest is first. The turn of a piece is its position in the waiting work of its environment,
plus the number of running pieces of that environment; an organization's turn is computed likewise.

The claimed piece is thus always from the organization with the least running work, and from that
organization's environment with the least running work. If several are equal, the piece that has waited
longest decides.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field

NO_LIMITS: Final[Mapping[str, int]] = MappingProxyType({})


class Idle(IntEnum):
    """The two kinds of extra slots. They are for organizations or environments without running work, while
    all regular slots are occupied."""

    ORGANIZATION = 1
    ENVIRONMENT = 2
    """An environment without running work, of an organization with running work."""


def turn_key(org: str, environment: str = "") -> str:
    """Returns the stored key of a participant that takes turns: an environment, or an organization as a
    whole."""
    return f"{org} {environment}" if environment else org


def organization_of(key: str) -> str:
    return key.partition(" ")[0]


class Due(Struct, frozen=True, order=True, gc=False):
    """A piece of work that is due, or whose lease has ended."""

    since: int
    id: str
    key: str
    """The organization and environment that the piece belongs to; see `turn_key`."""


class EnvironmentQueue(Struct, gc=False):
    """The due work of one environment, as far as it was read from the database."""

    pieces: list[Due]
    whole: bool
    """Whether there are no further pieces in the database."""
    taken: int = 0


class OrganizationQueue(Struct, gc=False):
    """The environments of one organization, ordered by turn."""

    held: int = 0
    taken: int = 0
    heap: list[tuple[int, Due]] = field(default_factory=list)


class ClaimOrder:
    """Selects pieces one by one from the known work. All pieces have to be added before the first is
    taken."""

    def __init__(
        self, usage_by_organization: Mapping[str, int], free_slots: Mapping[str, int] = NO_LIMITS
    ) -> None:
        """`usage_by_organization`: number of running pieces, by key. `free_slots`: number of further pieces
        that may be claimed, by key."""
        self._held, self._room = usage_by_organization, free_slots
        self._held_by_org: Counter[str] = Counter()
        for key, count in usage_by_organization.items():
            self._held_by_org[organization_of(key)] += count
        self._queues: dict[str, EnvironmentQueue] = {}
        self._orgs: dict[str, OrganizationQueue] = {}
        self._heap: list[tuple[int, Due]] | None = None

    def idle(self) -> int:
        """Returns the number of known organizations without running work."""
        return sum(not queue.held for queue in self._orgs.values())

    def add(self, due_work: Iterable[Due], *, is_complete: bool) -> None:
        """Adds the first pieces of new environments. `is_complete`: whether these are all their pieces."""
        fresh: dict[str, list[Due]] = {}
        for piece in sorted(due_work):
            fresh.setdefault(piece.key, []).append(piece)
        for key, first in fresh.items():
            self._queues[key] = EnvironmentQueue(first, is_complete)
            self._enter(key)

    def add_firsts(self, due_work: Iterable[Due]) -> None:
        """Adds the first of the pieces of each environment that is not known yet."""
        firsts: dict[str, Due] = {}
        for piece in sorted(due_work):
            firsts.setdefault(piece.key, piece)
        self.add([piece for key, piece in firsts.items() if key not in self._queues], is_complete=False)

    def take(self, only_idle: Idle | None = None) -> Due | None:
        """Takes the next piece, or returns None if no piece is known. `only_idle`: restricts the choice to
        participants without running work."""
        if self._heap is None:
            self._heap = [self._turn(queue) for queue in self._orgs.values() if queue.heap]
            heapq.heapify(self._heap)
        while self._heap:
            turn, piece = heapq.heappop(self._heap)
            queue = self._orgs[organization_of(piece.key)]
            if not _is_meant(only_idle, turn, queue.heap[0][0]):
                continue
            heapq.heappop(queue.heap)
            queue.taken += 1
            self._queues[piece.key].taken += 1
            return piece
        return None

    def lacks(self, key: str) -> bool:
        """Returns whether further pieces of an environment have to be read from the database."""
        queue = self._queues[key]
        return queue.taken == len(queue.pieces) and not queue.whole

    def refill(self, key: str, due_work: Sequence[Due]) -> None:
        """Replaces the pieces of an environment by all pieces that may be needed, including the pieces
        already taken."""
        self._queues[key].pieces = sorted(due_work)
        self._queues[key].whole = True

    def advance(self, key: str) -> None:
        """Updates the order after a piece was taken, so that its environment and organization move back."""
        if self._queues[key].taken < len(self._queues[key].pieces):
            self._enter(key)
        org = self._orgs[organization_of(key)]
        if org.heap and self._heap is not None:
            heapq.heappush(self._heap, self._turn(org))

    def _enter(self, key: str) -> None:
        queue, org = self._queues[key], organization_of(key)
        known = self._orgs.get(org)
        if known is None:
            known = self._orgs[org] = OrganizationQueue(self._held_by_org.get(org, 0))
        if queue.taken >= self._room.get(key, queue.taken + 1):
            return
        turn = self._held.get(key, 0) + queue.taken + 1
        heapq.heappush(known.heap, (turn, queue.pieces[queue.taken]))

    def _turn(self, queue: OrganizationQueue) -> tuple[int, Due]:
        return queue.held + queue.taken + 1, queue.heap[0][1]


def _is_meant(only_idle: Idle | None, turn_of_org: int, turn_of_environment: int) -> bool:
    match only_idle:
        case Idle.ORGANIZATION:
            return turn_of_org == 1
        case Idle.ENVIRONMENT:
            return turn_of_org > 1 and turn_of_environment == 1
        case _:
            return True
