"""Copies the variables and secrets of a service to another service."""

from __future__ import annotations

import msgspec

from windlass.control.context.call import Call
from windlass.control.context.context import Context
from windlass.control.request.creating import NewResource, create_in
from windlass.control.request.hidden import own_hidden
from windlass.control.variables.variables import create_derived
from windlass.core.declare.document import merge_patched
from windlass.core.declare.resource import Spec
from windlass.families.variable import Levelled, secret, variable
from windlass.store import Row, Tx

_ALIASES, _OVERRIDES = "aliases", "overrides"


async def copy_variables(ctx: Context, tx: Tx, call: Call, service: Row, copy: Row) -> None:
    """Copies originals before the aliases of them. An alias or an override of a variable that the copy does
    not see is left out."""
    copies: dict[str, Row] = {}
    derived: list[tuple[Row, str, str]] = []
    for family in (variable, secret):
        for row in await tx.resources.of_parent(service.id, family.name):
            link, original = await _original_of(tx, row)
            if original:
                derived.append((row, link, original))
                continue
            new = NewResource(family, _spec_of(ctx, row), copy, call.actor, call)
            await create_in(ctx, tx, new)
            if stored := await tx.resources.get(new.id):
                copies[row.id] = stored
    levels = {level.id for level in await tx.tree.above(copy.id)}
    for row, link, id in derived:
        original_row = copies.get(id) or await tx.resources.get(id)
        if original_row and original_row.parent in levels:
            await _copy_derived(ctx, tx, call, row, copy, link, original_row)


async def _original_of(tx: Tx, row: Row) -> tuple[str, str]:
    """Returns the link of a variable that is derived from another one, and the id of that one."""
    for link in (_ALIASES, _OVERRIDES):
        if target := await tx.links.target(row.id, link):
            return link, target
    return "", ""


async def _copy_derived(
    ctx: Context, tx: Tx, call: Call, row: Row, copy: Row, link: str, original: Row
) -> None:
    family, spec = ctx.registry[row.family], _spec_of(ctx, row)
    kind = row.read(Levelled).variable_type
    overridden, aliased = (original, None) if link == _OVERRIDES else (None, original)
    await create_derived(
        ctx, tx, call, copy, spec, kind, family=family, overridden=overridden, aliased=aliased
    )


def _spec_of(ctx: Context, row: Row) -> Spec:
    document = msgspec.json.decode(row.body)
    return merge_patched(ctx.registry[row.family], document, own_hidden(ctx, row), {})
