"""Shows what a clone would make: the clone is made in a transaction, compared with the original, and undone.

So a preview is refused exactly where the clone would be, and cannot differ from it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from msgspec import Struct, field

from windlass.base.fair_share import FairShare
from windlass.control.context.call import Call, Reply, encode, reads
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of
from windlass.control.records.running_hours import hours_of
from windlass.control.services.cloning import clone_service, clone_whole
from windlass.control.services.deployment_restrictions import restrictions_of
from windlass.control.services.environments import services_of
from windlass.core.declare.document import Document
from windlass.core.declare.stored import NamedDocument
from windlass.core.settings.values import changed_in
from windlass.families.domain import CustomDomain, domain
from windlass.families.variable import Levelled, is_secret, secret, variable
from windlass.store import Row, Tx

_NO_DATA: Final = "Data is not copied: the copy begins empty"
_NO_DOMAIN: Final = "A domain leads to one service: add another name to the copy"
_NOT_SEEN: Final = "It refers to a variable that the copy does not see"
_NO_HOURS: Final = "The copy runs at all hours until it gets running hours of its own"
_NO_DEPLOYMENTS: Final = "Deployments, builds and logs stay with the original: deploy the copy"


class _NamedByKey(Struct):
    key: str


class _Mounted(Struct):
    mount_point: str


class _WithStorage(Struct):
    storage: list[_Mounted] | int = field(default_factory=list)
    """Volumes; of a database, the size of its own."""


class _Undone(Exception):
    """Ends the transaction of a preview, so that nothing of it is stored."""

    def __init__(self, preview: Document) -> None:
        self.preview = preview


@reads("*.clonePreview")
async def preview_service(ctx: Context, call: Call) -> Reply:
    async def make(tx: Tx) -> Document:
        original, copy, _ = await clone_service(ctx, tx, call)
        lacking = [*await _not_cloned(tx, original, copy), _of(original, "DEPLOYMENTS", "", _NO_DEPLOYMENTS)]
        services = [await _cloned_service(ctx, tx, original, copy)]
        return _preview(original, copy, services, lacking)

    return await _undo(ctx, make)


@reads("environment.clonePreview")
async def preview_environment(ctx: Context, call: Call) -> Reply:
    async def make(tx: Tx) -> Document:
        original, copy = await clone_whole(ctx, tx, call)
        lacking = await _not_cloned(tx, original, copy, is_environment=True)
        if hours_of(original) and not hours_of(copy):
            lacking.append(_of(None, "RUNNING_HOURS", name_of(original), _NO_HOURS))
        services, share = [], FairShare()
        for before, after in await _pairs(ctx, tx, original, copy):
            services.append(await _cloned_service(ctx, tx, before, after))
            lacking += await _not_cloned(tx, before, after)
            await share.pause()
        lacking.append(_of(None, "DEPLOYMENTS", name_of(original), _NO_DEPLOYMENTS))
        stages = await tx.deployment_stages.of_environment(copy.id)
        rows = [await tx.resources.get(stage.id) for stage in stages]
        names = [row.read(NamedDocument).name for row in rows if row]
        variables = await _variables(tx, copy)
        return _preview(original, copy, services, lacking) | {"stages": names, "variables": variables}

    return await _undo(ctx, make)


async def _undo(ctx: Context, make: Callable[[Tx], Awaitable[Document]]) -> Reply:
    async def write(tx: Tx) -> None:
        raise _Undone(await make(tx))

    try:
        await ctx.store.write(write)
    except _Undone as undone:
        return Reply(encode(undone.preview))
    raise AssertionError("a preview is always undone")


def _preview(original: Row, copy: Row, services: list[Document], lacking: list[Document]) -> Document:
    return {"id": original.id, "name": name_of(copy), "services": services, "not_cloned": lacking}


async def _pairs(ctx: Context, tx: Tx, original: Row, copy: Row) -> Iterator[tuple[Row, Row]]:
    """Returns the services of an environment, each with its copy. Names may repeat: copies of equal names are
    in the order of their originals."""
    copies: dict[tuple[str, str], list[Row]] = {}
    for row in await services_of(ctx, tx, copy):
        copies.setdefault((row.family, name_of(row)), []).append(row)
    originals = await services_of(ctx, tx, original)
    return iter([(row, copies[row.family, name_of(row)].pop(0)) for row in originals])


async def _cloned_service(ctx: Context, tx: Tx, original: Row, copy: Row) -> Document:
    stage = await tx.deployment_stages.record_of(copy.id)
    return {
        "id": original.id,
        "name": name_of(copy),
        "service_type": ctx.registry[copy.family].enum_value,
        "stage": stage.name if stage else "",
        "variables": await _variables(tx, copy),
        "advanced_settings": sorted(changed_in(copy.body)),
        "deployment_restrictions": [one.value for one in await restrictions_of(tx, copy.id)],
    }


async def _variables(tx: Tx, level: Row) -> list[Document]:
    return [
        {
            "key": row.read(_NamedByKey).key,
            "is_secret": is_secret(row.family),
            "variable_type": row.read(Levelled).variable_type,
        }
        for row in await _rows(tx, level)
    ]


async def _rows(tx: Tx, level: Row) -> list[Row]:
    return [
        row for family in (variable, secret) for row in await tx.resources.of_parent(level.id, family.name)
    ]


async def _not_cloned(tx: Tx, original: Row, copy: Row, *, is_environment: bool = False) -> list[Document]:
    named = None if is_environment else original
    copied = {(row.family, row.read(_NamedByKey).key) for row in await _rows(tx, copy)}
    lacking = [
        _of(named, "SECRET" if is_secret(row.family) else "VARIABLE", row.read(_NamedByKey).key, _NOT_SEEN)
        for row in await _rows(tx, original)
        if (row.family, row.read(_NamedByKey).key) not in copied
    ]
    if is_environment:
        return lacking
    lacking += [_of(named, "DATA", name, _NO_DATA) for name in _data_of(original)]
    lacking += [
        _of(named, "DOMAIN", row.read(CustomDomain).domain, _NO_DOMAIN)
        for row in await tx.resources.of_parent(original.id, domain.name)
    ]
    return lacking


def _data_of(service: Row) -> list[str]:
    """Returns the names of the parts of a service that have data: its volumes, or a database itself."""
    storage = service.read(_WithStorage).storage
    if isinstance(storage, int):
        return [name_of(service)]
    return [volume.mount_point for volume in storage]


def _of(service: Row | None, kind: str, name: str, reason: str) -> Document:
    service_name = name_of(service) if service else ""
    return {"kind": kind, "service_name": service_name, "name": name or service_name, "reason": reason}
