"""Variables that Windlass itself makes: as lists show them, and as services find them.

None of them is stored. In lists a host is a name that stays the same; what runs is told where to connect.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from windlass.base.clock import stamp
from windlass.control.context import Context, encode
from windlass.control.credentials import credentials_of
from windlass.control.held import newest
from windlass.control.neighbours import Neighbour, main_port
from windlass.control.permissions import Sight
from windlass.core import databases, hosts
from windlass.core.access import Actor
from windlass.core.built_ins import (
    LISTED,
    BuiltIn,
    identity,
    nominal_database_host,
    nominal_host,
    of_level,
    of_service,
    with_twins,
)
from windlass.core.document import Document
from windlass.core.resource import Family
from windlass.core.variables import Entry
from windlass.families.application import application
from windlass.families.database import database
from windlass.families.environment import environment
from windlass.families.variable import secret, variable
from windlass.store.store import Reads, Row, Tx

Whereabouts = Callable[[str, str, int], Awaitable[tuple[str, int]]]
"""Of a service, its name and a port inside: host and port at which its neighbours find it."""


class Owned(NamedTuple):
    owner: Row
    one: BuiltIn


class Service(NamedTuple):
    row: Row
    document: Document


# As lists show them


async def listed(ctx: Context, source: Reads, levels: Sequence[Row]) -> list[Owned]:
    """All that are visible from the nearest of these levels, the nearest first."""
    found: list[Owned] = []
    for level in levels:
        if level.family == "organization":
            continue
        found += (Owned(level, one) for one in of_level(level.family, level.id))
        if level.family == environment.name:
            for service in await _services(source, level, application, database):
                found += await _shown(ctx, source, level, service)
    return found


async def _services(source: Reads, env: Row, *families: Family) -> list[Service]:
    rows = [row for family in families for row in await source.of_parent(env.id, family.name)]
    return [Service(row, msgspec.json.decode(row.body)) for row in rows]


async def _shown(ctx: Context, source: Reads, env: Row, service: Service) -> list[Owned]:
    row, document = service
    if row.family == database.name:
        return [Owned(row, one) for one in _nominal_database(row, document)]
    port = main_port(document)
    ones = of_service(
        row.family,
        row.id,
        nominal_host(row.family, row.id),
        port["internal_port"] if port else None,
        await _outside(ctx, source, row.id, port),
    )
    return [Owned(row, one) for one in ones]


def _nominal_database(row: Row, document: Document) -> Iterable[BuiltIn]:
    kind, name = databases.kind_of(document["type"]), document["name"]
    host = nominal_database_host(row.id, name)
    values = databases.connection(kind.type, row.id, name, host, kind.port, kind.login, "", kind.database)
    secrets = databases.secret_keys(kind.type, row.id, name)
    for key, value in values.items():
        if key.startswith(LISTED):
            yield BuiltIn(owner=row.id, key=key, value="" if key in secrets else value, secret=key in secrets)


async def _outside(ctx: Context, source: Reads, service: str, port: Document | None) -> str | None:
    """The host at which a service is reached from outside, if its main port is public."""
    if port is None or not port["publicly_accessible"]:
        return None
    if port["protocol"] not in hosts.BY_NAME:
        return ctx.settings.gateway_host
    held = newest("" if port.get("is_default") else port["name"], await source.names(service))
    return f"{held.name}.{ctx.settings.gateway_domain}".lower() if held else None


async def visible(source: Reads, actor: Actor, owned: Iterable[Owned], levels: Sequence[Row]) -> list[Owned]:
    """Leaves out the variables of neighbours that this caller may not see. Those of a level are inherited."""
    here = {level.id for level in levels}
    sight = Sight(source, actor, levels[0].org)
    return [
        one
        for one in owned
        if one.owner.id in here or await sight.includes(one.owner.family, one.owner.id, one.owner.parent)
    ]


def rows_of(owned: Iterable[Owned], family: Family) -> list[Row]:
    """Those that are of this family, as if they were stored."""
    return [_row(owner, one, family) for owner, one in owned if one.secret == (family is secret)]


def _row(owner: Row, one: BuiltIn, family: Family) -> Row:
    made = stamp(owner.created)
    document: Document = {
        "id": one.id,
        "created_at": made,
        "updated_at": made,
        "key": one.key,
        "scope": "BUILT_IN",
        "variable_type": "BUILT_IN",
    }
    if family is variable:
        document["value"] = one.value
    if owner.family in {application.name, database.name}:
        name = msgspec.json.decode(owner.body)["name"]
        document |= {
            "service_id": owner.id,
            "service_name": name,
            "service_type": owner.family.upper(),
        }
    body = encode(msgspec.convert(document, family.view))
    tag = hashlib.sha256(body).hexdigest()[:16]
    return Row(one.id, family.name, owner.org, "", 0, one.key, owner.created, tag, body)


# As services find them


class Found(NamedTuple):
    entries: list[Entry]
    databases: list[Row]
    """Whose connections are among them."""
    warnings: list[str]


async def found(ctx: Context, source: Reads, levels: Sequence[Row], whereabouts: Whereabouts) -> Found:
    """All that a service of these levels is given, with the places where they really are."""
    own = [
        one for level in levels if level.family != "organization" for one in of_level(level.family, level.id)
    ]
    result = Found([_entry(one) for one in with_twins(own)], [], [])
    prefixes: dict[str, str] = {}
    for env in (level for level in levels if level.family == environment.name):
        for neighbour in await ctx.neighbours.of(source, env.id, application.name):
            result.entries.extend(await _neighbour(ctx, source, neighbour, whereabouts))
        for service in await _services(source, env, database):
            result.databases.append(service.row)
            result.entries.extend(await _connection(ctx, source, service, whereabouts, prefixes, result))
    return result


async def _neighbour(
    ctx: Context, source: Reads, service: Neighbour, whereabouts: Whereabouts
) -> list[Entry]:
    host, number = await whereabouts(service.id, service.name, service.port["internal_port"])
    outside = await _outside(ctx, source, service.id, service.port)
    return [
        _entry(one) for one in with_twins(of_service(application.name, service.id, host, number, outside))
    ]


async def _connection(
    ctx: Context,
    source: Reads,
    service: Service,
    whereabouts: Whereabouts,
    prefixes: dict[str, str],
    result: Found,
) -> list[Entry]:
    row, document = service
    kind, name = databases.kind_of(document["type"]), document["name"]
    known = await credentials_of(ctx, source, row)
    host, port = await whereabouts(row.id, name, kind.port)
    values = databases.connection(
        kind.type, row.id, name, host, port, known.login, known.password, known.database
    )
    secrets = databases.secret_keys(kind.type, row.id, name)
    prefix = databases.friendly(name, row.id)
    elder = prefixes.setdefault(prefix, name)
    if elder != name:
        result.warnings.append(
            f"{prefix}… are the variables of the database {elder}, not of {name}: rename one"
        )
        values = {key: value for key, value in values.items() if not key.startswith(prefix)}
    ones = [
        BuiltIn(owner=row.id, key=key, value=value, secret=key in secrets) for key, value in values.items()
    ]
    return [_entry(one) for one in ones]


def _entry(one: BuiltIn) -> Entry:
    return Entry(id=one.id, key=one.key, value=one.value, secret=one.secret, interpolated=False)


# What was derived from them


async def forget_derived(tx: Tx, service: Row) -> None:
    """What stood for a built-in variable of a service, or overrode one, goes with the service."""
    for id in _ids(service):
        for link in ("aliases", "overrides"):
            for derived in await tx.linked(id, link):
                await removed_with_derived(tx, derived)


async def refresh_derived(ctx: Context, tx: Tx, service: Row) -> None:
    """After a service was changed: what stands for its built-in variables shows their values of now."""
    env = await tx.get(service.parent)
    assert env is not None
    for _, one in await _shown(ctx, tx, env, Service(service, msgspec.json.decode(service.body))):
        if not one.secret:
            await _say_again(tx, one.id, one.value)


async def _say_again(tx: Tx, id: str, value: str) -> None:
    """Server-side news: the tags stay, and so do digests, which know of the change from its cause."""
    for alias in await tx.linked(id, "aliases"):
        document: Document = msgspec.json.decode(alias.body)
        if document["value"] != value:
            document["value"] = document["aliased_variable"]["value"] = value
            await tx.rewrite(alias.id, encode(document))
            await _say_again(tx, alias.id, value)


async def removed_with_derived(tx: Tx, row: Row) -> None:
    """A variable, and all that stands for it or overrides it."""
    for link in ("aliases", "overrides"):
        for derived in await tx.linked(row.id, link):
            await removed_with_derived(tx, derived)
    await tx.remove(row)


def _ids(service: Row) -> list[str]:
    """Of all built-in variables that a service may ever have."""
    if service.family == database.name:
        document = msgspec.json.decode(service.body)
        keys = [one.key for one in _nominal_database(service, document)]
    else:
        keys = [one.key for one in of_service(service.family, service.id, "", 1, "")]
    own = [one.key for one in of_level(service.family, service.id)]
    return [identity(service.id, key) for key in (*own, *keys)]
