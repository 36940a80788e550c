"""The numbers of the queues of work. They are stored, and so never change."""

from __future__ import annotations

import hashlib
from enum import IntEnum
from typing import Final, NamedTuple


class Queue(IntEnum):
    """Workers claim from each queue apart, so that slow work does not delay quick work. Deployments of a
    cluster with its own engine have a further queue, see `queue_of`. The work of each further machine has
    three, see `queues_of`. Each queue of deployments has one of builds beside it, see `builds_beside`."""

    QUICK = 0
    RECONCILE = 1
    DELIVER = 2
    LOCAL = 3
    """Housekeeping at the place `local`, as RECONCILE has its deployments."""
    BRANCHES = 4
    """Branch checks, which wait for external git servers."""
    RUNS = 5
    """Runs of jobs at the place `local`."""


FIRST_PLACE: Final = "local"
"""The place of the first server, and of all whose settings name no other."""
_FIRST_CLUSTER: Final = 3
"""The first number for queues of clusters. It must not change, because numbers of queues are stored."""
_DIGITS: Final = 15
"""Hexadecimal digits of the id of a cluster that number its queue: as many as fit into 63 bits."""


_FIRST_PLACE: Final = 2**61
"""The queues of places with a name begin above those of clusters. Never changes, either."""
_RUNS: Final = 2**61
"""The difference between the numbers of the two queues of a named place that hold runs and deployments. Never
changes, either."""
_FIRST_CLUSTER_RUNS: Final = 2**62 + 2**61
"""The same for a cluster: its queue of runs is above those of all places. Never changes, either."""


def queue_of(cluster: str) -> int:
    """Returns the number of the queue of a cluster."""
    return _FIRST_CLUSTER + int(cluster.replace("-", "")[-_DIGITS:], 16)


class PlaceQueues(NamedTuple):
    """The queues of work at a place, which only its owner claims from."""

    deployments: int
    housekeeping: int
    runs: int


def queues_of(place: str) -> PlaceQueues:
    """Returns the queues of a place. They are not shared with clusters, because only the owner of the
    place claims from them."""
    if place == FIRST_PLACE:
        return PlaceQueues(Queue.RECONCILE, Queue.LOCAL, Queue.RUNS)
    number = int(hashlib.blake2b(place.encode(), digest_size=7).hexdigest(), 16)
    deployments = _FIRST_PLACE + 2 * number
    return PlaceQueues(deployments, deployments + 1, deployments + _RUNS)


def is_owned(queue: int) -> bool:
    """Returns True for queues of places: what is in them is left to the owner of the place."""
    queue = abs(queue)
    return queue in queues_of(FIRST_PLACE) or _FIRST_PLACE <= queue < _FIRST_CLUSTER_RUNS


def work_class(queue: int) -> Queue | None:
    """Returns the class of work in a queue, which is the same at each place; None for deployments of
    clusters. Builds are deployments."""
    queue = abs(queue)
    if queue >= _FIRST_PLACE + _RUNS:
        return Queue.RUNS
    if queue >= _FIRST_PLACE:
        return Queue.LOCAL if (queue - _FIRST_PLACE) % 2 else Queue.RECONCILE
    return Queue(queue) if queue in Queue.__members__.values() else None


def housekeeping_beside(deployments: int) -> int:
    """Returns the other queue of the place whose deployments are in this one."""
    return Queue.LOCAL if deployments == Queue.RECONCILE else deployments + 1


def builds_beside(deployments: int) -> int:
    """Returns the queue of the deployments that have to be built first, of the place or the cluster whose
    deployments are in this one. Others never wait behind them."""
    return -abs(deployments)


def is_for_builds(queue: int) -> bool:
    return queue < 0


def runs_beside(deployments: int) -> int:
    """Returns the queue of runs of the place, or the cluster, whose deployments are in this one."""
    if deployments == Queue.RECONCILE:
        return Queue.RUNS
    return deployments + (_RUNS if deployments >= _FIRST_PLACE else _FIRST_CLUSTER_RUNS)
