"""Decides the order in which work is claimed: organizations take turns; within one, its environments take
turns; within an environment, the piece that has waited longest comes first. Pure.

The turn of a piece of work is its place among the due work of its environment, plus the pieces of that
environment that are in progress; that of an organization likewise. So pieces can be taken one by one: each
time from the organization with the least in progress, and there from the environment with the least in
progress, or of several the one whose first piece waits longest.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from msgspec import Struct, field

ALL_HAVE_ROOM: Final[Mapping[str, int]] = MappingProxyType({})


class Idle(IntEnum):
    """The kinds of extra slots: for an organization or an environment with no work in progress while all
    slots are taken."""

    ORGANIZATION = 1
    ENVIRONMENT = 2
    """An environment of an organization that has something in progress."""


def turn_key(org: str, environment: str = "") -> str:
    """Returns the stored name for the owner of a turn: an environment of an organization, or the
    organization itself."""
    return f"{org} {environment}" if environment else org


def organization_of(key: str) -> str:
    return key.partition(" ")[0]


class Due(Struct, frozen=True, order=True, gc=False):
    """A piece of work that waits, or whose lease has ended."""

    since: int
    id: str
    key: str
    """The organization and environment whose turn this is; see `turn_key`."""


class EnvironmentQueue(Struct, gc=False):
    """The due work of one environment, as far as it is known."""

    pieces: list[Due]
    whole: bool
    """True if there are no pieces after these."""
    taken: int = 0


class OrganizationQueue(Struct, gc=False):
    """The environments of one organization, by turns."""

    held: int = 0
    taken: int = 0
    heap: list[tuple[int, Due]] = field(default_factory=list)


class ClaimOrder:
    """Takes pieces of work one by one, in order of turns. All known pieces are added before the first is
    taken."""

    def __init__(self, held: Mapping[str, int], room: Mapping[str, int] = ALL_HAVE_ROOM) -> None:
        """`held` counts the pieces in progress, by key; `room` is how many more of a key may be taken."""
        self._held, self._room = held, room
        self._held_by_org: Counter[str] = Counter()
        for key, count in held.items():
            self._held_by_org[organization_of(key)] += count
        self._queues: dict[str, EnvironmentQueue] = {}
        self._orgs: dict[str, OrganizationQueue] = {}
        self._heap: list[tuple[int, Due]] | None = None

    def idle(self) -> int:
        """Counts the known organizations that have nothing in progress."""
        return sum(not queue.held for queue in self._orgs.values())

    def add(self, pieces: Iterable[Due], *, whole: bool) -> None:
        """Adds the first pieces of new environments; `whole` if they have no others."""
        fresh: dict[str, list[Due]] = {}
        for piece in sorted(pieces):
            fresh.setdefault(piece.key, []).append(piece)
        for key, first in fresh.items():
            self._queues[key] = EnvironmentQueue(first, whole)
            self._enter(key)

    def add_firsts(self, pieces: Iterable[Due]) -> None:
        """Adds the first of these pieces of each environment that is not known yet."""
        firsts: dict[str, Due] = {}
        for piece in sorted(pieces):
            firsts.setdefault(piece.key, piece)
        self.add([piece for key, piece in firsts.items() if key not in self._queues], whole=False)

    def take(self, only: Idle | None = None) -> Due | None:
        """Takes the next piece, if any is known; `only`: only from organizations or environments with no
        work in progress."""
        if self._heap is None:
            self._heap = [self._turn(queue) for queue in self._orgs.values() if queue.heap]
            heapq.heapify(self._heap)
        while self._heap:
            turn, piece = heapq.heappop(self._heap)
            queue = self._orgs[organization_of(piece.key)]
            if not _is_meant(only, turn, queue.heap[0][0]):
                continue
            heapq.heappop(queue.heap)
            queue.taken += 1
            self._queues[piece.key].taken += 1
            return piece
        return None

    def lacks(self, key: str) -> bool:
        """Returns whether the next piece of work of an environment has to be read from the database."""
        queue = self._queues[key]
        return queue.taken == len(queue.pieces) and not queue.whole

    def refill(self, key: str, pieces: Sequence[Due]) -> None:
        """Replaces the known pieces of an environment by a complete list, which includes those already
        taken."""
        self._queues[key].pieces = sorted(pieces)
        self._queues[key].whole = True

    def advance(self, key: str) -> None:
        """Puts the next piece of an organization into the order, after one was taken."""
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


def _is_meant(only: Idle | None, turn_of_org: int, turn_of_environment: int) -> bool:
    match only:
        case Idle.ORGANIZATION:
            return turn_of_org == 1
        case Idle.ENVIRONMENT:
            return turn_of_org > 1 and turn_of_environment == 1
        case _:
            return True
