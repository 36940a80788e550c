"""Container registries. They are checked when saved and on request, and cannot be deleted while services use
them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from windlass.base.clock import stamp
from windlass.base.errors import Conflict, Invalid
from windlass.base.fair_share import apply_to_each
from windlass.control.context.call import Call, Reply, encode, prepares, reads, results, writes
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of, status_of
from windlass.control.records.reachability import status_as_reachable
from windlass.control.records.shown_deployments import shown_status
from windlass.control.request.behaviour import Behaviour, Change, Draft, behaves
from windlass.control.request.changing import changeable
from windlass.control.request.hidden_fields import decrypt_hidden
from windlass.control.request.paths import parent_to_create_in, target
from windlass.control.request.permissions import is_visible
from windlass.control.request.references import check_addresses
from windlass.control.services.services import freshness
from windlass.control.workloads.registries import ask_aws, open_registry, registry_settings
from windlass.core.declare.document import (
    Document,
    merge_patched,
    replace_spec,
    sent_in,
    value_at,
    with_hidden,
)
from windlass.core.declare.fields import absent
from windlass.core.declare.resource import Spec, Verb
from windlass.core.declare.stored import NamedDocument, rewritten
from windlass.engines.registries import REGISTRY_KINDS, LoginSource, RegistryKind, other_registry
from windlass.families.cluster import cluster
from windlass.families.container_registry import (
    ContainerRegistry,
    RateLimit,
    RegistryCheck,
    container_registry,
)
from windlass.registries.client import RegistryClient
from windlass.registries.refusals import Problem, RegistryFailure
from windlass.store import Reads, Row, Tx, cluster_topic


@reads("*.associatedServices")
async def list_users(ctx: Context, call: Call) -> Reply:
    users = await visible_users(ctx, call)
    described = await apply_to_each(lambda service: _describe(ctx, service), users)
    return Reply(results([*map(encode, described)]))


async def visible_users(ctx: Context, call: Call) -> list[Row]:
    """Returns the services that use the resource of a call and that the caller may see."""
    source = ctx.store.reads
    users = await services_that_use(ctx, source, await target(source, call))
    visible = await apply_to_each(lambda user: is_visible(source, call.actor, user), users)
    return [user for user, is_shown in zip(users, visible, strict=True) if is_shown]


async def services_that_use(ctx: Context, reads: Reads, resource: Row) -> list[Row]:
    """Returns the services that refer to a resource, without duplicates."""
    users = {user.id: user for user in await reads.links.users(resource.id)}
    return [user for user in users.values() if user.family in ctx.kinds]


async def _describe(ctx: Context, service: Row) -> Mapping[str, object]:
    _, environment, project, *_ = await ctx.store.reads.tree.above(service.id)
    return {
        "project_id": project.id,
        "project_name": project.read(NamedDocument).name,
        "environment_id": environment.id,
        "environment_name": environment.read(NamedDocument).name,
        "service_id": service.id,
        "service_name": name_of(service),
        "service_type": ctx.kinds[service.family].service_type(service),
    }


_CHECK_NAME: Final = "check"
_MAX_NAMED: Final = 5
_FIELDS: Final = {Problem.LOGIN: "config", Problem.RIGHT: "config"}
"""The field to report for a kind of problem; by default the address."""


@prepares(f"{container_registry.name}.{Verb.CREATE}")
async def check_new(ctx: Context, call: Call) -> None:
    """Checks a registry before it is stored."""
    await parent_to_create_in(ctx.store.reads, call)
    spec = call.sent(ContainerRegistry)
    container_registry.normalise(spec)
    call.prepared[_CHECK_NAME] = await _check_to_save(ctx, spec)


@prepares(*(f"{container_registry.name}.{verb}" for verb in (Verb.UPDATE, Verb.PATCH)))
async def check_changed(ctx: Context, call: Call) -> None:
    """Checks a registry before a changed address or login is stored."""
    row = await target(ctx.store.reads, call)
    before: Document = msgspec.json.decode(row.body)
    hidden = decrypt_hidden(ctx, row)
    changes = changeable(container_registry, before, sent_in(call.sent(Spec)))
    merge = merge_patched if call.operation.handler.endswith(f".{Verb.PATCH}") else replace_spec
    spec = merge(container_registry, before, hidden, changes)
    assert isinstance(spec, ContainerRegistry)
    container_registry.normalise(spec)
    check_addresses(container_registry, with_hidden(before, hidden), spec, changes)
    former = registry_settings(ctx, row)
    if (spec.url, spec.config) == (former.url, former.config):
        return
    call.prepared[_CHECK_NAME] = await _check_to_save(ctx, spec)
    if value_at(changes, "url") in (msgspec.UNSET, None) and spec.url != former.url:
        setattr(call.body, "url", spec.url)  # noqa: B010 (the body is a struct that the family builds)


async def _check_to_save(ctx: Context, spec: ContainerRegistry) -> RegistryCheck:
    """Checks a registry, and returns the outcome. Raises Invalid if the registry responds but cannot be
    used."""
    try:
        if REGISTRY_KINDS[spec.kind].login is LoginSource.AWS and not spec.url:
            spec.url = (await ask_aws(ctx, spec)).url
        registry = await open_registry(ctx, spec)
        await registry.check()
    except RegistryFailure as failure:
        if not spec.url:
            raise Invalid(f"url: name the address of the registry: {failure}") from failure
        if not failure.is_silent:
            raise Invalid(f"{_FIELDS.get(failure.problem, 'url')}: {failure}") from failure
        return _report_failure(ctx, failure)
    return _report_success(ctx, registry)


def _report_success(ctx: Context, registry: RegistryClient) -> RegistryCheck:
    allowance = registry.allowance
    limit = (
        RateLimit(
            limit=allowance.limit, remaining=allowance.remaining, window_seconds=allowance.window_seconds
        )
        if allowance
        else absent
    )
    return RegistryCheck(status="OK", rate_limit=limit, checked_at=stamp(ctx.clock.now()))


def _report_failure(ctx: Context, failure: RegistryFailure) -> RegistryCheck:
    return RegistryCheck(
        status="FAILED",
        problem=failure.problem.value,
        message=str(failure),
        checked_at=stamp(ctx.clock.now()),
    )


@prepares(f"{container_registry.name}.check")
async def look(ctx: Context, call: Call) -> None:
    spec = registry_settings(ctx, await target(ctx.store.reads, call))
    try:
        registry = await open_registry(ctx, spec)
        await registry.check()
        call.prepared[_CHECK_NAME] = _report_success(ctx, registry)
    except RegistryFailure as failure:
        call.prepared[_CHECK_NAME] = _report_failure(ctx, failure)


@writes(f"{container_registry.name}.check")
async def note_check(ctx: Context, tx: Tx, call: Call) -> Reply:
    """Stores the outcome of a check in the registry's document. The tag does not change, because no client
    has changed the registry."""
    row, outcome = await target(tx, call), msgspec.to_builtins(call.prepared[_CHECK_NAME])
    await tx.resources.rewrite(row.id, rewritten(row.body, {_CHECK_NAME: outcome}))
    return Reply(encode(outcome))


@behaves(container_registry)
class ContainerRegistries(Behaviour[ContainerRegistry]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[ContainerRegistry]) -> None:
        draft.extras[_CHECK_NAME] = msgspec.to_builtins(draft.extras[_CHECK_NAME])

    async def updating(self, ctx: Context, tx: Tx, change: Change[ContainerRegistry]) -> None:
        if _CHECK_NAME in change.extras:
            change.extras[_CHECK_NAME] = msgspec.to_builtins(change.extras[_CHECK_NAME])

    async def updated(self, ctx: Context, tx: Tx, row: Row) -> None:
        """Updates the services whose documents contain this registry."""
        for service in await services_that_use(ctx, tx, row):
            changes = ctx.kinds[service.family].with_registry(service, row)
            await tx.resources.rewrite(service.id, rewritten(service.body, changes))
        for user in await tx.links.users_of_family(row.id, cluster.name):
            tx.nudge(cluster_topic(user.id))

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        if clusters := await tx.links.users_of_family(row.id, cluster.name):
            shown = ", ".join(sorted(each.read(NamedDocument).name for each in clusters)[:_MAX_NAMED])
            raise Conflict(f"Choose another registry_id for the clusters that use it first ({shown})")
        names = sorted(name_of(service) for service in await services_that_use(ctx, tx, row))
        if names:
            shown = ", ".join(names[:_MAX_NAMED]) + (", …" if len(names) > _MAX_NAMED else "")
            raise Conflict(
                f"Give the services that use it another registry, or delete them: {len(names)} use it "
                f"({shown})"
            )

    def refuses(self, row: Row, address: str) -> str:
        """Returns the reason why an image does not belong to the registry; empty if it does."""
        spec = row.read(ContainerRegistry)
        if other := other_registry(spec.url or "", address):
            return (
                f"image_name is relative to the registry, and begins with {other}: leave the host out, or "
                f"choose the registry of {other}"
            )
        return ""


# Services that use a registry, and kinds of registries


@reads(f"{container_registry.name}.containerStatus")
async def container_statuses(ctx: Context, call: Call) -> Reply:
    async def shown(service: Row) -> Document:
        status = await status_as_reachable(ctx, await status_of(ctx.store.reads, service))
        return shown_status(call, service, status, await freshness(ctx, ctx.store.reads, service, status))

    statuses = await apply_to_each(shown, await visible_users(ctx, call))
    return Reply(results([*map(encode, statuses)]))


@reads("listAvailableContainerRegistry")
async def list_available(ctx: Context, call: Call) -> Reply:
    return Reply(_AVAILABLE)


def _describe_kind(registry_kind: str, kind: RegistryKind) -> Mapping[str, object]:
    return {
        "kind": registry_kind,
        "required_config": dict.fromkeys(kind.required, "string"),
        "is_mandatory": bool(kind.required),
        "optional_config": dict.fromkeys(kind.optional, "string"),
        "default_url": kind.url,
    }


_AVAILABLE: Final = encode({"results": [_describe_kind(word, kind) for word, kind in REGISTRY_KINDS.items()]})
