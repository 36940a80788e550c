"""Credentials of cloud providers, and the clusters that name them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from windlass.base.errors import Conflict
from windlass.base.fair_share import FairShare
from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.request.behaviour import Behaviour, Draft, behaves
from windlass.control.request.paths import target
from windlass.control.request.permissions import visible_below
from windlass.control.request.reading import in_dialect
from windlass.core.declare.resource import Family, Spec
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


def _by_credentials(clusters: Sequence[Row]) -> dict[str, list[CredentialCluster]]:
    """Returns the clusters that name credentials, by the id of these."""
    named: dict[str, list[CredentialCluster]] = {}
    for row in clusters:
        spec = row.read(Cluster)
        if id := credentials_of(spec):
            shown = CredentialCluster(id=row.id, name=spec.name, cloud_provider=spec.cloud_provider)
            named.setdefault(id, []).append(shown)
    return named


@behaves(*CREDENTIALS)
class KeptCredentials(Behaviour[Spec]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Spec]) -> None:
        draft.give(object_type=OBJECT_TYPES[draft.family.name])

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        if users := _by_credentials(await tx.resources.of_parent(row.parent, cluster.name)).get(row.id):
            names = ", ".join(sorted(user.name for user in users))
            raise Conflict(f"Choose other credentials for the clusters that name these first: {names}")


@reads("organization.listCredentials")
async def list_credentials(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    org = await target(source, call)
    named = _by_credentials(await _visible_of(source, call, org, cluster))
    bodies, share = list[bytes](), FairShare()
    for family in CREDENTIALS:
        for row in await _visible_of(source, call, org, family):
            credential = msgspec.Raw(in_dialect(call, row.body, family))
            bodies.append(encode({"credential": credential, "clusters": named.get(row.id, [])}))
            await share.pause()
    return Reply(results(bodies))


async def _visible_of(reads: Reads, call: Call, org: Row, family: Family) -> Sequence[Row]:
    rows = await visible_below(reads, call.actor, org, family)
    return await reads.resources.of_parent(org.id, family.name) if rows is None else rows
