"""Computes the routes of services from records and observed instances, whenever either changes.

If another machine runs a service, the service's host names lead to a page that names this machine.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from windlass.base.log import log
from windlass.control.context.context import Context, SleepTerms
from windlass.control.context.place import Place
from windlass.control.context.places import LAST_REQUESTS
from windlass.control.deploying.console_route import CONSOLE
from windlass.control.deploying.route_rules import PublicRules, public_rules
from windlass.control.deploying.sites import find_folder, served_folder
from windlass.control.records.domains import domain_names, plain_name, port_of_domains, redirects_of
from windlass.control.records.links import host_of, last_workload, url_of_name
from windlass.control.records.names import host_keys, reserve_ports
from windlass.control.records.sealed_workload import decrypt_workload
from windlass.control.records.served_names import host_names, row_of
from windlass.core.declare.shapes import Listener
from windlass.core.deploy.hosts import by_name, listens
from windlass.core.deploy.scaling import count_of
from windlass.core.deploy.states import ACTIONS_WITH_BUILD, Do, Progress, State, is_failure
from windlass.core.settings.values import AdvancedValues
from windlass.core.words.naming import LOCAL_DOMAIN
from windlass.engines.workload import Instance, Observation, RoutedAddress, Workload, WorkloadPort
from windlass.routers.router import Absence, Endpoint, Listen, Route, RouteError, ServedElsewhere
from windlass.store import NameRow, StatusRow, Surroundings


def machine_of(ctx: Context, place: Place) -> Surroundings | None:
    """Returns the facts about the machine that serves a place; None for this machine."""
    if place.elsewhere is not None:
        return place.elsewhere
    return ctx.ownership.elsewhere if place is ctx.places.local else None


def hosts_of(ctx: Context, place: Place, host_row: NameRow) -> tuple[str, ...]:
    """Returns the host names of a service at this router, including its names under the domain of the serving
    machine."""
    machine = machine_of(ctx, place)
    hosts = [host_of(ctx, host_row), *([host_of(ctx, host_row, machine.domain)] if machine else [])]
    if ctx.settings.address_domain:
        hosts.append(host_of(ctx, host_row, LOCAL_DOMAIN))
    return tuple(dict.fromkeys(hosts))


def served_elsewhere(
    ctx: Context, place: Place, host_row: NameRow, path: str = "/"
) -> ServedElsewhere | None:
    machine = machine_of(ctx, place)
    if machine is None:
        return None
    name = place.machine or ctx.ownership.place
    url = url_of_name(ctx, host_row, machine.domain, machine.port, path) if machine.port else ""
    return ServedElsewhere(name, url)


_log = log("routes")
PortEndpoints: TypeAlias = Mapping[str, tuple[Endpoint, ...]]
"""The endpoints of each port, by its name."""


async def reserve(ctx: Context, new_workload: Workload, old_workload: Workload | None = None) -> None:
    """Reserves the ports of both workloads in the router. Raises RouteError without any change if a port is
    in use."""
    workloads = [workload for workload in (new_workload, old_workload) if workload]
    for workload in workloads:
        await reserve_ports(ctx, workload)
    sockets = {listen for workload in workloads for listen in _public(workload)}
    for workload in workloads:
        sockets |= {listen for _, listen in await _inner_listens(ctx, workload)}
    service = new_workload.service
    place = await ctx.places.of(service)
    await _remove_from_previous_router(ctx, place, service)
    await place.router.reserve(service, sorted(sockets, key=lambda listen: listen.port))


async def give_up_public_ports(ctx: Context, service: str) -> None:
    """Releases the public ports of a stopped service. Its addresses inside the environment stay reserved, so
    that no other program can answer there. If services share the network of the machine, so do its public
    ports. A failed reservation does not interrupt the stop."""
    place, workload = await ctx.places.of(service), await last_workload(ctx, service)
    kept = [listen for _, listen in await _inner_listens(ctx, workload)] if workload else []
    if workload and any(listen.local for listen in kept):
        kept += _public(workload)
    try:
        await place.router.reserve(service, sorted(kept, key=lambda listen: listen.port))
    except RouteError as error:
        _log.warning(
            "addresses of a stopped service are not held", extra={"service": service, "why": str(error)}
        )


def _public(workload: Workload) -> list[Listen]:
    return [Listen(number) for port in workload.ports if (number := listens(port)) is not None]


async def _inner_listens(ctx: Context, workload: Workload) -> list[tuple[WorkloadPort, Listen]]:
    """Returns the addresses on which the router listens for other services of the environment."""
    if ctx.kinds[workload.family].finds_endpoints:
        return []
    place = await ctx.places.of(workload.service)
    return [
        (port, _listen_inside(address))
        for port in workload.ports
        if port.protocol != "UDP"
        for address in await place.engine.routed_addresses(workload, port.internal)
    ]


def _listen_inside(address: RoutedAddress) -> Listen:
    if address.network:
        return Listen(address.port, inside=f"{address.network}/{address.host}")
    return Listen(address.port, local=True)


async def refresh(ctx: Context, service: str) -> Sequence[Instance]:
    """Updates the routes of one service. Returns its present instances."""
    async with ctx.routing[service]:
        return await _refresh(ctx, service)


async def try_refresh(ctx: Context, service: str) -> bool:
    """Updates the routes of one service. Returns whether its router has accepted them."""
    try:
        await refresh(ctx, service)
    except RouteError as error:
        _log.warning("routes wait", extra={"service": service, "why": str(error)})
        return False
    return True


async def catch_up(ctx: Context, service: str, start_time: float) -> None:
    """Updates the routes of a service, unless they were updated after `start_time`. If another server runs
    the service, only its host names are set."""
    async with ctx.routing[service]:
        if ctx.routing.looked.get(service, 0.0) <= start_time:
            await _refresh(ctx, service)


async def hold_names(ctx: Context, service: str) -> None:
    """Sets the host names of a service whose engine has not reported its instances yet. Requests get a page
    which reports that no instance serves the service. Existing routes are kept."""
    async with ctx.routing[service]:
        status, place = await ctx.store.reads.statuses.get(service), await ctx.places.of(service)
        if status is not None:
            await _remove_from_previous_router(ctx, place, service)
            await _hold_names(ctx, place, service, status)


async def _hold_names(ctx: Context, place: Place, service: str, status: StatusRow) -> None:
    if service in ctx.routing.looked:
        return
    if workload := await _routed_workload(ctx, service, status):
        site = await find_folder(ctx, workload) if status.serving else ""
        await _set_routes(ctx, place, workload, status, {}, site)
    else:
        await _set_first_routes(ctx, place, status)


async def _remove_from_previous_router(ctx: Context, place: Place, service: str) -> None:
    """Removes the ports and routes of a service from the previous router of its cluster."""
    former, ctx.routing.routers[service] = ctx.routing.routers.get(service), place.router
    if former is not None and former is not place.router:
        ctx.routing.looked.pop(service, None)
        await former.forget(service)


async def _refresh(ctx: Context, service: str) -> Sequence[Instance]:
    source, began = ctx.store.reads, time.monotonic()
    status, place = await source.statuses.get(service), await ctx.places.of(service)
    if status is None or await source.resources.get(service) is None:
        await forget(ctx, place, service)
        return []
    await _remove_from_previous_router(ctx, place, service)
    if place.reconnect is not None:  # The engine may be slow or unavailable.
        await _hold_names(ctx, place, service, status)
    seen = await _compute_and_set(ctx, place, service, status)
    ctx.routing.looked[service] = began
    return seen


async def take_over_routes(ctx: Context) -> None:
    """Keeps existing routes in the routers until engines report newer ones, and removes routes of services
    that do not belong to a router. A gateway keeps running while its database is restored, and while a server
    dies during a move or deletion."""
    places = ctx.places.all()
    await ctx.places.local.router.close_others(ctx.places.has_router, LAST_REQUESTS)
    for router in {place.router for place in places}:
        services = await router.services()
        existing = set(await ctx.store.reads.statuses.services())
        for service in services:
            if service == CONSOLE:
                continue
            if service not in existing or (await ctx.places.of(service)).router is not router:
                _log.warning("routes of no service are closed", extra={"service": service})
                await router.forget(service)
            else:
                ctx.routing.routers[service] = router
                ctx.routing.looked[service] = 0.0


async def forget(ctx: Context, place: Place, service: str) -> None:
    """Removes all ports and routes of a service."""
    ctx.routing.looked.pop(service, None)
    ctx.routing.sites.pop(service, None)
    ctx.routing.sleepers.pop(service, None)
    await (ctx.routing.routers.pop(service, None) or place.router).forget(service)


async def _compute_and_set(ctx: Context, place: Place, service: str, status: StatusRow) -> Sequence[Instance]:
    workload = await _routed_workload(ctx, service, status)
    if workload is None:
        await _set_first_routes(ctx, place, status)
        return []
    kind = ctx.kinds[workload.family]
    if kind.finds_endpoints:
        found = kind.endpoints(ctx, workload)
        if found is not None:  # otherwise, they are not known yet, and the routes stay as they are
            ready = {
                port: tuple(Endpoint(each.address, each.port) for each in endpoints)
                for port, endpoints in found.items()
            }
            await _set_routes(ctx, place, workload, status, ready, "")
        return []
    seen = await place.engine.observe(service) if status.serving else Observation()
    is_here = bool(status.serving) and machine_of(ctx, place) is None
    site = await served_folder(ctx, place, workload) if is_here else ""
    # An instance counts as ready from its start: whoever wakes the service waits until it really is.
    instances = () if status.sleep else seen.of(workload.generation).ready
    await _set_routes(ctx, place, workload, status, _by_port(workload, instances), site)
    return seen.instances


async def _routed_workload(ctx: Context, service: str, status: StatusRow) -> Workload | None:
    """Returns the workload from which the routes of a service are computed: the serving workload, or else the
    last one."""
    serving = await ctx.store.reads.deployments.get(status.serving) if status.serving else None
    return decrypt_workload(ctx, serving) if serving else await last_workload(ctx, service)


async def _set_first_routes(ctx: Context, place: Place, status: StatusRow) -> None:
    """Sets the host names of a service that never ran, once its first deployment has begun. Removes the names
    if that deployment is cancelled."""
    absence, service = await _why_absent(ctx, status), status.id
    is_named = absence in {Absence.FIRST, Absence.DEPLOYING, Absence.FAILED}
    routes = await _first_routes(ctx, place, service, absence) if is_named else []
    if routes or service in ctx.routing.looked:
        await place.router.set(service, routes)


async def _why_absent(ctx: Context, status: StatusRow, workload: Workload | None = None) -> Absence:
    """Returns why no instance serves a service. `workload` is the workload from which its routes are
    computed."""
    if status.serving is not None:
        return await _absence_of_serving(ctx, status, workload)
    if await _has_begun(ctx, status.id):
        return Absence.FIRST if status.deployed_at is None else Absence.DEPLOYING
    if is_failure(status.state):
        return Absence.FAILED
    return Absence.STOPPED if status.state == State.STOPPED else Absence.UNDEPLOYED


async def _absence_of_serving(ctx: Context, status: StatusRow, workload: Workload | None) -> Absence:
    if workload is None:
        return Absence.UNREADY
    if status.sleep:
        return Absence.SLEEPING
    if workload.artifact.static is not None:
        return Absence.FILES_MISSING
    if count_of(workload, status.instances or workload.instances):
        return Absence.UNREADY
    return Absence.DEPLOYING if await _has_begun(ctx, status.id) else Absence.NONE_WANTED


async def _has_begun(ctx: Context, service: str) -> bool:
    """Returns whether a deployment that starts the service is in progress."""
    return any(
        deployment.status != Progress.QUEUED and Do(deployment.action) in ACTIONS_WITH_BUILD
        for deployment in await ctx.store.reads.deployments.open(service)
    )


async def _first_routes(ctx: Context, place: Place, service: str, absence: Absence) -> list[Route]:
    row = await ctx.store.reads.resources.get(service)
    if row is None:
        return []
    declared = row.read(Listener)
    keys = host_keys(declared.ports)
    names = await ctx.store.reads.names.of(service)
    own = [name for name in host_names(names) if name.port in keys]
    hosts = [(name, hosts_of(ctx, place, name), name) for name in own]
    if own:
        hosts += [(held, (plain_name(held),), own[0]) for held in domain_names(names)]
    return [
        Route(
            service=service,
            port=named.port,
            title=declared.name,
            org=row.org,
            kind="http",
            hosts=names_of_route,
            held=held.number,
            absence=absence,
            elsewhere=served_elsewhere(ctx, place, named),
        )
        for held, names_of_route, named in hosts
    ]


async def _set_routes(
    ctx: Context,
    place: Place,
    workload: Workload,
    status: StatusRow,
    ready: PortEndpoints,
    site: str,
) -> None:
    """Sets the routes of a workload to its ready instances. `site` is the folder of a static site; empty for
    other workloads."""
    names = await ctx.store.reads.names.of(workload.service)
    absence = await _why_absent(ctx, status, workload)
    routes = [replace(route, absence=absence) for route in await _routes(ctx, place, workload, names, ready)]
    ctx.routing.sites.pop(workload.service, None)
    await _note_sleeper(ctx, place, workload, status)
    if site:  # the router serves sites over HTTP on all ports
        ctx.routing.sites[workload.service] = site
        routes = [replace(route, kind="http", site=site) for route in routes]
    try:
        await place.router.set(workload.service, routes)
    except RouteError:
        await place.router.set(workload.service, await _resolvable_routes(ctx, workload, routes))


async def _note_sleeper(ctx: Context, place: Place, workload: Workload, status: StatusRow) -> None:
    """Records whether this server may put a service to sleep, by its current settings."""
    ctx.routing.sleepers.pop(workload.service, None)
    if status.serving and machine_of(ctx, place) is None and workload.artifact.static is None:
        row = await ctx.store.reads.resources.get(workload.service)
        settings = AdvancedValues(row.body if row else b"")
        if minutes := settings["windlass.sleep.after_minutes"]:
            terms = SleepTerms(minutes, settings["windlass.sleep.although_called"])
            ctx.routing.sleepers[workload.service] = terms


async def _resolvable_routes(ctx: Context, workload: Workload, routes: Sequence[Route]) -> Sequence[Route]:
    """Reserves the ports of routes that the router refused. Returns the routes, or only those by host name if
    another replica or program of this machine has the ports."""
    by_name_only = [replace(route, external=None) for route in routes if route.kind == "http"]
    try:
        await reserve(ctx, workload)
    except RouteError as error:
        _log.warning("routes are left out", extra={"service": workload.service, "why": str(error)})
        return by_name_only
    return routes


async def _routes(
    ctx: Context, place: Place, workload: Workload, names: Sequence[NameRow], ready: PortEndpoints
) -> list[Route]:
    """Returns the routes of a workload. If another machine serves it, the routes contain only host names."""
    is_elsewhere = machine_of(ctx, place) is not None
    inside = [] if is_elsewhere else await _inner_listens(ctx, workload)
    public = await public_rules(ctx, workload)
    routes: list[Route] = []
    of_domains = port_of_domains(workload.ports)
    redirects = await redirects_of(ctx.store.reads, workload.service, names)
    for port in workload.ports:
        endpoints = ready.get(port.name, ())
        if port is of_domains:
            of_one = [
                _domain_route(ctx, place, workload, port, names, held, endpoints, public)
                for held in domain_names(names)
            ]
            routes += [replace(route, moves_to=redirects.get(route.hosts[0], "")) for route in of_one]
        if by_name(port):
            held = row_of(port, names)
            routes.append(
                Route(
                    service=workload.service,
                    port=port.name,
                    title=workload.name,
                    org=workload.org,
                    kind="http",
                    hosts=hosts_of(ctx, place, held) if held else (),
                    held=held.number if held else 0,
                    path=port.path,
                    rewrite=port.rewrite,
                    external=None if is_elsewhere else listens(port),
                    endpoints=endpoints,
                    speaks_http2=port.protocol == "GRPC",
                    rules=public.rules,
                    redirect=public.redirect,
                    hsts=public.hsts,
                    elsewhere=served_elsewhere(ctx, place, held, port.path) if held else None,
                )
            )
        elif not is_elsewhere and (external := listens(port)) is not None:
            routes.append(_tcp(workload, port, Listen(external), endpoints))
        routes += [_tcp(workload, port, at, endpoints) for neighbours, at in inside if neighbours is port]
    return routes


def _domain_route(
    ctx: Context,
    place: Place,
    workload: Workload,
    port: WorkloadPort,
    names: Sequence[NameRow],
    host_row: NameRow,
    endpoints: tuple[Endpoint, ...],
    public: PublicRules,
) -> Route:
    """Returns the route of a domain of the user, which has a reservation of its own."""
    own = row_of(port, names)
    return Route(
        service=workload.service,
        port=port.name,
        title=workload.name,
        org=workload.org,
        kind="http",
        hosts=(plain_name(host_row),),
        held=host_row.number,
        path=port.path,
        rewrite=port.rewrite,
        endpoints=endpoints,
        speaks_http2=port.protocol == "GRPC",
        rules=public.rules,
        redirect=public.redirect,
        hsts=public.hsts,
        elsewhere=served_elsewhere(ctx, place, own, port.path) if own else None,
    )


def _tcp(workload: Workload, port: WorkloadPort, listen: Listen, endpoints: tuple[Endpoint, ...]) -> Route:
    return Route(
        service=workload.service,
        port=port.name,
        title=workload.name,
        org=workload.org,
        kind="tcp",
        external=listen.port,
        inside=listen.inside,
        endpoints=endpoints,
    )


def _by_port(workload: Workload, instances: Sequence[Instance]) -> PortEndpoints:
    return {port.name: endpoints_of(port, instances) for port in workload.ports}


def endpoints_of(port: WorkloadPort, instances: Sequence[Instance]) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(instance.address, number, instance.network)
        for instance in instances
        if (number := instance.ports.get(port.internal))
    )


def all_endpoints(workload: Workload, instances: Sequence[Instance]) -> list[Endpoint]:
    return [endpoint for port in workload.ports for endpoint in endpoints_of(port, instances)]
