"""Derived properties of stored clusters."""

from __future__ import annotations

from datetime import datetime

from windlass.base.clock import instant
from windlass.families.cluster import THIS_MACHINE, Cluster, ClusterLock, ClusterShown
from windlass.store import FIRST_PLACE, Row


def place_of(spec: Cluster) -> str:
    """Returns the name of the place that a cluster uses; empty if it has a remote engine or none."""
    return (spec.place or FIRST_PLACE) if spec.engine == THIS_MACHINE else ""


def lock_in(row: Row, now: int) -> ClusterLock | None:
    """Returns the lock of a cluster's row; None if it has none, or if the lock has ended."""
    lock = row.read(ClusterShown).cluster_lock
    if not lock or (lock.ends_at and instant(datetime.fromisoformat(lock.ends_at)) <= now):
        return None
    return lock
