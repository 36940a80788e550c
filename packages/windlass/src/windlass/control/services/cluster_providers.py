"""Cloud providers of clusters. They have no effect, but programs read them."""

from __future__ import annotations

from msgspec import UNSET

from windlass.base.errors import Conflict, Invalid
from windlass.control.context.call import Call, Reply, encode, reads, results, writes
from windlass.control.context.context import Context
from windlass.control.context.place import NOT_CONNECTED
from windlass.control.request.changing import apply_changes
from windlass.control.request.paths import target
from windlass.control.services.cloud_credentials import credentials_of
from windlass.control.services.clusters import status_of
from windlass.core.declare.stored import NamedDocument
from windlass.families.cloud_credentials import CREDENTIALS
from windlass.families.cluster import Cluster
from windlass.families.cluster_provider import (
    ClusterCloudProviderInfo,
    ClusterCloudProviderInfoRequest,
    CredentialsName,
)
from windlass.store import Reads, Row, Tx


async def _find(reads: Reads, org: str, id: str) -> Row | None:
    """Returns the credentials of an organization with an id."""
    for family in CREDENTIALS:
        row = await reads.resources.find(family.name, id)
        if row is not None and row.org == org:
            return row
    return None


async def _info_of(reads: Reads, row: Row) -> ClusterCloudProviderInfo:
    spec = row.read(Cluster)
    named = await _find(reads, row.org, credentials_of(spec))
    return ClusterCloudProviderInfo(
        cloud_provider=spec.cloud_provider,
        credentials=CredentialsName(id=named.id, name=named.read(NamedDocument).name)
        if named
        else CredentialsName(),
        region=spec.region,
    )


@reads("cluster.cloudProviderInfo")
async def read_provider(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    return Reply(encode(await _info_of(source, await target(source, call))))


@writes("cluster.setCloudProviderInfo")
async def set_provider(ctx: Context, tx: Tx, call: Call) -> Reply:
    row, asked = await target(tx, call), call.sent(ClusterCloudProviderInfoRequest)
    named = asked.credentials.id if asked.credentials else None
    if named and await _find(tx, row.org, named) is None:
        raise Invalid("credentials.id: create credentials first: the organization has none with this id")
    sent = {"cloud_provider": asked.cloud_provider, "region": asked.region}
    changes: dict[str, object] = {name: value for name, value in sent.items() if value}
    if asked.credentials is not UNSET:
        changes["cloud_provider_credentials"] = {"credentials": {"id": named or None}}
    await apply_changes(ctx, tx, call, row, changes)
    changed = await tx.resources.get(row.id) or row
    return Reply(encode(await _info_of(tx, changed)))


@reads("cluster.routingTable")
async def read_routes(ctx: Context, call: Call) -> Reply:
    await target(ctx.store.reads, call)
    return Reply(results([]))


@reads("cluster.checkEngine")
async def check_engine(ctx: Context, call: Call) -> Reply:
    status = await status_of(ctx, await target(ctx.store.reads, call))
    if not status.is_deployed:
        raise Conflict(status.message or NOT_CONNECTED)
    return Reply(encode(status))
