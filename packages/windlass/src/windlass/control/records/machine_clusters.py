"""The clusters of servers' machines, where programs run that change other clusters through their API."""

from __future__ import annotations

from windlass.families.cluster import THIS_MACHINE, Cluster, cluster
from windlass.store import Reads, Row


async def machine_cluster(reads: Reads, org: str, wanted: str) -> str:
    """Returns the id of a cluster that is the machine of a server: `wanted` itself if it is one, or else the
    organization's first. Empty, which stands for the machine of each server, if there is none."""
    rows = await reads.resources.of_parent(org, cluster.name)
    machines = [row.id for row in rows if _is_machine(row)]
    return wanted if wanted in machines else next(iter(machines), "")


def _is_machine(row: Row) -> bool:
    return row.read(Cluster).engine == THIS_MACHINE
