"""The numbers of the work queues. They are stored in the database, and must never change."""

from __future__ import annotations

import hashlib
from enum import IntEnum
from typing import Final, NamedTuple


class Queue(IntEnum):
    """The fixed work queues. Workers claim from each queue separately, so that slow work does not delay quick
    work.

    Further queues: one for the deployments of each cluster with its own engine (`queue_of`), three for each
    further machine (`queues_of`), and a queue of builds for each queue of deployments (`builds_beside`).
    """

    QUICK = 0
    RECONCILE = 1
    DELIVER = 2
    LOCAL = 3
    """Housekeeping at the place `local`, whose deployments are in RECONCILE."""
    BRANCHES = 4
    """Checks of branches for new commits, which wait for external git servers."""
    RUNS = 5
    """Job runs at the place `local`."""


FIRST_PLACE: Final = "local"
"""The place of a server whose settings name no other place."""
_FIRST_CLUSTER: Final = 3
"""Offset for the queues of clusters. Must never change, because queue numbers are stored. Only a cluster id
of zeros and a single digit could collide with a fixed queue."""
_ID_DIGITS: Final = 15
"""Number of hexadecimal digits of a cluster id that determine its queue number. More would not fit into 63
bits."""


_FIRST_PLACE: Final = 2**61
"""Offset for the queues of named places, above the queues of clusters. Must never change."""
_RUN_QUEUE_OFFSET: Final = 2**61
"""Distance between the queue of deployments and the queue of runs of a named place. Must never change."""
_FIRST_CLUSTER_RUNS: Final = 2**62 + 2**61
"""Distance between the queue of deployments and the queue of runs of a cluster. Must never change."""


def queue_of(cluster: str) -> int:
    """Returns the queue of a cluster's deployments."""
    return _FIRST_CLUSTER + int(cluster.replace("-", "")[-_ID_DIGITS:], 16)


class PlaceQueues(NamedTuple):
    """The work queues of a place. Only the place's owner claims from them."""

    deployments: int
    housekeeping: int
    runs: int


def queues_of(place: str) -> PlaceQueues:
    """Returns the queues of a place. They are different from all queues of clusters."""
    if place == FIRST_PLACE:
        return PlaceQueues(Queue.RECONCILE, Queue.LOCAL, Queue.RUNS)
    number = int(hashlib.blake2b(place.encode(), digest_size=7).hexdigest(), 16)
    deployments = _FIRST_PLACE + 2 * number
    return PlaceQueues(deployments, deployments + 1, deployments + _RUN_QUEUE_OFFSET)


def is_owned(queue: int) -> bool:
    """Returns whether a queue belongs to a place, so that only the place's owner may claim from it."""
    queue = abs(queue)
    return queue in queues_of(FIRST_PLACE) or _FIRST_PLACE <= queue < _FIRST_CLUSTER_RUNS


def work_class(queue: int) -> Queue | None:
    """Returns the class of work in a queue, which is the same at each place; None for the deployments of
    clusters.

    Builds have the class of deployments.
    """
    queue = abs(queue)
    if queue >= _FIRST_PLACE + _RUN_QUEUE_OFFSET:
        return Queue.RUNS
    if queue >= _FIRST_PLACE:
        return Queue.LOCAL if (queue - _FIRST_PLACE) % 2 else Queue.RECONCILE
    return Queue(queue) if queue in Queue.__members__.values() else None


def housekeeping_beside(deployments: int) -> int:
    """Returns the housekeeping queue of the place with this queue of deployments."""
    return Queue.LOCAL if deployments == Queue.RECONCILE else deployments + 1


def builds_beside(deployments: int) -> int:
    """Returns the queue of builds that belongs to a queue of deployments. Deployments without a build do not
    wait behind builds."""
    return -abs(deployments)


def is_for_builds(queue: int) -> bool:
    return queue < 0


def runs_beside(deployments: int) -> int:
    """Returns the queue of runs that belongs to a queue of deployments."""
    if deployments == Queue.RECONCILE:
        return Queue.RUNS
    return deployments + (_RUN_QUEUE_OFFSET if deployments >= _FIRST_PLACE else _FIRST_CLUSTER_RUNS)
