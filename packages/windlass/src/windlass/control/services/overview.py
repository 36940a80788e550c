"""Lists all services of an organization with type, environment, status and address."""

from __future__ import annotations

from msgspec import Raw, Struct

from windlass.base.clock import stamp
from windlass.base.fair_share import FairShare
from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.records.deployments import particulars, version_of
from windlass.control.records.links import links_of
from windlass.control.records.reachability import status_as_reachable
from windlass.control.records.shown_deployments import shown_instances, shown_state
from windlass.control.request.paths import target
from windlass.control.request.permissions import Visibility
from windlass.control.request.reading import paging, slice_of
from windlass.core.declare.document import Document
from windlass.core.declare.registry import sub_actions_of
from windlass.core.declare.stored import NamedDocument
from windlass.core.deploy.states import State
from windlass.families.environment import EnvironmentShown
from windlass.families.organization import ServicesQuery
from windlass.store import Row, StatusRow


class ServicePlace(Struct, frozen=True):
    """A service with its environment and its project."""

    id: str
    family: str
    environment: str
    project: str


class ServiceSummary(Struct):
    """The fields of a service that the list contains."""

    name: str
    description: str = ""
    icon_uri: str = ""
    job_type: str = ""
    automatic_port: bool = False
    ports: tuple[Raw, ...] = ()
    process: str | None = None


@reads("organization.services")
async def list_services(ctx: Context, call: Call) -> Reply:
    org = await target(ctx.store.reads, call)
    places = await _places(ctx, call, org.id)
    above: dict[str, Row] = {}
    bodies, share = [], FairShare()
    for place in places[slice_of(call)]:
        bodies.append(encode(await _document_of(ctx, call, place, above)))
        await share.pause()
    return Reply(results(bodies, *paging(call), len(places)))


async def _places(ctx: Context, call: Call, org: str) -> list[ServicePlace]:
    source, query = ctx.store.reads, call.asked(ServicesQuery)
    project, environment_id, on_cluster = query.project_id or "", query.environment_id or "", None
    if query.cluster_id:
        on_cluster = {row.id for row in await source.links.sources(query.cluster_id, "cluster_id")}
    places = [
        ServicePlace(*columns)
        for family in ctx.kinds  # in the order of deployment
        for columns in await source.tree.services(org, family, project, environment_id)
    ]
    sight = Visibility(source, call.actor, org)
    return [
        place
        for place in places
        if (on_cluster is None or place.environment in on_cluster)
        and await sight.includes(place.family, place.id, place.environment)
    ]


async def _document_of(ctx: Context, call: Call, place: ServicePlace, ancestors: dict[str, Row]) -> Document:
    source = ctx.store.reads
    service, status = await source.resources.get(place.id), await source.statuses.get(place.id)
    assert service is not None
    assert status is not None
    status = await status_as_reachable(ctx, status)
    for id in (place.environment, place.project):
        if id not in ancestors and (row := await source.resources.get(id)):
            ancestors[id] = row
    own, environment = service.read(ServiceSummary), ancestors[place.environment]
    links = await links_of(ctx, source, service)
    shown: Document = {
        "id": service.id,
        "name": own.name,
        "state": shown_state(call, service, status),
        "sleeping": bool(status.sleep),
        "url": links[0]["url"] if links else "",
        "message": status.message,
        "version": await version_of(source, status.serving),
        **shown_instances(status),
        "lacks_port": bool(status.serving and own.automatic_port and not own.ports and not own.process),
        "only_planned": await _is_only_planned(ctx, service, status),
        "error_share": ctx.usage.error_share(service.id, ctx.clock.now()),
        "service_type": ctx.registry[service.family].enum_value,
        "description": own.description,
        "icon_uri": own.icon_uri,
        "project_id": place.project,
        "project_name": ancestors[place.project].read(NamedDocument).name,
        "environment_id": place.environment,
        "environment_name": environment.read(NamedDocument).name,
        "cluster_id": environment.read(EnvironmentShown).cluster_id,
    }
    if own.job_type:
        shown["job_type"] = own.job_type
    if status.deployed_at is not None:
        shown["last_deployment_date"] = stamp(status.deployed_at)
    return shown


async def _is_only_planned(ctx: Context, service: Row, status: StatusRow) -> bool:
    """Returns whether nothing of a service was applied yet. All its deployments are only read if the last one
    was a part, such as a plan."""
    parts = sub_actions_of(ctx.registry[service.family])
    if not parts or status.state != State.DEPLOYED or not status.deployment:
        return False
    last = await ctx.store.reads.deployments.get(status.deployment)
    if last is None or particulars(last).sub_action not in parts:
        return False
    return await ctx.kinds[service.family].is_only_planned(ctx, service)
