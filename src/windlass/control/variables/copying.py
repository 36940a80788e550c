"""Copies the variables and secrets of a service to another service."""

from __future__ import annotations

import msgspec

from windlass.control.context.call import Call
from windlass.control.context.context import Context
from windlass.control.request.creating import NewResource, create_in
from windlass.control.request.hidden import own_hidden
from windlass.control.variables.deriving import Derivation, create_derived
from windlass.core.declare.document import merge_patched
from windlass.core.declare.resource import Spec
from windlass.families.variable import Levelled, secret, variable
from windlass.store import Row, Tx


async def copy_variables(ctx: Context, tx: Tx, call: Call, service: Row, copy: Row) -> None:
    """Copies originals before the aliases of them. An alias or an override of a variable that the copy does
    not see is left out."""
    copies: dict[str, Row] = {}
    derived: list[tuple[Row, str]] = []
    for family in (variable, secret):
        for row in await tx.resources.of_parent(service.id, family.name):
            if original := await _original_of(tx, row):
                derived.append((row, original))
                continue
            new = NewResource(family, _spec_of(ctx, row), copy, call.actor, call)
            await create_in(ctx, tx, new)
            if stored := await tx.resources.get(new.id):
                copies[row.id] = stored
    levels = {level.id for level in await tx.tree.above(copy.id)}
    for row, id in derived:
        original_row = copies.get(id) or await tx.resources.get(id)
        if original_row and original_row.parent in levels:
            asked = Derivation(ctx.registry[row.family], copy, original_row)
            await create_derived(ctx, tx, call, asked, _spec_of(ctx, row), row.read(Levelled).variable_type)


async def _original_of(tx: Tx, row: Row) -> str:
    """Returns the id of the variable that another one is derived from; empty if it is none."""
    for link in ("aliases", "overrides"):
        if target := await tx.links.target(row.id, link):
            return target
    return ""


def _spec_of(ctx: Context, row: Row) -> Spec:
    document = msgspec.json.decode(row.body)
    return merge_patched(ctx.registry[row.family], document, own_hidden(ctx, row), {})
