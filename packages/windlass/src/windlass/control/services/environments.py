"""Actions on all or chosen services of an environment, in one transaction, and the statuses of
environments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from itertools import product
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from windlass.base.clock import stamp
from windlass.base.errors import Conflict, Invalid
from windlass.base.fair_share import FairShare
from windlass.control.context.call import Call, Reply, encode, reads, results, writes
from windlass.control.context.context import Context
from windlass.control.context.places import cluster_of
from windlass.control.records.deployments import (
    cancel,
    name_of,
    particulars,
    refuse_in_deletion,
    status_of,
)
from windlass.control.records.links import links_of
from windlass.control.records.previews import PREVIEW_MODE, PreviewMark
from windlass.control.records.reachability import status_as_reachable
from windlass.control.records.running_hours import schedule_hours
from windlass.control.records.shown_deployments import details_of
from windlass.control.request.behaviour import Behaviour, Change, Draft, behaves
from windlass.control.request.deleting import delete_row
from windlass.control.request.paths import parent_of, target
from windlass.control.request.permissions import visible_below
from windlass.control.request.stage_placement import give_stages
from windlass.control.services.actions import SERVICE_ACTIONS, Accepted, action_name, was_begun, with_group
from windlass.control.services.clusters import give_queue, shown_fields
from windlass.control.services.project_deployment_rules import apply_rule, rule_for
from windlass.control.services.services import whole_statuses
from windlass.control.variables.current_services import are_current
from windlass.core.declare.document import Document
from windlass.core.declare.queries import Removal
from windlass.core.declare.resource import Spec
from windlass.core.deploy.states import State, together
from windlass.core.words.audit import origin_of
from windlass.core.words.naming import with_article
from windlass.families.cluster import Cluster, cluster
from windlass.families.environment import Environment, environment
from windlass.store import Reads, Row, StatusRow, Tx


async def services_of(ctx: Context, reads: Reads, environment: Row) -> list[Row]:
    """Returns all services of an environment in the order of deployment: services that others wait for come
    first."""
    return [row for family in ctx.kinds for row in await reads.resources.of_parent(environment.id, family)]


@behaves(environment)
class Environments(Behaviour[Environment]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Environment]) -> None:
        assert draft.parent is not None
        await refuse_in_deletion(tx, draft.parent.id)
        rule = await rule_for(tx, draft)
        if rule is not None:
            await apply_rule(tx, draft, rule)
        chosen = draft.spec.cluster_id or (rule.cluster_id if rule is not None else "")
        row = await tx.resources.find(cluster.name, chosen) if chosen else None
        row = row or await tx.resources.first(draft.org, cluster.name)
        if row is None:
            raise Conflict("cluster_id: the organization has no cluster yet; create one first")
        await give_queue(tx, row.id, row.read(Cluster))
        draft.links = {"cluster_id": row.id}
        draft.give(cluster_id=row.id, cluster=row.id, **shown_fields(row))

    async def created(self, ctx: Context, tx: Tx, draft: Draft[Environment]) -> None:
        await tx.statuses.add(draft.id, draft.org, State.READY, draft.links["cluster_id"])
        row = await tx.resources.get(draft.id)
        assert row is not None
        await give_stages(ctx, tx, row, like=draft.copy_of)
        await schedule_hours(tx, row)

    async def updating(self, ctx: Context, tx: Tx, change: Change[Environment]) -> None:
        change.extras |= {"cluster": change.before.cluster_id}
        if change.row.read(PreviewMark).preview:
            change.extras |= {"mode": PREVIEW_MODE}


# Actions


class EnvironmentAction(NamedTuple):
    """The properties of an action on a whole environment."""

    alone: State
    """The resulting state of an environment without services."""
    ends: bool = False
    """Whether the action stops services. It then applies in reverse order, and only to services that were
    deployed."""


_ENVIRONMENT_ACTIONS: Final = {
    "deploy": EnvironmentAction(State.DEPLOYED),
    "redeploy": EnvironmentAction(State.DEPLOYED),
    "stop": EnvironmentAction(State.STOPPED, ends=True),
    "uninstall": EnvironmentAction(State.READY, ends=True),
}


async def _delete(ctx: Context, tx: Tx, call: Call, service: Row, body: Spec | None) -> None:
    await delete_row(ctx, tx, call, service, at_once=call.asked(Removal).skip_reconcile)


_SERVICE_ACTIONS: Final[Mapping[str, Callable[..., Awaitable[Accepted | None]]]] = {
    **{name: SERVICE_ACTIONS[name] for name in ("deploy", "restart-service", "stop", "uninstall")},
    "delete": _delete,
}


class ChosenService(NamedTuple):
    """A service that a request chooses, and the part of the request's body for it."""

    row: Row
    asked: Spec | None
    place: str
    """Path of the service in the body, for error messages."""


@writes(*(f"environment.{name}" for name in _ENVIRONMENT_ACTIONS))
async def act_on_all(ctx: Context, tx: Tx, call: Call) -> Reply:
    environment, name = await target(tx, call), action_name(call)
    services = await services_of(ctx, tx, environment)
    if _ENVIRONMENT_ACTIONS[name].ends:
        services = [service for service in services if await was_begun(tx, service)]
    elif skipped := await tx.deployment_stages.skipped(environment.id):
        services = [service for service in services if service.id not in skipped]
    await give_stages(ctx, tx, environment)
    places = await tx.deployment_stages.places(environment.id)
    in_order = sorted(services, key=lambda service: places.get(service.id, 0))
    if _ENVIRONMENT_ACTIONS[name].ends:
        in_order.reverse()
    for service in in_order:
        deployment, _ = await SERVICE_ACTIONS[name](ctx, tx, call, service, None)
        call = with_group(call, deployment)
    first = call.group or environment.id
    return await note_request(ctx, tx, call, environment, _ENVIRONMENT_ACTIONS[name].alone, first)


@writes(*(f"environment.service/{name}" for name in _SERVICE_ACTIONS))
async def act_on_chosen(ctx: Context, tx: Tx, call: Call) -> Reply:
    environment = await target(tx, call)
    for chosen in await _find_chosen(ctx, tx, environment, call.sent(Spec)):
        if accepted := await _act(ctx, tx, call, chosen):
            call = with_group(call, accepted[0])
    if call.operation.answer is None:
        return Reply()
    status = await status_of_environment(ctx, tx, call, environment)
    if call.group:  # the environment's status has the id of the last request for the whole environment
        status |= dict.fromkeys(("deployment_request_id", "execution_id"), call.group)
    return Reply(encode(status))


@writes("environment.cancelDeployment")
async def cancel_all(ctx: Context, tx: Tx, call: Call) -> Reply:
    environment = await target(tx, call)
    is_any_open = False
    for service in await services_of(ctx, tx, environment):
        if open_deployments := await tx.deployments.open(service.id):
            is_any_open = True
            await cancel(tx, service, open_deployments, call)
    if not is_any_open:
        raise Conflict("Look at the statuses of the environment: no deployment of it waits or is under way")
    return Reply(encode(await status_of_environment(ctx, tx, call, environment)))


async def note_request(
    ctx: Context, tx: Tx, call: Call, environment: Row, state_without_services: State, request: str
) -> Reply:
    """Records a request in the status of the environment, and returns the status. An environment without
    services gets its final state at once.

    The id of the request is the id of its entry in the history, or of the environment if there are no
    deployments.
    """
    status = await tx.statuses.get(environment.id)
    if status is None:
        await tx.statuses.add(environment.id, environment.org, State.READY, cluster_of(environment))
        status = await status_of(tx, environment)
    at = None if state_without_services is State.READY else tx.now
    new = replace(
        status,
        state=state_without_services,
        deployment=request,
        deployments=status.deployments + 1,
        deployed_at=at,
    )
    await tx.statuses.change(new)
    return Reply(encode(await status_of_environment(ctx, tx, call, environment)))


async def _act(ctx: Context, tx: Tx, call: Call, target: ChosenService) -> Accepted | None:
    """Performs the action on a service. Prefixes error messages about a field with the path of the service in
    the body."""
    try:
        return await _SERVICE_ACTIONS[action_name(call)](ctx, tx, call, target.row, target.asked)
    except (Invalid, Conflict) as refusal:
        field = refusal.message.partition(":")[0]
        if target.asked is None or field not in target.asked.__struct_fields__:
            raise
        raise type(refusal)(f"{target.place}.{refusal.message}") from refusal


async def _find_chosen(ctx: Context, tx: Tx, environment: Row, body: Spec) -> list[ChosenService]:
    """Returns the chosen services without duplicates, in the order of deployment. Raises Invalid for services
    of other environments."""
    chosen: dict[str, ChosenService] = {}
    for family, form in product(ctx.kinds, ("{}s", "{}_ids")):
        where = form.format(family)
        for index, item in enumerate(getattr(body, where, ())):
            id, asked = (item, None) if isinstance(item, str) else (item.service, item)
            row = await tx.resources.find(family, id)
            if row is None or row.parent != environment.id:
                noun = with_article(ctx.registry[family].noun)
                raise Invalid(f"{where}[{index}]: choose {noun} of this environment: none has the id {id}")
            place = ChosenService(row, asked, f"{where}[{index}]")
            if chosen.setdefault(id, place).asked != asked:
                raise Invalid(f"{where}: name each {family} once: {name_of(row)} is there with two versions")
    families = [*ctx.kinds]
    return sorted(chosen.values(), key=lambda item: (families.index(item.row.family), item.row.pos))


# Statuses


@reads("environment.status")
async def read_status(ctx: Context, call: Call) -> Reply:
    environment = await target(ctx.store.reads, call)
    return Reply(encode(await status_of_environment(ctx, ctx.store.reads, call, environment)))


@reads("environment.statuses")
async def read_statuses(ctx: Context, call: Call) -> Reply:
    environment = await target(ctx.store.reads, call)
    return Reply(encode((await statuses_of(ctx, ctx.store.reads, call, environment)).document))


class Statuses(Struct, frozen=True):
    """The statuses of an environment and its services, in the dialect of one caller."""

    environment: Document
    services: dict[str, list[Document]]
    """Statuses of services, by the name of the list in the response."""

    @property
    def document(self) -> Document:
        return {"environment": self.environment, **self.services}


async def statuses_of(ctx: Context, reads: Reads, call: Call, environment: Row) -> Statuses:
    own = await status_of_environment(ctx, reads, call, environment)
    services: dict[str, list[Document]] = {}
    for family in ctx.kinds:
        rows = await reads.resources.of_parent(environment.id, family)
        services[f"{family}s"] = await whole_statuses(ctx, call, rows)
    return Statuses(own, services)


@reads("*.listStatuses")
async def list_statuses(ctx: Context, call: Call) -> Reply:
    """Lists the statuses of the services of one kind that the caller may see."""
    source, family = ctx.store.reads, call.family
    environment = await parent_of(source, call)
    rows = await visible_below(source, call.actor, environment, family)
    if rows is None:
        rows = await source.resources.of_parent(environment.id, family.name)
    return Reply(results([encode(status) for status in await whole_statuses(ctx, call, rows)]))


@reads("environment.link")
async def read_links(ctx: Context, call: Call) -> Reply:
    environment = await target(ctx.store.reads, call)
    links, share = list[bytes](), FairShare()
    for service in await services_of(ctx, ctx.store.reads, environment):
        links += [encode(link) for link in await links_of(ctx, ctx.store.reads, service)]
        await share.pause()
    return Reply(results(links))


async def _last_request(reads: Reads, call: Call, deployment: str | None) -> Document:
    """Returns who started the last deployment of the whole environment, and from where."""
    row = await reads.deployments.get(deployment) if deployment else None
    if row is None:
        return {}
    details = particulars(row)
    origin = origin_of(details.origin, is_full_interface=call.dialect.is_full)
    return {"origin": origin, "triggered_by": details.actor.name}


async def status_of_environment(ctx: Context, reads: Reads, call: Call, environment: Row) -> Document:
    own = await reads.statuses.get(environment.id)
    statuses = [
        await status_as_reachable(ctx, status) for status in await reads.statuses.below(environment.id)
    ]
    state = (
        together(status.state for status in statuses)
        if statuses
        else State(own.state if own else State.READY)
    )
    dates = [status.deployed_at for status in statuses if status.deployed_at is not None]
    date = max(dates) if dates else own.deployed_at if own else None
    deployment, deployments = (own.deployment, own.deployments) if own else (None, 0)
    fresh = await _freshness(ctx, reads, environment, statuses, date)
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
        **await _last_request(reads, call, deployment),
    }


async def _freshness(
    ctx: Context, reads: Reads, environment: Row, statuses: list[StatusRow], date: int | None
) -> str:
    if date is None:
        return "NEVER_DEPLOYED"
    rows = {row.id: row for row in await services_of(ctx, reads, environment)}
    known = [(rows[status.id], status) for status in statuses if status.id in rows]
    if any(status.deployed_at is None or status.state.endswith("_ERROR") for _, status in known):
        return "OUT_OF_DATE"
    deployed = ((row, status.digest) for row, status in known)
    return "UP_TO_DATE" if await are_current(ctx, reads, environment, deployed) else "OUT_OF_DATE"
