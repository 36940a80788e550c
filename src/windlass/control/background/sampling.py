"""Looks four times a minute at what services use, and at the requests to them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import groupby
from typing import Final

from windlass.base.clock import SECOND
from windlass.base.log import log
from windlass.base.subprocesses import run_together
from windlass.control.background.everywhere import at_clusters
from windlass.control.background.rates import RequestLook, UsageLook, request_points, usage_points
from windlass.control.context.context import Context
from windlass.control.context.place import Place
from windlass.control.context.usage_history import EVERY, MOST_SHOWN, InstanceKey, slot_of
from windlass.engines.engine import EngineError
from windlass.routers.router import RouteError

_KIND: Final = "sampling"
_PATIENCE: Final = 10.0
"""Seconds that the engine of this machine, and the gateway, may take."""
_log = log("sampling")


class Sampler:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._usage: dict[str, UsageLook] = {}
        """The last look at each place."""
        self._requests: RequestLook | None = None
        self._names: dict[str, dict[str, InstanceKey]] = {}
        """By place: its instances by their ids in the engine. An id never means another instance."""

    async def run(self) -> None:
        while True:
            now = self._ctx.clock.now()
            await asyncio.sleep((EVERY - now % EVERY) / SECOND)
            await self.look()

    async def look(self) -> None:
        """Adds a point for all services that this server reaches. No engine keeps the others waiting."""
        places = {place.id for place in self._ctx.places.all()}
        self._usage = {place: look for place, look in self._usage.items() if place in places}
        self._names = {place: names for place, names in self._names.items() if place in places}
        await run_together(
            self._look_at_requests(),
            self._look_at_own_place(),
            at_clusters(self._ctx, _KIND, self._look_at),
        )

    async def _look_at_requests(self) -> None:
        """Asks the gateway, which counts the requests to services at all places of this server."""
        if self._is_same_point(self._requests):
            return
        try:
            async with asyncio.timeout(_PATIENCE):
                traffic = await self._ctx.places.local.router.count_requests()
        except (RouteError, TimeoutError) as error:
            _log.info("the gateway does not tell the requests", extra={"reason": repr(error)})
            return
        before, now = (
            self._requests,
            RequestLook(self._ctx.clock.now(), {row.service: row for row in traffic}),
        )
        self._requests = now
        points = request_points(before, now)
        if points is not None:
            self._ctx.usage.note_requests(now.at, points)

    async def _look_at_own_place(self) -> None:
        if not self._ctx.ownership.is_owner:
            return
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._look_at(self._ctx.places.local)
        except (EngineError, TimeoutError) as error:
            _log.info("the engine does not tell the usage", extra={"reason": repr(error)})

    async def _look_at(self, place: Place) -> None:
        before = self._usage.get(place.id)
        if self._is_same_point(before):
            return
        used = await place.engine.usage()
        names = await self._names_of(place, used)
        mine = {names[id]: usage for id, usage in used.items() if id in names}
        now = self._usage[place.id] = UsageLook(self._ctx.clock.now(), mine)
        chosen = {
            key for _, keys in groupby(sorted(mine), key=lambda key: key[0]) for key in [*keys][:MOST_SHOWN]
        }
        points = {key: point for key, point in usage_points(before, now).items() if key in chosen}
        self._ctx.usage.note_usage(now.at, points)

    async def _names_of(self, place: Place, used: Mapping[str, object]) -> Mapping[str, InstanceKey]:
        """Returns the instances by their ids. The engine is asked only when there is a new one."""
        names = self._names.get(place.id, {})
        if not names.keys() >= used.keys():
            names = {
                instance.id: (instance.service, f"{instance.generation}-{instance.index}")
                for instance in await place.engine.all()
            }
        self._names[place.id] = {id: key for id, key in names.items() if id in used}
        return self._names[place.id]

    def _is_same_point(self, before: UsageLook | RequestLook | None) -> bool:
        return before is not None and slot_of(before.at) == slot_of(self._ctx.clock.now())
