"""Derived properties of stored clusters."""

from __future__ import annotations

from windlass.families.cluster import THIS_MACHINE, Cluster
from windlass.store import FIRST_PLACE


def place_of(spec: Cluster) -> str:
    """Returns the name of the place that a cluster uses; empty if it has a remote engine or none."""
    return (spec.place or FIRST_PLACE) if spec.engine == THIS_MACHINE else ""
