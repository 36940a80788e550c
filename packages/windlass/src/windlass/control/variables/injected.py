"""Built-in variables, which Windlass sets: as listed by the API, and as injected into services.

Built-in variables are not stored. Lists contain a permanent host name, and running services get the current
address.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from windlass.base.clock import stamp
from windlass.base.fair_share import FairShare
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


# Listing


async def listed_variables(ctx: Context, reads: Reads, levels: Sequence[Row]) -> list[ServiceVariables]:
    """Returns all built-in variables that are visible at the first of these levels, the first level's
    variables first."""
    visible: list[ServiceVariables] = []
    share = FairShare()
    for level in _with_variables(ctx, levels):
        visible += (ServiceVariables(level, variable) for variable in of_level(level.family, level.id))
        for kind in kinds_in(ctx, level):
            for service in await reads.resources.of_parent(level.id, kind.family.name):
                variables = await kind.listed_variables(ctx, reads, service)
                visible += (ServiceVariables(service, variable) for variable in variables)
                if not isinstance(reads, Tx):  # in a change, nothing else can run
                    await share.pause()
    return visible


def _with_variables(ctx: Context, levels: Iterable[Row]) -> list[Row]:
    return [level for level in levels if has_variables in ctx.registry[level.family].traits]


def kinds_in(ctx: Context, level: Row) -> list[AnyKind]:
    """Returns the kinds of services that a resource may contain."""
    family = ctx.registry[level.family]
    return [kind for kind in ctx.kinds.values() if kind.family.parent is family]


async def visible(
    reads: Reads, actor: Actor, owned: Iterable[ServiceVariables], levels: Sequence[Row]
) -> list[ServiceVariables]:
    """Returns the variables without those of neighbouring services that the caller may not see. Variables of
    the levels themselves are inherited, and always visible."""
    here = {level.id for level in levels}
    sight = Visibility(reads, actor, levels[0].org)
    return [
        variable
        for variable in owned
        if variable.owner.id in here
        or await sight.includes(variable.owner.family, variable.owner.id, variable.owner.parent)
    ]


def of_family(owned: Iterable[ServiceVariables], family: Family) -> list[ServiceVariables]:
    """Returns the variables of a family: secrets, or those that are none."""
    secret = "value" in family.hidden
    return [one for one in owned if one.variable.secret == secret]


def rows_of(ctx: Context, owned: Iterable[ServiceVariables], family: Family) -> list[Row]:
    """Returns variables of a family as rows, in the form of stored variables."""
    return [_row(ctx, owner, variable, family) for owner, variable in owned]


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


# Injecting


class InjectedVariables(NamedTuple):
    built_in: list[BuiltIn]
    counted: list[Row]
    """Services whose changes affect the services that use their variables."""
    warnings: list[str]

    @property
    def entries(self) -> list[DeclaredVariable]:
        return [_entry(variable) for variable in self.built_in]


async def injected_variables(
    ctx: Context, reads: Reads, levels: Sequence[Row], find_address: FindAddress
) -> InjectedVariables:
    """Returns all built-in variables for a service at these levels, with real addresses."""
    levels = _with_variables(ctx, levels)
    own = [variable for level in levels for variable in of_level(level.family, level.id)]
    result = InjectedVariables(with_compatible_keys(own), [], [])
    for level in levels:
        for kind in kinds_in(ctx, level):
            offer = await kind.offer(ctx, reads, level.id, find_address)
            result.built_in.extend(offer.variables)
            result.counted.extend(offer.counted)
            result.warnings.extend(offer.warnings)
    return result


def _entry(variable: BuiltIn) -> DeclaredVariable:
    return DeclaredVariable(
        id=variable.id, key=variable.key, value=variable.value, secret=variable.secret, interpolated=False
    )


# Derived variables


async def forget_derived(ctx: Context, tx: Tx, service: Row) -> None:
    """Deletes the aliases and overrides of a service's built-in variables, together with the service."""
    listed = await ctx.kinds[service.family].listed_variables(ctx, tx, service)
    for id in {*identities(ctx, service), *(variable.id for variable in listed)}:
        for link in ("aliases", "overrides"):
            for derived in await tx.links.sources(id, link):
                await remove_with_derived(tx, derived)


async def refresh_derived(ctx: Context, tx: Tx, service: Row) -> None:
    """Updates the aliases of a service's built-in variables after a change of the service."""
    for variable in await ctx.kinds[service.family].listed_variables(ctx, tx, service):
        if not variable.secret:
            await _update_aliases(tx, variable.id, variable.value)


async def _update_aliases(tx: Tx, id: str, value: str) -> None:
    """Updates the value of aliases, including aliases of aliases.

    The server makes these changes, so tags stay the same. Digests already depend on the changed service.
    """
    for alias in await tx.links.sources(id, "aliases"):
        if alias.read(Variable).value != value:
            shown = {"value": value, "aliased_variable": {"value": value}}
            await tx.resources.rewrite(alias.id, rewritten(alias.body, shown))
            await _update_aliases(tx, alias.id, value)


async def remove_with_derived(tx: Tx, row: Row) -> None:
    """Deletes a variable and all its aliases and overrides."""
    for link in ("aliases", "overrides"):
        for derived in await tx.links.sources(row.id, link):
            await remove_with_derived(tx, derived)
    await tx.remove(row)


def identities(ctx: Context, level: Row) -> list[str]:
    """Returns the ids of all built-in variables that a service or level may ever have.

    Levels with the same settings return them in the same order.
    """
    own = [variable.key for variable in of_level(level.family, level.id)]
    kind = ctx.kinds.get(level.family)
    return [identity(level.id, key) for key in (*own, *(kind.listed_keys(level) if kind else ()))]
