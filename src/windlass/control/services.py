"""What is done with applications and databases: deploy, stop, restart, go back, cancel; and how they are."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec

from windlass.base import ids
from windlass.base.clock import stamp
from windlass.base.errors import Conflict, Missing
from windlass.builders.git import GitError
from windlass.control.builds import commit_document
from windlass.control.built_ins import forget_derived, refresh_derived
from windlass.control.context import Call, Context, Reply, encode, reads, results, writes
from windlass.control.credentials import give_credentials
from windlass.control.deployments import (
    accept,
    cancel,
    particulars,
    shown_deployment,
    shown_status,
    status_of,
)
from windlass.control.git_tokens import source_of
from windlass.control.inputs import is_current
from windlass.control.names import reserve_declared
from windlass.control.ports import take_public_port
from windlass.control.reading_logs import log_reply
from windlass.control.resources import Behaviour, Draft, behaves, paging, place, target
from windlass.control.routes import links_of
from windlass.core.built_ins import nominal_database_host
from windlass.core.databases import hindrance, kind_of
from windlass.core.document import Document
from windlass.core.resource import Base
from windlass.core.shapes import Autoscaling
from windlass.core.states import Do, Progress, State
from windlass.engines.engine import EngineError
from windlass.families.application import Application, application
from windlass.families.database import database
from windlass.store.store import DeploymentRow, Reads, Row, StatusRow, Tx

ALL = 2**31 - 1
BASE = Base.__struct_encode_fields__


@behaves(application, database)
class Services(Behaviour):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft) -> None:
        _identify_parts(draft.spec, {})
        draft.give(**_autoscaling(draft.spec, {}, draft.id, draft.org, stamp(tx.now)))
        draft.give(maximum_cpu=64_000, maximum_memory=1_048_576)
        if draft.family is database:
            give_credentials(ctx, draft)
            draft.give(**await _address(ctx, tx, draft.id, draft.spec))

    async def created(self, ctx: Context, tx: Tx, draft: Draft) -> None:
        await tx.add_status(draft.id, draft.org, State.READY)
        await reserve_declared(ctx, tx, draft.family.name, draft.id)

    async def updating(
        self, ctx: Context, tx: Tx, row: Row, before: Document, spec: Any, extras: Document
    ) -> None:
        _identify_parts(spec, before)
        extras |= _autoscaling(spec, before, row.id, row.org, stamp(tx.now))
        old, new = before.get("git_repository"), getattr(spec, "git_repository", None)
        if old and new and old["url"] == new.url:
            kept = {name: value for name, value in old.items() if name.startswith("deployed_commit")}
            extras["git_repository"] = {**msgspec.to_builtins(new), **kept}
        if row.family == database.name:
            await _refuse_unreadable_data(tx, row, before["version"], spec)
            extras |= await _address(ctx, tx, row.id, spec)

    async def updated(self, ctx: Context, tx: Tx, row: Row, before: Document, after: Document) -> None:
        await reserve_declared(ctx, tx, row.family, row.id)
        await refresh_derived(ctx, tx, row)

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        await forget_derived(tx, row)


async def _refuse_unreadable_data(tx: Tx, row: Row, before: str, spec: Any) -> None:
    """Once there is data, not every version can go on with it."""
    status = await status_of(tx, row)
    if status.deployed_at is not None and (why := hindrance(spec.type, before, spec.version)):
        raise Conflict(why)


def _identify_parts(spec: Any, before: Document) -> None:
    """Ports and volumes keep their id from one version to the next."""
    if not isinstance(spec, Application):
        return
    _identify(spec.ports, "internal_port", before.get("ports", ()))
    _identify(spec.storage, "mount_point", before.get("storage", ()))


def _identify(items: Sequence[Any], key: str, before: Iterable[Document]) -> None:
    """Gives each item without an id that of the former item with the same key, or else a new one."""
    named = {item.id for item in items if item.id}
    known = {old[key]: old["id"] for old in before if old["id"] not in named}
    for item in items:
        item.id = item.id or known.pop(getattr(item, key), None) or ids.new_id()


def _autoscaling(spec: Any, before: Document, service: str, org: str, now: str) -> Document:
    """Returns the autoscaling policy with an id and base fields, which it keeps until it is removed."""
    policy = getattr(spec, "autoscaling", None)
    if not isinstance(policy, Autoscaling):
        return {}
    old = before.get("autoscaling") or {}
    sent = msgspec.to_builtins(policy)
    older = old.get("scalers", [])
    scalers = [
        _identified(_with_trigger(scaler, was, org, now), was, now)
        for scaler, was in zip(sent["scalers"], [*older, *[{}] * len(sent["scalers"])], strict=False)
    ]
    return {"autoscaling": _identified({**sent, "scalers": scalers, "service_id": service}, old, now)}


def _with_trigger(scaler: Document, old: Document, org: str, now: str) -> Document:
    if not (trigger := scaler.get("trigger_authentication")):
        return scaler
    was = old.get("trigger_authentication") or {}
    return {**scaler, "trigger_authentication": _identified({**trigger, "organization_id": org}, was, now)}


def _identified(new: Document, old: Document, now: str) -> Document:
    """Adds the base fields: the former ones, with a new `updated_at` if the part has changed."""
    same = {**new, **{name: old.get(name) for name in BASE}} == old
    created = old.get("created_at") or now
    return {
        **new,
        "id": old.get("id") or ids.new_id(),
        "created_at": created,
        "updated_at": old["updated_at"] if same else now,
    }


async def _address(ctx: Context, tx: Tx, service: str, spec: Any) -> Document:
    """Returns host and port of a database: public ones, or else those inside its environment."""
    if spec.accessibility != "PUBLIC":
        return {"host": nominal_database_host(service, spec.name), "port": kind_of(spec.type).port}
    try:
        return {"host": ctx.public_host, "port": await take_public_port(tx, service)}
    except EngineError as error:
        raise Conflict(f"accessibility: {error}") from error


# Deeds


@writes("*.deploy")
async def deploy(ctx: Context, tx: Tx, call: Call) -> Reply:
    commit = getattr(call.body, "git_commit_id", None) or None
    return await _accepted(tx, call, await target(tx, call), Do.DEPLOY, git_commit_id=commit)


@writes("*.redeploy")
async def redeploy(ctx: Context, tx: Tx, call: Call) -> Reply:
    service = await target(tx, call)
    return await _accepted(tx, call, service, Do.DEPLOY, **await same_again(tx, service))


async def same_again(tx: Tx, service: Row) -> dict[str, Any]:
    """The version that serves, or that was deployed last; if there was none, whatever is newest."""
    status = await status_of(tx, service)
    past = await tx.deployments(service.id, 100)
    good = [one for one in past if one.action == Do.DEPLOY and one.status == Progress.SUCCEEDED]
    last = next((one for one in past if one.id == status.serving), good[0] if good else None)
    if last is None:
        return {}
    return {"git_commit_id": (particulars(last).commit or {}).get("git_commit_id"), "of": last.id}


@writes("*.restart-service")
async def restart(ctx: Context, tx: Tx, call: Call) -> Reply:
    service = await target(tx, call)
    status = await status_of(tx, service)
    if status.serving is None:
        raise Conflict(f"{_name(service)} is not running: deploy it instead")
    return await _accepted(tx, call, service, Do.RESTART)


@writes("*.stop")
async def stop(ctx: Context, tx: Tx, call: Call) -> Reply:
    return await _accepted(tx, call, await target(tx, call), Do.STOP)


@writes("*.uninstall")
async def uninstall(ctx: Context, tx: Tx, call: Call) -> Reply:
    service = await target(tx, call)
    status = await status_of(tx, service)
    if status.state == State.READY and not await tx.open_deployments(service.id):
        return Reply(status=204)
    return await _accepted(tx, call, service, Do.UNINSTALL)


@writes("*.rollback")
async def rollback(ctx: Context, tx: Tx, call: Call) -> Reply:
    service = await target(tx, call)
    earlier = await _earlier(tx, service, getattr(call.body, "deployment_id", None) or None)
    story = particulars(earlier)
    if story.made is None:
        raise Conflict("deployment_id: that deployment built nothing that could be started again")
    facts = {"made": story.made, "commit": story.commit, "git_commit_id": story.git_commit_id}
    return await _accepted(tx, call, service, Do.DEPLOY, of=earlier.id, **facts)


async def _earlier(tx: Tx, service: Row, wanted: str | None) -> DeploymentRow:
    if wanted:
        row = await tx.deployment(wanted)
        if row is None or row.service != service.id:
            raise Missing(f"deployment_id: {_name(service)} has no deployment with this id")
        if row.status != Progress.SUCCEEDED:
            raise Conflict("deployment_id: that deployment never ran; choose one that SUCCEEDED")
        return row
    status = await status_of(tx, service)
    past = await tx.deployments(service.id, 1000)
    serving = next((one for one in past if one.id == status.serving), None)
    made = particulars(serving).made if serving else None
    for row in past:
        if serving and row.number >= serving.number:
            continue
        story = particulars(row)
        other = made is None or (story.made is not None and story.made.artifact != made.artifact)
        if row.status == Progress.SUCCEEDED and story.made and other:
            return row
    raise Conflict(f"{_name(service)} has no earlier version to go back to")


@writes("*.cancelDeployment")
async def cancel_all(ctx: Context, tx: Tx, call: Call) -> Reply:
    service = await target(tx, call)
    waiting = await tx.open_deployments(service.id)
    if not waiting:
        raise Conflict(f"No deployment of {_name(service)} waits or is under way")
    status = await cancel(tx, service, waiting, call)
    last = await tx.deployment(waiting[-1].id)
    assert last is not None
    return Reply(encode(shown_deployment(call, service, last, status, await freshness(tx, service, status))))


async def _accepted(tx: Tx, call: Call, service: Row, do: Do, **facts: Any) -> Reply:
    deployment, status = await accept(tx, service, do, call, **facts)
    fresh = await freshness(tx, service, status)
    return Reply(encode(shown_deployment(call, service, deployment, status, fresh)))


def _name(service: Row) -> str:
    return str(msgspec.json.decode(service.body)["name"])


# How it is


@reads("*.status")
async def read_status(ctx: Context, call: Call) -> Reply:
    service = await target(ctx.store.reads, call)
    status = await status_of(ctx.store.reads, service)
    fresh = await freshness(ctx.store.reads, service, status)
    return Reply(encode(shown_status(call, service, status, fresh)))


async def freshness(source: Reads, service: Row, status: StatusRow) -> str:
    """Whether what runs is what would be deployed now."""
    if status.deployed_at is None:
        return "NEVER_DEPLOYED"
    if status.state.endswith("_ERROR") or not await is_current(source, service, status.digest):
        return "OUT_OF_DATE"
    return "UP_TO_DATE"


@reads("*.link")
async def read_links(ctx: Context, call: Call) -> Reply:
    service = await target(ctx.store.reads, call)
    return Reply(results([encode(link) for link in await links_of(ctx, ctx.store.reads, service)]))


@reads("application.commit")
async def read_commits(ctx: Context, call: Call) -> Reply:
    service = await target(ctx.store.reads, call)
    try:
        source = await source_of(ctx, ctx.store.reads, service, None)
        commits = await ctx.listings.commits(service.org, service.id, source)
    except GitError as error:
        raise Conflict(f"The repository cannot be read: {error}") from error
    return Reply(results([encode(commit_document(commit)) for commit in commits]))


# Past deployments


@reads("deployment.list")
async def list_deployments(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    service, status, fresh = await _seen_service(source, call)
    page, size = paging(call)
    rows = await source.deployments(service.id, size, status.deployments - (page - 1) * size)
    shown = [encode(shown_deployment(call, service, row, status, fresh)) for row in rows]
    return Reply(results(shown, page, size, status.deployments))


@reads("deployment.read")
async def read_deployment(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    service, status, fresh = await _seen_service(source, call)
    row = await _deployment(source, call, service)
    body = encode(shown_deployment(call, service, row, status, fresh))
    return Reply(body, hashlib.sha256(body).hexdigest()[:16])


@reads("deployment.log")
async def read_build_log(ctx: Context, call: Call) -> Reply:
    service, _, _ = await _seen_service(ctx.store.reads, call)
    deployment = await _deployment(ctx.store.reads, call, service)
    return await log_reply(ctx, call, service, deployment.id)


@writes("deployment.cancel")
async def cancel_one(ctx: Context, tx: Tx, call: Call) -> Reply:
    service, _, fresh = await _seen_service(tx, call)
    row = await _deployment(tx, call, service)
    if row.id not in {one.id for one in await tx.open_deployments(service.id)}:
        raise Conflict(f"This deployment has ended: it is {row.status}")
    status = await cancel(tx, service, [row], call)
    after = await tx.deployment(row.id)
    assert after is not None
    return Reply(encode(shown_deployment(call, service, after, status, fresh)))


@reads("*.deploymentHistory")
async def history(ctx: Context, call: Call) -> Reply:
    """As existing clients list it: what was deployed, and whether it went well, once it has ended."""
    source = ctx.store.reads
    service = await target(source, call)
    page, size = paging(call)
    status, going = await status_of(source, service), await source.open_deployments(service.id)
    first = nth_without(status.deployments, (page - 1) * size, {one.number for one in going})
    rows = await source.ended_deployments(service.id, size, first)
    total = status.deployments - len(going)
    name = _name(service)
    shown = [encode(_history_entry(row, name)) for row in rows]
    body = results(shown, page, size, total)
    return Reply(body[:-1] + b',"page":%d,"page_size":%d}' % (page, size))


def nth_without(highest: int, skip: int, without: Collection[int]) -> int:
    """The number to which one comes from the highest by skipping so many, not counting those `without`."""
    number = highest - skip
    for one in sorted(without, reverse=True):
        number -= one >= number
    return number


def _history_entry(row: DeploymentRow, name: str) -> Document:
    return {
        "id": row.id,
        "created_at": stamp(row.created),
        "updated_at": stamp(row.changed),
        "name": name,
        "status": "SUCCESS" if row.status == Progress.SUCCEEDED else "FAILED",
        "commit": particulars(row).commit,
    }


async def _seen_service(source: Reads, call: Call) -> tuple[Row, StatusRow, str]:
    service = await place(source, call)
    status = await status_of(source, service)
    return service, status, await freshness(source, service, status)


async def seen_deployment(source: Reads, call: Call) -> tuple[Row, DeploymentRow]:
    """The deployment that the path names, and its service."""
    service, _, _ = await _seen_service(source, call)
    return service, await _deployment(source, call, service)


async def _deployment(source: Reads, call: Call, service: Row) -> DeploymentRow:
    row = await source.deployment(call.id)
    if row is None or row.service != service.id:
        raise Missing("No deployment with this id was found")
    return row
