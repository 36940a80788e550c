"""Clusters as they are stored."""

from __future__ import annotations

from windlass.families.cluster import THIS_MACHINE, Cluster
from windlass.store import FIRST_PLACE


def place_of(spec: Cluster) -> str:
    """Returns the name of the machine that a cluster is on; empty if its engine is not that of a server."""
    return (spec.place or FIRST_PLACE) if spec.engine == THIS_MACHINE else ""
