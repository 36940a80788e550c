"""What is done with all services of an environment, or some of them, in one transaction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from windlass.base import ids
from windlass.base.clock import stamp
from windlass.base.errors import Conflict, Missing
from windlass.control.context import Call, Context, Reply, encode, reads, results, writes
from windlass.control.deployments import accept, cancel, details_of, shown_status, status_of
from windlass.control.resources import removed, target
from windlass.control.routes import links_of
from windlass.control.services import freshness, same_again
from windlass.core.document import Document
from windlass.core.states import Do, State, together
from windlass.families.application import application
from windlass.families.database import database
from windlass.store.store import Reads, Row, StatusRow, Tx

# Databases first: who is asked first is deployed first, and the others wait for them.
_FAMILIES = (database.name, application.name)
_LISTS = {"applications": application.name, "databases": database.name}


async def services_of(source: Reads, environment: Row) -> list[Row]:
    return [row for family in _FAMILIES for row in await source.of_parent(environment.id, family)]


# All of them


@writes("environment.deploy")
async def deploy_all(ctx: Context, tx: Tx, call: Call) -> Reply:
    environment = await target(tx, call)
    for service in await services_of(tx, environment):
        await accept(tx, service, Do.DEPLOY, call)
    return await _asked(tx, call, environment, State.DEPLOYED)


@writes("environment.redeploy")
async def redeploy_all(ctx: Context, tx: Tx, call: Call) -> Reply:
    environment = await target(tx, call)
    for service in await services_of(tx, environment):
        await accept(tx, service, Do.DEPLOY, call, **await same_again(tx, service))
    return await _asked(tx, call, environment, State.DEPLOYED)


@writes("environment.stop")
async def stop_all(ctx: Context, tx: Tx, call: Call) -> Reply:
    return await _do_all(tx, call, Do.STOP, State.STOPPED)


@writes("environment.uninstall")
async def uninstall_all(ctx: Context, tx: Tx, call: Call) -> Reply:
    return await _do_all(tx, call, Do.UNINSTALL, State.READY)


async def _do_all(tx: Tx, call: Call, do: Do, alone: State) -> Reply:
    """Services that were never deployed have nothing that could be ended."""
    environment = await target(tx, call)
    for service in reversed(await services_of(tx, environment)):
        status = await status_of(tx, service)
        if status.state != State.READY or await tx.open_deployments(service.id):
            await accept(tx, service, do, call)
    return await _asked(tx, call, environment, alone)


@writes("environment.cancelDeployment")
async def cancel_all(ctx: Context, tx: Tx, call: Call) -> Reply:
    environment = await target(tx, call)
    found = False
    for service in await services_of(tx, environment):
        if waiting := await tx.open_deployments(service.id):
            found = True
            await cancel(tx, service, waiting, call)
    if not found:
        raise Conflict("No deployment of this environment waits or is under way")
    return Reply(encode(await _status(tx, call, environment)))


async def _asked(tx: Tx, call: Call, environment: Row, alone: State) -> Reply:
    """Notes what was asked of the environment; one without services is there at once."""
    status = await tx.status(environment.id)
    if status is None:
        await tx.add_status(environment.id, environment.org, State.READY)
        status = await status_of(tx, environment)
    at = None if alone is State.READY else tx.now
    new = replace(
        status, state=alone, deployment=ids.new_id(), deployments=status.deployments + 1, deployed_at=at
    )
    await tx.change_status(new)
    return Reply(encode(await _status(tx, call, environment)))


# Some of them


@writes("environment.service/deploy")
async def deploy_some(ctx: Context, tx: Tx, call: Call) -> Reply:
    environment = await target(tx, call)
    commits = {one.application_id: one.git_commit_id or None for one in call.body.applications}
    chosen = await _chosen(tx, environment, {"databases": call.body.databases, "applications": commits}, "{}")
    for service in chosen:
        await accept(tx, service, Do.DEPLOY, call, git_commit_id=commits.get(service.id))
    return Reply(encode(await _status(tx, call, environment)))


@writes("environment.service/restart-service")
async def restart_some(ctx: Context, tx: Tx, call: Call) -> Reply:
    environment = await target(tx, call)
    chosen = await _named(tx, environment, call.body)
    for service in chosen:
        if (await status_of(tx, service)).serving is None:
            raise Conflict(f"The {service.family} {service.id} is not running: deploy it instead")
        await accept(tx, service, Do.RESTART, call)
    return Reply(encode(await _status(tx, call, environment)))


@writes("environment.service/stop")
async def stop_some(ctx: Context, tx: Tx, call: Call) -> Reply:
    environment = await target(tx, call)
    for service in await _named(tx, environment, call.body):
        await accept(tx, service, Do.STOP, call)
    return Reply()


@writes("environment.service/uninstall")
async def uninstall_some(ctx: Context, tx: Tx, call: Call) -> Reply:
    environment = await target(tx, call)
    for service in await _named(tx, environment, call.body):
        await accept(tx, service, Do.UNINSTALL, call)
    return Reply()


@writes("environment.service/delete")
async def delete_some(ctx: Context, tx: Tx, call: Call) -> Reply:
    environment = await target(tx, call)
    for service in await _named(tx, environment, call.body):
        await removed(ctx, tx, call, service)
    return Reply()


async def _named(tx: Tx, environment: Row, body: Any) -> list[Row]:
    lists = {"databases": body.database_ids, "applications": body.application_ids}
    return await _chosen(tx, environment, lists, "{}_ids")


async def _chosen(tx: Tx, environment: Row, lists: dict[str, Iterable[str]], field: str) -> list[Row]:
    """Each once, and only services of this environment."""
    found: dict[str, Row] = {}
    for name, chosen in lists.items():
        for id in chosen:
            row = await tx.find(_LISTS[name], id)
            if row is None or row.parent != environment.id:
                where = field.format(name if field == "{}" else name[:-1])
                raise Missing(f"{where}: no {_LISTS[name]} of this environment has the id {id}")
            found[id] = row
    return [*found.values()]


# How they are


@reads("environment.status")
async def read_status(ctx: Context, call: Call) -> Reply:
    environment = await target(ctx.store.reads, call)
    return Reply(encode(await _status(ctx.store.reads, call, environment)))


@reads("environment.statuses")
async def read_statuses(ctx: Context, call: Call) -> Reply:
    environment = await target(ctx.store.reads, call)
    return Reply(encode(await statuses_of(ctx.store.reads, call, environment)))


async def statuses_of(source: Reads, call: Call, environment: Row) -> Document:
    """In the words of this caller."""
    found: Document = {"environment": await _status(source, call, environment)}
    for name, family in _LISTS.items():
        rows = await source.of_parent(environment.id, family)
        found[name] = [await _service_status(source, call, row) for row in rows]
    empty = ("containers", "jobs", "helms", "terraforms")
    return {**found, **{name: [] for name in empty}}


async def _service_status(source: Reads, call: Call, service: Row) -> Document:
    status = await status_of(source, service)
    return shown_status(call, service, status, await freshness(source, service, status))


@reads("environment.link")
async def read_links(ctx: Context, call: Call) -> Reply:
    environment = await target(ctx.store.reads, call)
    found = [
        encode(link)
        for service in await services_of(ctx.store.reads, environment)
        for link in await links_of(ctx, ctx.store.reads, service)
    ]
    return Reply(results(found))


async def _status(source: Reads, call: Call, environment: Row) -> Document:
    own = await source.status(environment.id)
    statuses = await source.statuses_below(environment.id)
    state = together(one.state for one in statuses) if statuses else State(own.state if own else State.READY)
    dates = [one.deployed_at for one in statuses if one.deployed_at is not None]
    date = max(dates) if dates else own.deployed_at if own else None
    deployment, deployments = (own.deployment, own.deployments) if own else (None, 0)
    fresh = await _freshness(source, environment, statuses, date)
    return {
        "id": environment.id,
        "state": call.dialect.state(state),
        "deployment_state": call.dialect.exact(state),
        "last_deployment_state": call.dialect.exact(state),
        "last_deployment_date": None if date is None else stamp(date),
        "last_deployment_id": deployment,
        "deployment_request_id": deployment,
        "deployment_status": fresh,
        "service_deployment_status": fresh,
        "is_part_last_deployment": deployments > 0,
        "status_details": details_of(state),
        "execution_id": deployment or "",
        "deployment_requests_count": deployments,
    }


async def _freshness(source: Reads, environment: Row, statuses: list[StatusRow], date: int | None) -> str:
    if date is None:
        return "NEVER_DEPLOYED"
    rows = {row.id: row for row in await services_of(source, environment)}
    words = {await freshness(source, rows[one.id], one) for one in statuses if one.id in rows}
    return "UP_TO_DATE" if words <= {"UP_TO_DATE"} else "OUT_OF_DATE"
