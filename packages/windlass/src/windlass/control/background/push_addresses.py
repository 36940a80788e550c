"""The addresses for pushes in the documents of applications, which follow the address of this server."""

from __future__ import annotations

from typing import Final

from windlass.control.context.context import Context
from windlass.control.people.organizations import NO_PARENT
from windlass.control.workloads.repositories import push_url
from windlass.core.declare.stored import rewritten
from windlass.families.application import ApplicationShown, application
from windlass.families.organization import organization
from windlass.store import Tx

_FACT_NAME: Final = "address of pushes"
_AT_ONCE: Final = 200


async def update_push_addresses(ctx: Context) -> None:
    """Rewrites the addresses after the address of this server has changed, and after an update from a version
    without them."""
    current = ctx.settings.url.encode()
    if await ctx.store.reads.facts.get(_FACT_NAME) == current:
        return
    for org in await ctx.store.reads.resources.of_parent(NO_PARENT, organization.name):
        rows = await ctx.store.reads.resources.of_org(org.id, application.name)
        ids = [row.id for row in rows if row.read(ApplicationShown).push_url != push_url(ctx, row.id)]
        for start in range(0, len(ids), _AT_ONCE):
            await _rewrite(ctx, ids[start : start + _AT_ONCE])
    await ctx.store.write(lambda tx: tx.facts.set(_FACT_NAME, current))


async def _rewrite(ctx: Context, ids: list[str]) -> None:
    async def change(tx: Tx) -> None:
        for id in ids:
            if row := await tx.resources.find(application.name, id):
                body = rewritten(row.body, {"push_url": push_url(ctx, id)})
                await tx.resources.rewrite(id, body)

    await ctx.store.write(change)
