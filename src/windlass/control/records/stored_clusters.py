"""Clusters as they are stored, also by servers of earlier versions."""

from __future__ import annotations

from windlass.families.cluster import THIS_MACHINE, Cluster, ClusterShown
from windlass.store import FIRST_PLACE, Row


def spec_of(row: Row) -> Cluster:
    """Returns the spec of a stored cluster. A server from before clusters named engines, which runs all
    services on its machine, may store one while servers are upgraded one by one."""
    spec = row.read(Cluster)
    if not spec.engine and row.read(ClusterShown).has_access:
        spec.engine = THIS_MACHINE
    return spec


def place_of(spec: Cluster) -> str:
    """Returns the name of the machine that a cluster is on; empty if its engine is not that of a server."""
    return (spec.place or FIRST_PLACE) if spec.engine == THIS_MACHINE else ""
