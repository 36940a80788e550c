"""`windlass stop --all`: stops all services of an installation without erasing data.

If a server is running, the command uses its API. Otherwise it writes the same requests to the database, and
starts an installation without a port to process them.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from windlass.base.subprocesses import in_thread
from windlass.cli.client import Api, ServerUnreachable, path_of
from windlass.cli.deployments import is_under_way, print_state, say
from windlass.cli.following import RetryTimer, growing_pauses, retry_until_done, wait_for_budget
from windlass.config import Settings
from windlass.control.background.all_places import CALL_TIMEOUT
from windlass.control.context.context import Context
from windlass.control.context.environment_finder import introduce
from windlass.control.context.place import Place
from windlass.control.services.clusters import find_access
from windlass.control.services.stopping import StoppedService, stop_everything, up
from windlass.core.declare.registry import Operation
from windlass.core.deploy.states import OPEN_STATES_OF_DEPLOYMENTS, Progress
from windlass.engines.engine import EngineError
from windlass.families import registry
from windlass.install.database import reading_snapshot
from windlass.install.engines import own_settings, providers
from windlass.install.installation import Installation, install
from windlass.install.parts import Parts, real_parts
from windlass.operate.listeners import has_server
from windlass.store import Reads
from windlass.store.sqlite import InUse
from windlass.terminal.command_errors import CommandFailed, CommandRefused
from windlass.terminal.tables import print_json


class UnreachedCluster(Struct, frozen=True):
    """A cluster with an unreachable engine, so that its services could not be stopped."""

    name: str
    why: str
    services: Mapping[str, str]
    """Names of services that may still run there, by id."""


Sure = Callable[[int], None]
"""A function that asks for confirmation with the number of services, and raises if the user declines."""
_CHECK_INTERVAL = 0.1
_SERVER_RUNS = (
    "leave out --data-dir and name the server instead, with --url (WINDLASS_URL) and WINDLASS_TOKEN: it runs "
    "on this data directory"
)


# With a running server, through its API


def through(api: Api, confirm_stop: Sure) -> int:
    """Stops all services that the token has access to. Returns their number."""
    api.enable_retries(wait_for_budget)
    running = _find_running(api)
    if running:
        confirm_stop(len(running))
    for service in running:
        api.call("POST", path_of(_stop(service).path, {_stop(service).params[0]: service["id"]}))
    unreached = _find_unreached(api, running)
    left = {service for cluster in unreached for service in cluster.services}
    _wait(api, {service["id"] for service in running if service["id"] not in left})
    if unreached:
        raise _not_reached(unreached)
    return len(running)


def answers(api: Api) -> bool:
    """Returns whether a server responds, even with an error."""
    try:
        api.call("GET", "/healthz")
    except ServerUnreachable:
        return False
    return True


def _find_unreached(api: Api, services: Sequence[Mapping[str, Any]]) -> list[UnreachedCluster]:
    """Returns the clusters of these services whose engines are unreachable."""
    unreached = []
    for org, id in sorted({(service["organization_id"], service["cluster_id"]) for service in services}):
        path = f"/organization/{org}/cluster/{id}"
        status = retry_until_done(lambda path=path: api.get(f"{path}/status"), RetryTimer())  # type: ignore[misc]
        if status["is_connected"] and not status["is_deployed"]:
            names = {service["id"]: service["name"] for service in services if service["cluster_id"] == id}
            unreached.append(UnreachedCluster(api.get(path)["name"], status["message"], names))
    return unreached


def _services(api: Api) -> list[Any]:
    return [
        service | {"organization_id": organization["id"]}
        for organization in api.everything("/organization")
        for service in retry_until_done(
            lambda id=organization["id"]: api.everything(f"/organization/{id}/services"),  # type: ignore[misc]
            RetryTimer(),
        )
    ]


def _find_running(api: Api) -> list[Any]:
    """Returns the services that may be running: all except stopped services. A failed service may still run
    an earlier release, and a request may wake one that sleeps."""
    return [
        service
        for service in reversed(_services(api))
        if service["state"] != "STOPPED" or service["sleeping"]
    ]


def _stop(service: Mapping[str, Any]) -> Operation:
    family = registry().service_of_type(service["service_type"])
    return next(
        operation for operation in registry().operations if operation.handler == f"{family.name}.stop"
    )


def _wait(api: Api, stopping_services: set[str]) -> None:
    shown: dict[str, str] = {}
    for pause in growing_pauses(0.3, 5.0):
        states = {service["id"]: service for service in _services(api) if service["id"] in stopping_services}
        for id, service in states.items():
            if shown.get(id) != service["state"]:
                shown[id] = service["state"]
                print_state(service["name"], service["state"])
        if not any(is_under_way(service) for service in states.values()):
            break
        time.sleep(pause)
    failed = [service["name"] for service in states.values() if service["state"] != "STOPPED"]
    if failed:
        raise _not_stopped(failed)


# Without a server


async def here(settings: Settings, confirm_stop: Sure, *, parts: Parts | None = None) -> int:
    """Stops all services in the database of the settings, while no server runs. Returns their number."""
    if await in_thread(has_server, settings):
        raise CommandRefused(_SERVER_RUNS)
    if count := await _count(settings):
        confirm_stop(count)
    installation = await _install(settings, parts)
    try:
        ctx = installation.ctx
        stopping = await ctx.store.write(lambda tx: stop_everything(ctx, tx))
        await installation.start()
        if not ctx.ownership.is_owner:
            raise CommandRefused(
                "stop the services through the server that runs them, with --url (WINDLASS_URL) and "
                "WINDLASS_TOKEN: it has another data directory than this one"
            )
        unreached = {place.id: why for place in ctx.places.all() if (why := await _why_unreachable(place))}
        clusters = {service.service: await ctx.places.cluster_of(service.service) for service in stopping}
        unreached |= await _of_other_machines(ctx, clusters.values())
        await _wait_until_stopped(
            installation, [service for service in stopping if clusters[service.service] not in unreached]
        )
        elsewhere = set() if parts else await _end_elsewhere(ctx)
        elsewhere |= await _end_left_over(ctx, unreached)
        left = [
            UnreachedCluster(await _name(ctx, cluster), why, _services_on(cluster, stopping, clusters))
            for cluster, why in unreached.items()
            if cluster in clusters.values() or await _was_used(ctx, cluster)
        ]
    finally:
        await installation.stop()
    if left:
        raise _not_reached(left)
    return len({service.service for service in stopping} | elsewhere)


async def _why_unreachable(place: Place) -> str:
    """Returns the reason why a cluster's engine is unreachable; empty if it is reachable or local."""
    return "" if place.reconnect is None else await place.engine.problem()


async def _of_other_machines(ctx: Context, clusters: Iterable[str]) -> dict[str, str]:
    """Returns the clusters on machines of other servers. The value explains how their services stop."""
    places = {cluster: await ctx.places.at(cluster) for cluster in set(clusters)}
    return {
        cluster: f"they stop when the server of the machine {place.machine} runs"
        for cluster, place in places.items()
        if place.elsewhere is not None
    }


async def _end_left_over(ctx: Context, unreached: dict[str, str]) -> set[str]:
    """Stops instances on remote engines whose services the database lists as stopped.

    Returns the ids of the services. Adds clusters that have become unreachable to `unreached`.
    """
    ended: set[str] = set()
    for place in ctx.places.all():
        if place.reconnect is None or place.id in unreached:
            continue
        services = set(await ctx.store.reads.statuses.on_cluster(place.id))
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                running = {instance.service for instance in await place.engine.all()} & services
                for service in running:
                    await place.engine.remove(service, grace=ctx.settings.stop_seconds)
            ended |= running
        except (EngineError, TimeoutError) as error:
            unreached[place.id] = str(error)
    return ended


async def _name(ctx: Context, cluster: str) -> str:
    access = await find_access(ctx, cluster)
    return access.name if access else cluster


def _services_on(
    cluster: str, stopping_services: Sequence[StoppedService], clusters: Mapping[str, str]
) -> dict[str, str]:
    """Returns the names of the services to stop on a cluster, by id."""
    return {
        service.service: service.name for service in stopping_services if clusters[service.service] == cluster
    }


async def _was_used(ctx: Context, cluster: str) -> bool:
    """Returns whether services were ever deployed on a cluster. A stopped service may have left instances
    there."""
    reads = ctx.store.reads
    statuses = [await reads.statuses.get(id) for id in await reads.statuses.on_cluster(cluster)]
    return any(status and status.deployed_at for status in statuses)


async def _install(settings: Settings, parts: Parts | None) -> Installation:
    try:
        # A service that is being stopped need not be reachable, so the ports of the settings are not used.
        reachable_by_nobody = replace(settings, gateway_port=0, console_domain="")
        return await install(reachable_by_nobody, parts=parts, keeps_engine=True)
    except InUse as error:
        raise CommandRefused(_SERVER_RUNS) from error


async def _end_elsewhere(ctx: Context) -> set[str]:
    """Stops services on engines other than the engine of the settings, because the server may have been
    started with another `--engine`. Returns the ids of the services."""
    services, ended = set(await ctx.store.reads.statuses.services()), set()
    for name, provider in providers().items():
        if name == ctx.places.local.engine.name:
            continue
        if not (await provider.presence(own_settings(provider, ctx.settings))).is_there:
            continue
        other = await real_parts(replace(ctx.settings, engine=name), ctx.clock, ctx.installation)
        introduce(other.engine, ctx.store.reads)
        await other.engine.start(lambda service: None, lambda service, lines: None)
        try:
            running = {instance.service for instance in await other.engine.all()} & services
            for service in running:
                await other.engine.remove(service, grace=ctx.settings.stop_seconds)
        finally:
            await other.engine.stop()
        ended |= running
    return ended


async def _count(settings: Settings) -> int:
    """Counts running services without changing the database, which may be the wrong one."""
    async with reading_snapshot(settings) as line:
        return len(await up(Reads(line)))


async def _wait_until_stopped(
    installation: Installation, stopping_services: Sequence[StoppedService]
) -> None:
    source, failed, left = installation.ctx.store.reads, [], list(stopping_services)
    while left:
        for service in list(left):
            deployment = await source.deployments.get(service.deployment)
            if deployment is not None and deployment.status in OPEN_STATES_OF_DEPLOYMENTS:
                continue
            left.remove(service)
            well = deployment is None or deployment.status == Progress.SUCCEEDED
            print_state(service.name, "STOPPED" if well else "ERROR")
            failed += [] if well else [service.name]
        await asyncio.sleep(_CHECK_INTERVAL if left else 0)
    if failed:
        raise _not_stopped(failed)


def _not_stopped(names: Sequence[str]) -> CommandFailed:
    some = ", ".join(itertools.islice(names, 5))
    return CommandFailed(f"repeat the command: {len(names)} services did not stop ({some})")


def _not_reached(clusters: Sequence[UnreachedCluster]) -> CommandFailed:
    names = ", ".join(cluster.name for cluster in clusters)
    left = [name for cluster in clusters for name in cluster.services.values()]
    some = ", ".join(itertools.islice(left, 5)) + (", …" if len(left) > 5 else "")
    reasons = "; ".join(f"{cluster.name}: {cluster.why}" for cluster in clusters)
    rest = f"what runs there keeps running ({some})" if some else "what may be left there was not looked for"
    return CommandFailed(
        f"start the engine of each cluster that was not reached ({names}), and repeat the command: {rest}"
        f". Everything else is stopped. {reasons}"
    )


def report(count: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"stopped": count})
        return
    services = "1 service is" if count == 1 else f"{count} services are"
    outcome = f"{services} stopped; data, settings and history stay" if count else "Nothing was running"
    click.echo(outcome) if count else say(outcome)
