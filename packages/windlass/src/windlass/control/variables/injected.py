"""Variables that Windlass itself makes: as lists show them, and as services find them.

None of them is stored. In lists a host is a name that stays the same; running programs get the current
address.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from windlass.base.clock import stamp
from windlass.control.context.call import encode
from windlass.control.context.context import Context
from windlass.control.kinds.service_kind import AnyKind, FindAddress
from windlass.control.request.permissions import Visibility
from windlass.core.access import Actor
from windlass.core.declare.document import Document
from windlass.core.declare.resource import Family
from windlass.core.declare.stored import NamedDocument, rewritten
from windlass.core.declare.traits import has_variables
from windlass.core.deploy.injected_variables import BuiltIn, identity, of_level, with_compatible_keys
from windlass.core.words.variables import DeclaredVariable
from windlass.families.variable import Variable
from windlass.store import Reads, Row, Tx


class ServiceVariables(NamedTuple):
    owner: Row
    variable: BuiltIn


# As lists show them


async def listed_variables(ctx: Context, source: Reads, levels: Sequence[Row]) -> list[ServiceVariables]:
    """Returns all variables that are visible at the nearest of these levels, the nearest level first."""
    visible: list[ServiceVariables] = []
    for level in _with_variables(ctx, levels):
        visible += (ServiceVariables(level, variable) for variable in of_level(level.family, level.id))
        for kind in kinds_in(ctx, level):
            for service in await source.resources.of_parent(level.id, kind.family.name):
                variables = await kind.listed_variables(ctx, source, service)
                visible += (ServiceVariables(service, variable) for variable in variables)
    return visible


def _with_variables(ctx: Context, levels: Iterable[Row]) -> list[Row]:
    return [level for level in levels if has_variables in ctx.registry[level.family].traits]


def kinds_in(ctx: Context, level: Row) -> list[AnyKind]:
    """The kinds of service that a resource may contain."""
    family = ctx.registry[level.family]
    return [kind for kind in ctx.kinds.values() if kind.family.parent is family]


async def visible(
    source: Reads, actor: Actor, owned: Iterable[ServiceVariables], levels: Sequence[Row]
) -> list[ServiceVariables]:
    """Leaves out the variables of neighbours that this caller may not see. Those of a level are inherited."""
    here = {level.id for level in levels}
    sight = Visibility(source, actor, levels[0].org)
    return [
        variable
        for variable in owned
        if variable.owner.id in here
        or await sight.includes(variable.owner.family, variable.owner.id, variable.owner.parent)
    ]


def rows_of(ctx: Context, owned: Iterable[ServiceVariables], family: Family) -> list[Row]:
    """Returns those of this family, as if they were stored."""
    secret = "value" in family.hidden
    return [_row(ctx, owner, variable, family) for owner, variable in owned if variable.secret == secret]


def _row(ctx: Context, owner: Row, variable: BuiltIn, family: Family) -> Row:
    created = stamp(owner.created)
    document: Document = {
        "id": variable.id,
        "created_at": created,
        "updated_at": created,
        "key": variable.key,
        "scope": "BUILT_IN",
        "variable_type": "BUILT_IN",
    }
    if not variable.secret:
        document["value"] = variable.value
    if variable.description:
        document["description"] = variable.description
    if owner.family in ctx.kinds:
        name = owner.read(NamedDocument).name
        document |= {
            "service_id": owner.id,
            "service_name": name,
            "service_type": ctx.registry[owner.family].enum_value,
        }
    body = encode(msgspec.convert(document, family.view))
    tag = hashlib.sha256(body).hexdigest()[:16]
    return Row(variable.id, family.name, owner.org, "", 0, variable.key, owner.created, tag, body)


# As services find them


class InjectedVariables(NamedTuple):
    built_in: list[BuiltIn]
    counted: list[Row]
    """Services on which users of their variables depend."""
    warnings: list[str]

    @property
    def entries(self) -> list[DeclaredVariable]:
        return [_entry(variable) for variable in self.built_in]


async def injected_variables(
    ctx: Context, source: Reads, levels: Sequence[Row], find_address: FindAddress
) -> InjectedVariables:
    """Returns all variables that a service of these levels gets, with real addresses."""
    levels = _with_variables(ctx, levels)
    own = [variable for level in levels for variable in of_level(level.family, level.id)]
    result = InjectedVariables(with_compatible_keys(own), [], [])
    for level in levels:
        for kind in kinds_in(ctx, level):
            offer = await kind.offer(ctx, source, level.id, find_address)
            result.built_in.extend(offer.variables)
            result.counted.extend(offer.counted)
            result.warnings.extend(offer.warnings)
    return result


def _entry(variable: BuiltIn) -> DeclaredVariable:
    return DeclaredVariable(
        id=variable.id, key=variable.key, value=variable.value, secret=variable.secret, interpolated=False
    )


# What was derived from them


async def forget_derived(ctx: Context, tx: Tx, service: Row) -> None:
    """Deletes aliases and overrides of a service's injected variables together with the service."""
    listed = await ctx.kinds[service.family].listed_variables(ctx, tx, service)
    for id in {*identities(ctx, service), *(variable.id for variable in listed)}:
        for link in ("aliases", "overrides"):
            for derived in await tx.links.sources(id, link):
                await remove_with_derived(tx, derived)


async def refresh_derived(ctx: Context, tx: Tx, service: Row) -> None:
    """Updates stored copies of a service's built-in variables after the service was changed."""
    for variable in await ctx.kinds[service.family].listed_variables(ctx, tx, service):
        if not variable.secret:
            await _say_again(tx, variable.id, variable.value)


async def _say_again(tx: Tx, id: str, value: str) -> None:
    """Emits changes made by the server: the tags stay, and so do digests, which already depend on the
    cause."""
    for alias in await tx.links.sources(id, "aliases"):
        if alias.read(Variable).value != value:
            shown = {"value": value, "aliased_variable": {"value": value}}
            await tx.resources.rewrite(alias.id, rewritten(alias.body, shown))
            await _say_again(tx, alias.id, value)


async def remove_with_derived(tx: Tx, row: Row) -> None:
    """A variable, and all that stands for it or overrides it."""
    for link in ("aliases", "overrides"):
        for derived in await tx.links.sources(row.id, link):
            await remove_with_derived(tx, derived)
    await tx.remove(row)


def identities(ctx: Context, level: Row) -> list[str]:
    """Returns the ids of all injected variables that a service or a level above may ever have: in the same
    order for each with the same settings."""
    own = [variable.key for variable in of_level(level.family, level.id)]
    kind = ctx.kinds.get(level.family)
    return [identity(level.id, key) for key in (*own, *(kind.listed_keys(level) if kind else ()))]
