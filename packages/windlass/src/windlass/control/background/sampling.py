"""Samples the resource usage and requests of services four times a minute."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from itertools import groupby
from typing import Final

from windlass.base.clock import SECOND
from windlass.base.log import log
from windlass.base.subprocesses import run_together
from windlass.control.background.all_places import at_clusters
from windlass.control.background.long_usage import LongUsage
from windlass.control.background.rates import (
    RequestLook,
    UsageLook,
    is_comparable,
    request_points,
    usage_points,
)
from windlass.control.context.context import Context
from windlass.control.context.engine_scope import MAX_LOOKUPS
from windlass.control.context.place import Place
from windlass.control.context.usage_history import (
    INTERVAL_MS,
    MAX_SHOWN_INSTANCES,
    InstanceKey,
    Point,
    slot_of,
)
from windlass.control.deploying.console_route import CONSOLE
from windlass.engines.engine import EngineError
from windlass.routers.router import RouteError

_TASK_KIND: Final = "sampling"
_TIMEOUT: Final = 10.0
"""The timeout in seconds for the engine of this machine and for the gateway."""
_AT_A_TIME: Final = 100
"""The number of services whose rates are computed in one turn of the event loop."""
_log = log("sampling")


class Sampler:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._long = LongUsage(ctx.usage_files)
        self._usage: dict[str, UsageLook] = {}
        """The last sample of each place."""
        self._requests: RequestLook | None = None
        self._names: dict[str, dict[str, InstanceKey | None]] = {}
        """Instances by place and engine id; None for instances of other places. Engines do not reuse ids."""

        self._silent: set[str] = set()
        """Components (engine or gateway) that did not respond to the last sample."""

    async def run(self) -> None:
        while True:
            now = self._ctx.clock.now()
            await asyncio.sleep((INTERVAL_MS - now % INTERVAL_MS) / SECOND)
            await self.add_points()

    async def add_points(self) -> None:
        """Adds a point for all services that this server can reach. A slow engine does not delay the
        others."""
        places = {place.id for place in self._ctx.places.all()}
        self._usage = {place: look for place, look in self._usage.items() if place in places}
        self._names = {place: names for place, names in self._names.items() if place in places}
        await run_together(
            self._look_at_requests(),
            self._look_at_own_place(),
            at_clusters(self._ctx, _TASK_KIND, self._look_at),
        )
        await self._long.write_ended(self._ctx.clock.now(), self._requests)

    async def _look_at_requests(self) -> None:
        """Samples the gateway, which counts the requests to services of all places of this server."""
        if self._is_same_point(self._requests):
            return
        try:
            async with asyncio.timeout(_TIMEOUT):
                traffic = [
                    row
                    for row in await self._ctx.places.local.router.service_traffic()
                    if row.service != CONSOLE
                ]
        except (RouteError, TimeoutError) as error:
            self._log_once("gateway", error)
            return
        self._silent.discard("gateway")
        before = self._requests
        now = self._requests = RequestLook(self._ctx.clock.now(), {row.service: row for row in traffic})
        points: dict[str, Point] = {}
        for first in range(0, len(traffic), _AT_A_TIME):
            some = RequestLook(now.at, {row.service: row for row in traffic[first : first + _AT_A_TIME]})
            points |= request_points(before, some)
            await asyncio.sleep(0)  # Requests are served while thousands of services are sampled.
        if is_comparable(before, now):
            self._ctx.usage.note_requests(now.at, points)

    async def _look_at_own_place(self) -> None:
        if not self._ctx.ownership.is_owner:
            return
        try:
            async with asyncio.timeout(_TIMEOUT):
                await self._look_at(self._ctx.places.local)
            self._silent.discard("engine")
        except (EngineError, TimeoutError) as error:
            self._log_once("engine", error)

    async def _look_at(self, place: Place) -> None:
        before = self._usage.get(place.id)
        if self._is_same_point(before):
            return
        used = await place.engine.usage()
        names = await self._names_of(place, used)
        mine = {key: usage for id, usage in used.items() if (key := names.get(id))}
        now = self._usage[place.id] = UsageLook(self._ctx.clock.now(), mine)
        chosen = {
            key
            for _, keys in groupby(sorted(mine), key=lambda key: key[0])
            for key in [*keys][:MAX_SHOWN_INSTANCES]
        }
        points = {key: point for key, point in usage_points(before, now).items() if key in chosen}
        self._ctx.usage.note_usage(now.at, points)
        self._long.note_usage(points)

    async def _names_of(
        self, place: Place, usage_by_instance: Mapping[str, object]
    ) -> Mapping[str, InstanceKey | None]:
        """Returns the instances by engine id, and None for instances of other places. The engine is queried
        only if an id is new."""
        names = self._names.get(place.id, {})
        if not names.keys() >= usage_by_instance.keys():
            instances = await place.engine.all()
            mine = await self._services_at(place, {instance.service for instance in instances})
            names = {
                instance.id: (instance.service, f"{instance.generation}-{instance.index}")
                if instance.service in mine
                else None
                for instance in instances
            }
        self._names[place.id] = {id: key for id, key in names.items() if id in usage_by_instance}
        return self._names[place.id]

    async def _services_at(self, place: Place, services: Collection[str]) -> Collection[str]:
        """Returns the services that run at a place. The engine of a cluster belongs to an organization, and
        may report services of other organizations or any number of invented ids."""
        if place.reconnect is None:
            return services
        places = self._ctx.places
        unknown = [service for service in services if places.known_cluster_of(service) is None]
        for service in unknown[:MAX_LOOKUPS]:
            await places.cluster_of(service)
        return {service for service in services if places.known_cluster_of(service) == place.id}

    def _log_once(self, subject: str, error: Exception) -> None:
        if subject not in self._silent:
            self._silent.add(subject)
            _log.info("services are not measured", extra={"silent": subject, "reason": repr(error)})

    def _is_same_point(self, previous_sample: UsageLook | RequestLook | None) -> bool:
        return previous_sample is not None and slot_of(previous_sample.at) == slot_of(self._ctx.clock.now())
