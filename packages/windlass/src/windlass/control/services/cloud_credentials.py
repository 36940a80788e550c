"""Credentials of cloud providers, and the clusters that name them."""

from __future__ import annotations

import msgspec

from windlass.base.errors import Conflict
from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.request.behaviour import Behaviour, Draft, behaves
from windlass.control.request.paths import target
from windlass.control.request.reading import in_dialect
from windlass.core.declare.resource import Spec
from windlass.families.cloud_credentials import (
    CREDENTIALS,
    OBJECT_TYPES,
    CredentialCluster,
)
from windlass.families.cluster import Cluster, cluster
from windlass.store import Reads, Row, Tx


def credentials_of(spec: Cluster) -> str:
    """Returns the id of the credentials that a cluster names; empty if it names none."""
    info = spec.cloud_provider_credentials
    named = info.get("credentials") if isinstance(info, dict) else None
    return str(named.get("id") or "") if isinstance(named, dict) else ""


async def _clusters_with(reads: Reads, row: Row) -> list[CredentialCluster]:
    return [
        CredentialCluster(id=one.id, name=spec.name, cloud_provider=spec.cloud_provider)
        for one in await reads.resources.of_parent(row.parent, cluster.name)
        if credentials_of(spec := one.read(Cluster)) == row.id
    ]


@behaves(*CREDENTIALS)
class KeptCredentials(Behaviour[Spec]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Spec]) -> None:
        draft.give(object_type=OBJECT_TYPES[draft.family.name])

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        if users := await _clusters_with(tx, row):
            names = ", ".join(sorted(user.name for user in users))
            raise Conflict(f"Choose other credentials for the clusters that name these first: {names}")


@reads("organization.listCredentials")
async def list_credentials(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    org = await target(source, call)
    bodies: list[bytes] = []
    for family in CREDENTIALS:
        for row in await source.resources.of_parent(org.id, family.name):
            credential = msgspec.Raw(in_dialect(call, row.body, family))
            clusters = await _clusters_with(source, row)
            bodies.append(encode({"credential": credential, "clusters": clusters}))
    return Reply(results(bodies))
