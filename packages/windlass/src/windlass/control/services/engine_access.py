"""The engines that clusters name, read from the store."""

from __future__ import annotations

from msgspec.structs import replace

from windlass.base.encryption import Encryption
from windlass.control.context.context import Context
from windlass.control.context.place import EngineAccess
from windlass.control.records.stored_clusters import place_of
from windlass.control.request.hidden import decrypt_with
from windlass.families.cluster import Cluster, cluster
from windlass.store import NOT_TOLD, Row


async def find_access(ctx: Context, id: str) -> EngineAccess | None:
    row = await ctx.store.reads.resources.find(cluster.name, id)
    if row is None:
        return None
    access = access_in(ctx.encryption, row)
    if access.place in {"", ctx.ownership.place}:
        return access
    owner = await ctx.store.reads.owners.get(access.place)
    return replace(access, surroundings=owner.surroundings if owner else NOT_TOLD)


def access_in(encryption: Encryption, row: Row) -> EngineAccess:
    """Returns the engine that the row of a cluster names."""
    return access_of(row.id, row.org, row.read(Cluster), decrypt_with(encryption, row).get("engine_key", ""))


def access_of(id: str, org: str, spec: Cluster, key: str) -> EngineAccess:
    return EngineAccess(
        cluster=id,
        org=org,
        name=spec.name,
        engine=spec.engine or "",
        is_elsewhere=spec.is_elsewhere,
        address=spec.engine_address or "",
        ca_certificate=spec.engine_ca_certificate or "",
        certificate=spec.engine_certificate or "",
        key=key,
        router_port=spec.router_port or 0,
        engine_id=spec.engine_id or "",
        place=place_of(spec),
    )
