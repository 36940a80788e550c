"""The variables that Windlass sets, as they are listed at a project, an environment or a service."""

from __future__ import annotations

from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.context.place import Place
from windlass.control.request.paths import target
from windlass.control.request.permissions import Sight
from windlass.control.variables.injected import injected_variables, kinds_in
from windlass.core.declare.document import Document
from windlass.core.declare.stored import NamedDocument
from windlass.core.deploy.injected_variables import LISTED, PREFIX, BuiltIn
from windlass.store import Reads, Row


@reads("*.injectedVariable")
async def list_injected(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    here = await target(source, call)
    levels = await source.tree.above(here.id)
    place = await _place_of(ctx, source, levels)
    injected = await injected_variables(ctx, source, levels, place.engine.neighbour_address)
    own = {level.id: level for level in levels}
    sight = Sight(source, call.actor, here.org)
    documents = []
    for variable in sorted(injected.built_in, key=_is_by_id):  # names that people know come first
        if variable.key.startswith(LISTED) and not call.dialect.is_full:
            continue
        owner = own.get(variable.owner) or await source.resources.get(variable.owner)
        if owner and (owner.id in own or await sight.includes(owner.family, owner.id, owner.parent)):
            documents.append(_document(ctx, variable, owner))
    return Reply(results([encode(document) for document in documents]))


def _is_by_id(variable: BuiltIn) -> bool:
    return variable.key.startswith(PREFIX)


async def _place_of(ctx: Context, source: Reads, levels: list[Row]) -> Place:
    """Returns the place of the environment; above one, nothing has an address."""
    home = next((level for level in levels if kinds_in(ctx, level)), None)
    return await ctx.places.of_environment(source, home.id) if home else ctx.places.local


def _document(ctx: Context, variable: BuiltIn, owner: Row) -> Document:
    named = {"service_name": owner.read(NamedDocument).name} if owner.family in ctx.kinds else {}
    return {
        "key": variable.key,
        "value": None if variable.secret else variable.value,
        "is_secret": variable.secret,
        "owner_id": owner.id,
        **named,
    }
