"""Locks of clusters. A lock is stored in the document of its cluster."""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from windlass.base.clock import DAY, stamp
from windlass.control.context.call import Call, Reply, encode, reads, results, writes
from windlass.control.context.context import Context
from windlass.control.records.recording import emit_asked
from windlass.control.records.stored_clusters import lock_in
from windlass.control.request.paths import target
from windlass.control.request.permissions import is_visible
from windlass.core.declare.stored import rewritten
from windlass.core.words.events import Event
from windlass.families.cluster import ClusterLock, cluster
from windlass.families.cluster_lock import ClusterLockRequest
from windlass.store import Tx

_LOCK = "cluster_lock"


@writes("cluster.lock")
async def lock(ctx: Context, tx: Tx, call: Call) -> Reply:
    row, asked = await target(tx, call), call.sent(ClusterLockRequest)
    days = asked.ttl_in_days
    made = ClusterLock(
        cluster_id=row.id,
        reason=asked.reason,
        ttl_in_days=days or UNSET,
        locked_at=stamp(tx.now),
        ends_at=stamp(tx.now + days * DAY) if days else UNSET,
        owner_name=call.actor.name,
    )
    await tx.resources.rewrite(row.id, rewritten(row.body, {_LOCK: made}))
    data = {"reason": asked.reason, "ttl_in_days": days or None}
    await emit_asked(ctx, tx, Event.CLUSTER_LOCKED, row, call, data)
    return Reply(encode(made))


@writes("cluster.unlock")
async def unlock(ctx: Context, tx: Tx, call: Call) -> Reply:
    row = await target(tx, call)
    document = msgspec.json.decode(row.body)
    document.pop(_LOCK, None)
    await tx.resources.rewrite(row.id, encode(document))
    await emit_asked(ctx, tx, Event.CLUSTER_UNLOCKED, row, call, {})
    return Reply(status=204)


@reads("organization.listClusterLocks")
async def list_locks(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    org = await target(source, call)
    rows = [
        row
        for row in await source.resources.of_parent(org.id, cluster.name)
        if await is_visible(source, call.actor, row)
    ]
    locks = [found for row in rows if (found := lock_in(row, ctx.clock.now()))]
    return Reply(results([*map(encode, locks)]))
