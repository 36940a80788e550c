"""Lists the built-in variables at a project, an environment or a service."""

from __future__ import annotations

from collections.abc import Collection

from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.context.place import Place
from windlass.control.request.paths import target
from windlass.control.request.permissions import Visibility
from windlass.control.variables.injected import injected_variables, kinds_in
from windlass.core.declare.document import Document
from windlass.core.declare.stored import NamedDocument
from windlass.core.deploy.injected_variables import LISTED_PREFIX, RESERVED_PREFIXES, BuiltIn
from windlass.store import Reads, Row


@reads("*.injectedVariable")
async def list_injected(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    here = await target(source, call)
    levels = await source.tree.above(here.id)
    place = await _place_of(ctx, source, levels)
    injected = await injected_variables(ctx, source, levels, place.engine.neighbour_address)
    owners = {level.id: level for level in levels} | {
        row.id: row
        for row in await _seen_neighbours(source, call, {variable.owner for variable in injected.built_in})
    }
    shown = [
        variable
        for variable in sorted(injected.built_in, key=_is_by_id)  # keys without ids come first
        if variable.owner in owners and (call.dialect.is_full or not variable.key.startswith(LISTED_PREFIX))
    ]
    return Reply(results([encode(_document(ctx, variable, owners[variable.owner])) for variable in shown]))


async def _seen_neighbours(reads: Reads, call: Call, owners: Collection[str]) -> list[Row]:
    """Returns the owners that the caller may see."""
    rows = [row for id in owners if (row := await reads.resources.get(id))]
    if not rows:
        return []
    sight = Visibility(reads, call.actor, rows[0].org)
    return [row for row in rows if await sight.includes(row.family, row.id, row.parent)]


def _is_by_id(variable: BuiltIn) -> bool:
    return variable.key.startswith(RESERVED_PREFIXES)


async def _place_of(ctx: Context, reads: Reads, levels: list[Row]) -> Place:
    """Returns the place of the environment. Above environments, variables contain no addresses."""
    home = next((level for level in levels if kinds_in(ctx, level)), None)
    return await ctx.places.of_environment(reads, home.id) if home else ctx.places.local


def _document(ctx: Context, variable: BuiltIn, owner: Row) -> Document:
    named = {"service_name": owner.read(NamedDocument).name} if owner.family in ctx.kinds else {}
    return {
        "key": variable.key,
        "value": None if variable.secret else variable.value,
        "is_secret": variable.secret,
        "owner_id": owner.id,
        **named,
    }
