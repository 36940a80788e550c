"""Compares the instances that should run at each place with those that are there.

Engines give notice of what begins and ends while they are connected. Changes in the meantime cause no
notice: so each place is compared whenever its engine is back, and every two minutes. The comparison starts
nothing: like the notice of an engine, it has a service looked at, and the reconciler does the rest.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.base.errors import Unavailable
from windlass.base.log import log
from windlass.control.background.all_places import at_clusters
from windlass.control.context.context import Context
from windlass.control.context.engine_scope import MOST_LOOK_UPS
from windlass.control.context.place import Place
from windlass.control.records.deployments import name_of, record_health
from windlass.core.deploy.states import UP, State
from windlass.engines.engine import EngineError, Notice
from windlass.engines.workload import Presence
from windlass.store import StatusRow, Tx

EVERY: Final = 120.0
"""Seconds between two comparisons of a place whose engine reports nothing."""
_PAUSE: Final = 1.0
"""Seconds after which a comparison that failed is tried again."""
_AT_ONCE: Final = 20
"""Maximum number of services that one transaction marks, because requests wait for it."""
_KIND: Final = "instance check"
_GONE: Final = (
    "Wait until {} runs again: all of its instances were gone from their engine, and are started again now"
)
_log = log("instances")


class Differences(Struct, frozen=True):
    absent: Sequence[StatusRow]
    """Services that should run, of which nothing is there."""
    services: Collection[str]
    """All services that should be looked at, these included."""


def compare(kept: Iterable[tuple[int, StatusRow]], present: Iterable[Presence]) -> Differences:
    """`kept` are services with nothing to do but run, each with the generation that should. A service is as
    it should be if exactly its instances are there, and as many of them run as was recorded."""
    here, running, all_of = Counter[tuple[str, int]](), Counter[tuple[str, int]](), Counter[str]()
    for service, generation, is_running in present:
        here[service, generation] += 1
        running[service, generation] += is_running
        all_of[service] += 1
    absent: list[StatusRow] = []
    differing: set[str] = set()
    for generation, status in kept:
        key = status.id, generation
        as_recorded = running[key] == status.running
        if not (as_recorded and here[key] == all_of[status.id] == status.instances):
            differing.add(status.id)
        if status.instances and not here[key]:
            absent.append(status)
    return Differences(absent, differing)


class InstanceCheck:
    def __init__(self, ctx: Context, notice: Notice) -> None:
        """`notice` schedules a check of a service."""
        self._ctx, self._notice = ctx, notice
        self._due: set[str] = set()
        """Places that are due for a comparison."""
        self._is_due = asyncio.Event()
        self._absent: dict[str, frozenset[str]] = {}
        """Services of which nothing was there at the last check, by place. One may wait for its volume."""

    def note(self, place: str) -> None:
        """Schedules a comparison of a place, because its engine may have missed notifications."""
        self._due.add(place)
        self._is_due.set()

    async def run(self) -> None:
        """Compares places, in an endless loop."""
        loop = asyncio.get_running_loop()
        next_round = loop.time() + EVERY
        while True:
            try:
                async with asyncio.timeout_at(next_round):
                    await self._is_due.wait()
            except TimeoutError:
                next_round = loop.time() + EVERY
                self._due |= {place.id for place in self._ctx.places.all()}
            self._is_due.clear()
            try:
                await self.look()
            except Unavailable:  # Others log that the database is unavailable.
                await asyncio.sleep(_PAUSE)
                self._is_due.set()

    async def look(self) -> None:
        """Compares the places that are due."""
        try:
            if self._ctx.ownership.is_owner:
                await self._check(self._ctx.places.local)
        except EngineError as error:
            _log.warning("instances are not compared", extra={"why": str(error)})
        await at_clusters(self._ctx, _KIND, self._check)

    async def _check(self, place: Place) -> None:
        """Compares a place, if it is due. The records are read first, so that a deployment in between does
        not count as missing."""
        if place.id not in self._due or place.engine.is_unavailable:
            return  # An engine that is unavailable is noted when it is back.
        self._due.discard(place.id)
        try:
            kept = [
                row for row in await self._ctx.store.reads.statuses.kept() if await self._is_at(place, row[1])
            ]
            present = await place.engine.present()
            differences = compare(kept, present)
            await self._mark_absent(place, differences.absent)
            stray = await self._stray(
                place, {presence.service for presence in present if presence.is_running}
            )
        except Unavailable:
            self.note(place.id)
            raise
        for service in (*differences.services, *stray):
            self._notice(service)

    async def _is_at(self, place: Place, status: StatusRow) -> bool:
        return (await self._ctx.places.at(status.cluster)).id == place.id

    async def _stray(self, place: Place, running: Collection[str]) -> list[str]:
        """Returns services of which something runs and nothing should. Runs that are in progress should."""
        reads, stray = self._ctx.store.reads, []
        for service in sorted(running)[:MOST_LOOK_UPS]:
            status = await reads.statuses.get(service)
            if status is None or status.serving is not None or not await self._is_at(place, status):
                continue
            if not (await reads.deployments.open(service) or await reads.runs.open(service)):
                stray.append(service)
        return stray

    async def _mark_absent(self, place: Place, absent: Sequence[StatusRow]) -> None:
        """Records that nothing runs of these services, before each of them is started again."""
        before, now = self._absent.get(place.id, frozenset()), frozenset(status.id for status in absent)
        self._absent[place.id] = now
        if new := now - before:
            extra = {"place": place.machine or place.id, "services": len(new)}
            _log.warning("instances that should run are gone: they are started again", extra=extra)
        for first in range(0, len(absent), _AT_ONCE):
            await self._ctx.store.write(partial(_mark_absent, absent[first : first + _AT_ONCE]))


async def _mark_absent(absent: Iterable[StatusRow], tx: Tx) -> None:
    for seen in absent:
        service, status = await tx.resources.get(seen.id), await tx.statuses.get(seen.id)
        if service is None or status != seen or await tx.deployments.open(seen.id):
            continue  # It has changed since: a deployment sees to it, or saw the engine after this.
        await tx.statuses.change(replace(status, running=0, ready=0))
        if status.state in UP and status.deployment == status.serving:
            await record_health(tx, service, State.DEPLOYMENT_ERROR, _GONE.format(name_of(service)))
