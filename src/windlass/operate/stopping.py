"""`windlass stop --all`: ends what an installation runs, and erases nothing.

Through the API where a server answers. Otherwise here: the same wish is written into the database, and an
installation that listens nowhere carries it out.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click
from msgspec.structs import replace

from windlass.cli.client import Api, ServerUnreachable, path_of
from windlass.cli.deployments import is_under_way, say, say_state
from windlass.cli.following import Patience, insist, pauses, when_too_many
from windlass.config import Settings
from windlass.control.context.context import Context
from windlass.control.services.stopping import Stopping, stop_everything, up
from windlass.core.declare.registry import Operation
from windlass.core.deploy.states import OPEN, Progress
from windlass.families import registry
from windlass.install.database import looking
from windlass.install.installation import Installation, install
from windlass.install.parts import DOCKER, ENGINES, Parts, docker_answers, docker_at, real_parts
from windlass.store import Reads
from windlass.store.sqlite import InUse
from windlass.terminal.refused import CommandRefused
from windlass.terminal.stopped import Stopped

Sure = Callable[[int], None]
"""Asked with the number of services; raises if they are not to be stopped."""
_LOOK = 0.1


# Through the API


def through(api: Api, sure: Sure) -> int:
    """Stops all services that the token sees; returns their number."""
    api.be_patient(when_too_many)
    running = _running(api)
    if running:
        sure(len(running))
    for service in running:
        api.call("POST", path_of(_stop(service).path, {_stop(service).params[0]: service["id"]}))
    _wait(api, {service["id"] for service in running})
    return len(running)


def answers(api: Api) -> bool:
    """True if a server answers, be it with a refusal."""
    try:
        api.call("GET", "/healthz")
    except ServerUnreachable:
        return False
    return True


def _services(api: Api) -> list[Any]:
    return [
        service
        for organization in api.everything("/organization")
        for service in insist(
            lambda id=organization["id"]: api.everything(f"/organization/{id}/services"),  # type: ignore[misc]
            Patience(),
        )
    ]


def _running(api: Api) -> list[Any]:
    """Returns services that may run: all but stopped ones. A failed one may still run an earlier release."""
    return [service for service in reversed(_services(api)) if service["state"] != "STOPPED"]


def _stop(service: Mapping[str, Any]) -> Operation:
    families = registry().services
    family = next(family for family in families if family.name.upper() == service["service_type"])
    return next(one for one in registry().operations if one.handler == f"{family.name}.stop")


def _wait(api: Api, stopping: set[str]) -> None:
    shown: dict[str, str] = {}
    for pause in pauses(0.3, 5.0):
        states = {one["id"]: one for one in _services(api) if one["id"] in stopping}
        for id, one in states.items():
            if shown.get(id) != one["state"]:
                shown[id] = one["state"]
                say_state(one["name"], one["state"])
        if not any(is_under_way(one) for one in states.values()):
            break
        time.sleep(pause)
    failed = [one["name"] for one in states.values() if one["state"] != "STOPPED"]
    if failed:
        raise _not_stopped(failed)


# Without a server


async def here(settings: Settings, sure: Sure, *, parts: Parts | None = None) -> int:
    """Stops all services of the database that the settings name, while no server runs."""
    if count := await _count(settings):
        sure(count)
    installation = await _installed(settings, parts)
    try:
        ctx = installation.ctx
        stopping = await ctx.store.write(lambda tx: stop_everything(ctx, tx))
        if stopping:
            await installation.start()
            await _carried_out(installation, stopping)
        elsewhere = set() if parts else await _end_elsewhere(ctx)
    finally:
        await installation.stop()
    return len({one.service for one in stopping} | elsewhere)


async def _installed(settings: Settings, parts: Parts | None) -> Installation:
    try:
        # A stopping service need not be reached, so ports that other programs use do not matter.
        return await install(replace(settings, gateway_port=0), parts=parts, keeps_engine=True)
    except InUse as error:
        raise CommandRefused(
            "leave out --data-dir and name the server instead, with --url (WINDLASS_URL) and WINDLASS_TOKEN: "
            "it runs on this data directory"
        ) from error


async def _end_elsewhere(ctx: Context) -> set[str]:
    """Ends services on engines that the settings do not name: the server may have been started with another
    --engine. Returns their ids."""
    known, ended = set(await ctx.store.reads.statuses.services()), set()
    for name in ENGINES:
        if name == ctx.places.local.engine.name or (
            name == DOCKER and not await docker_answers(docker_at(ctx.settings))
        ):
            continue
        other = await real_parts(replace(ctx.settings, engine=name), ctx.clock, ctx.installation)
        await other.engine.start(lambda service: None, lambda service, said: None)
        try:
            running = {one.service for one in await other.engine.all()} & known
            for service in running:
                await other.engine.remove(service, grace=ctx.settings.stop_seconds)
        finally:
            await other.engine.stop()
        ended |= running
    return ended


async def _count(settings: Settings) -> int:
    """Counts running services without changing anything: it may be the wrong database."""
    async with looking(settings) as line:
        return len(await up(Reads(line)))


async def _carried_out(installation: Installation, stopping: Sequence[Stopping]) -> None:
    source, failed, left = installation.ctx.store.reads, [], list(stopping)
    while left:
        for one in list(left):
            deployment = await source.deployments.get(one.deployment)
            if deployment is not None and deployment.status in OPEN:
                continue
            left.remove(one)
            well = deployment is None or deployment.status == Progress.SUCCEEDED
            say_state(one.name, "STOPPED" if well else "ERROR")
            failed += [] if well else [one.name]
        await asyncio.sleep(_LOOK if left else 0)
    if failed:
        raise _not_stopped(failed)


def _not_stopped(names: Sequence[str]) -> Stopped:
    some = ", ".join(itertools.islice(names, 5))
    return Stopped(f"repeat the command: {len(names)} of the services did not stop ({some})")


def report(count: int) -> None:
    services = "1 service is" if count == 1 else f"{count} services are"
    said = f"{services} stopped; data, settings and history stay" if count else "Nothing was running"
    click.echo(said) if count else say(said)
