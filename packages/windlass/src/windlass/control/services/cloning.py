"""Copies services and environments with their variables and secrets, in one transaction.

The copies are not deployed, and the services' data is not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

import msgspec
from msgspec import Struct
from msgspec.inspect import ListType, Metadata, StructType, Type, UnionType, type_info
from msgspec.structs import fields

from windlass.base import ids
from windlass.base.errors import Conflict, Forbidden, Invalid
from windlass.base.fair_share import FairShare
from windlass.control.context.call import Call, Reply, writes
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of, refuse_in_deletion
from windlass.control.records.disk_shares import refuse_above_share
from windlass.control.records.previews import PreviewMark
from windlass.control.records.served_names import known_as
from windlass.control.request.creating import NewResource, create_in
from windlass.control.request.hidden_fields import own_hidden
from windlass.control.request.paths import target
from windlass.control.request.permissions import allows, allows_below, is_visible
from windlass.control.request.reading import in_dialect
from windlass.control.request.references import check_reference
from windlass.control.services.environments import services_of
from windlass.control.variables.copying import CopiedLevel, VariableCopies
from windlass.core.access import Scope
from windlass.core.declare.document import Document, merge_patched
from windlass.core.declare.resource import Family, Spec
from windlass.core.declare.shapes import CloneRequest, can_be_cloned
from windlass.core.declare.stored import NamedDocument
from windlass.core.deploy.hosts import label
from windlass.families.cluster import cluster
from windlass.families.deployment_restriction import DeploymentRestriction, deployment_restriction
from windlass.families.environment import Environment, EnvironmentCloneRequest, environment
from windlass.families.project import project
from windlass.store import Row, Tx


@writes("*.clone")
async def clone(ctx: Context, tx: Tx, call: Call) -> Reply:
    _, _, reply = await clone_service(ctx, tx, call)
    return reply


async def clone_service(ctx: Context, tx: Tx, call: Call) -> tuple[Row, Row, Reply]:
    """Copies a service as the body of the call says. Returns the original, the copy and the reply."""
    service, asked = await target(tx, call), call.sent(CloneRequest)
    place = await _environment(tx, call, service, asked.environment_id)
    home = await tx.resources.find(environment.name, service.parent)
    if home is not None and home.id != place.id:
        _refuse_fork(home)
    await refuse_above_share(tx, service.org)
    await tx.foresee_copy(service)
    names = ctx.registry[service.family].names or "name"
    copy, reply = await _copy(ctx, tx, call, service, place, {names: asked.name})
    await _copy_restrictions(ctx, tx, call, service, copy)
    await VariableCopies(ctx, tx, call, [CopiedLevel(service, copy)]).make()
    return service, copy, reply


def _refuse_fork(original_row: Row) -> None:
    """Refuses to copy the code of a fork out of the environment of its preview: elsewhere, it would get
    secrets, and nobody would approve its commits."""
    mark = original_row.read(PreviewMark).preview
    if mark and mark.without_secrets:
        raise Conflict(
            "Clone the environment of which this is the preview: it has the code of a fork, which gets no "
            "secrets, and each of whose commits is approved"
        )


async def _environment(tx: Tx, call: Call, service: Row, id: str) -> Row:
    row = await tx.resources.find(environment.name, id)
    if row is None or row.org != service.org or not await is_visible(tx, call.actor, row):
        raise Invalid("environment_id: choose another one: no environment of this organization has this id")
    if not await allows(tx, call.actor, Scope.WRITE, row):
        raise Forbidden("environment_id: use a token that may write in this environment")
    return row


@writes("environment.clone")
async def clone_environment(ctx: Context, tx: Tx, call: Call) -> Reply:
    _, stored = await clone_whole(ctx, tx, call)
    return Reply(in_dialect(call, stored.body), stored.tag)


async def clone_whole(ctx: Context, tx: Tx, call: Call) -> tuple[Row, Row]:
    """Copies an environment as the body of the call says. Returns the original and the copy."""
    original, asked = await target(tx, call), call.sent(EnvironmentCloneRequest)
    await refuse_in_deletion(tx, original.id)
    _refuse_fork(original)
    mode = asked.mode or original.read(Environment).mode
    place = await _project(tx, call, original, asked.project_id or None, mode)
    changes: Document = {"name": asked.name, "mode": mode}
    if asked.cluster_id:
        await check_reference(tx, "cluster_id", cluster.name, asked.cluster_id, original.org, call.actor)
        changes |= {"cluster_id": asked.cluster_id, "cluster": None}
    copy = EnvironmentCopy(changes, with_restrictions=True)
    return original, await copy_environment(ctx, tx, call, original, place, copy)


class EnvironmentCopy(Struct, frozen=True):
    """How the copy of an environment differs from the original."""

    changes: Document
    """The fields of the environment that differ."""
    of_service: Callable[[Row], Document | None] = lambda service: {}
    """Returns the fields of a service that differ; None for a service that is left out."""
    extras: Mapping[str, object] = {}
    """Fields that the server adds to the environment."""
    id: str = ""
    with_secrets: bool = True
    with_restrictions: bool = False
    """Whether the deployment restrictions of services are copied. The pull request chooses what a preview
    deploys."""


async def copy_environment(
    ctx: Context, tx: Tx, call: Call, original_row: Row, parent: Row, request: EnvironmentCopy
) -> Row:
    """Copies an environment with its services and variables. Returns the copy."""
    await refuse_above_share(tx, original_row.org)
    await tx.foresee_copy(original_row)
    copy, _ = await _copy(
        ctx, tx, call, original_row, parent, request.changes, extras=request.extras, id=request.id
    )
    levels, share = [CopiedLevel(original_row, copy)], FairShare()
    for service in await _by_names(tx, await services_of(ctx, tx, original_row)):
        if (changes := request.of_service(service)) is None:
            continue
        if can_be_cloned not in ctx.registry[service.family].traits:
            raise Conflict(f"Delete {name_of(service)} first: a {service.family} cannot be copied")
        copied, _ = await _copy(ctx, tx, call, service, copy, changes)
        if request.with_restrictions:
            await _copy_restrictions(ctx, tx, call, service, copied)
        levels.append(CopiedLevel(service, copied))
        await share.pause()
    await VariableCopies(ctx, tx, call, levels, with_secrets=request.with_secrets).make()
    stored = await tx.resources.get(copy.id)
    assert stored is not None
    return stored


async def _copy_restrictions(ctx: Context, tx: Tx, call: Call, service: Row, copy: Row) -> None:
    for row in await tx.resources.of_parent(service.id, deployment_restriction.name):
        spec = row.read(DeploymentRestriction)
        await create_in(ctx, tx, NewResource(deployment_restriction, spec, copy, call.actor, call))


async def _by_names(tx: Tx, services: list[Row]) -> list[Row]:
    """Returns the services in the order in which they are copied.

    If several services have the same name, the one that others reach by this plain name comes first, so that
    its copy gets the plain name as well.
    """
    found = {}
    for service in services:
        name = service.read(NamedDocument).name
        held = known_as(name, await tx.names.of(service.id))
        found[service.id] = held is not None and held.name.endswith(f" {label(name)}")
    return sorted(services, key=lambda service: not found[service.id])


async def _project(tx: Tx, call: Call, original_row: Row, id: str | None, mode: str) -> Row:
    """Returns the project for the copy. Raises Forbidden unless the caller may create an environment of this
    mode there."""
    if id:
        await check_reference(tx, "project_id", project.name, id, original_row.org, call.actor)
    row = await tx.resources.find(project.name, id or original_row.parent)
    assert row is not None
    if not await allows_below(tx, call.actor, Scope.WRITE, row, environment.name, mode):
        raise Forbidden("project_id: use a token that may create environments of this mode in this project")
    return row


async def _copy(
    ctx: Context,
    tx: Tx,
    call: Call,
    original_row: Row,
    parent: Row,
    changes: Document,
    *,
    extras: Mapping[str, object] = MappingProxyType({}),
    id: str = "",
) -> tuple[Row, Reply]:
    family = ctx.registry[original_row.family]
    document = _without_ids(family, msgspec.json.decode(original_row.body))
    spec = merge_patched(family, document, own_hidden(ctx, original_row), changes)
    new = NewResource(
        family,
        spec,
        parent,
        call.actor,
        call,
        extras=extras,
        copy_of=original_row,
        id=id or ids.new_id(),
    )
    reply = await create_in(ctx, tx, new)
    copy = await tx.resources.get(new.id)
    assert copy is not None
    return copy, reply


def _without_ids(family: Family, document: Document) -> Document:
    """Returns a document without the ids of its parts, such as ports and volumes, so that they get new ids.
    References to other resources keep their ids."""
    references = _references(family.spec)
    return {
        name: [_without_id(item) for item in value]
        if isinstance(value, list) and name not in references
        else value
        for name, value in document.items()
    }


def _without_id(item: object) -> object:
    return {name: value for name, value in item.items() if name != "id"} if isinstance(item, dict) else item


@cache
def _references(spec: type[Spec]) -> frozenset[str]:
    """Returns the names of the lists that contain references to other resources: their items have a required
    `id`."""
    return frozenset(field.encode_name for field in fields(spec) if _refers(type_info(field.type)))


def _refers(kind: Type) -> bool:
    match kind:
        case Metadata(type=inner) | ListType(item_type=inner):
            return _refers(inner)
        case UnionType(types=inners):
            return any(map(_refers, inners))
        case StructType(fields=parts):
            return any(part.encode_name == "id" and part.required for part in parts)
    return False
