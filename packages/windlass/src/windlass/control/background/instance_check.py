"""Compares the instances that should run at each place with the present ones.

Connected engines report instances that start and end. Changes during a disconnection are not reported. So
each place is compared when its engine is connected again, and every two minutes. The comparison starts no
instances: it schedules checks of services, and the reconciler does the rest.
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
from windlass.control.context.engine_scope import MAX_LOOKUPS
from windlass.control.context.place import Place
from windlass.control.records.deployments import name_of, record_health
from windlass.core.deploy.states import STATES_OF_RUNNING_SERVICES, State
from windlass.engines.engine import EngineError, Notice
from windlass.engines.workload import Presence
from windlass.store import StatusRow, Tx

COMPARISON_INTERVAL: Final = 120.0
"""Seconds between two comparisons of a place."""
_RETRY_PAUSE: Final = 1.0
"""Seconds until a failed comparison is repeated."""
_AT_ONCE: Final = 20
"""The largest number of services that are changed in one transaction. Larger transactions would delay API
requests."""
_TASK_KIND: Final = "instance check"
_MISSING_INSTANCES_ADVICE: Final = (
    "Wait until {} runs again: all of its instances were gone from their engine, and are started again now"
)
_log = log("instances")


class Differences(Struct, frozen=True):
    absent: Sequence[StatusRow]
    """Services that should run but have no instance."""
    services: Collection[str]
    """All services that have to be checked, including the absent ones."""


def compare(statuses: Iterable[tuple[int, StatusRow]], presences: Iterable[Presence]) -> Differences:
    """Compares services with the present instances. `statuses` contains services without open deployments,
    each with its serving generation. A service is correct if exactly its instances are present, and the
    recorded number of them run."""
    here, running, all_of = Counter[tuple[str, int]](), Counter[tuple[str, int]](), Counter[str]()
    for service, generation, is_running in presences:
        here[service, generation] += 1
        running[service, generation] += is_running
        all_of[service] += 1
    absent: list[StatusRow] = []
    differing: set[str] = set()
    for generation, status in statuses:
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
        """Places that have to be compared."""
        self._is_due = asyncio.Event()
        self._absent: dict[str, frozenset[str]] = {}
        """Services without instances at the last check, by place. Such a service may wait for its volume."""

    def note(self, place: str) -> None:
        """Schedules a comparison of a place, because notifications of its engine may have been missed."""
        self._due.add(place)
        self._is_due.set()

    async def run(self) -> None:
        """Compares places, in an endless loop."""
        loop = asyncio.get_running_loop()
        next_round = loop.time() + COMPARISON_INTERVAL
        while True:
            try:
                async with asyncio.timeout_at(next_round):
                    await self._is_due.wait()
            except TimeoutError:
                next_round = loop.time() + COMPARISON_INTERVAL
                self._due |= {place.id for place in self._ctx.places.all()}
            self._is_due.clear()
            try:
                await self.compare_scheduled()
            except Unavailable:  # Other loops log that the database is unavailable.
                await asyncio.sleep(_RETRY_PAUSE)
                self._is_due.set()

    async def compare_scheduled(self) -> None:
        """Compares the scheduled places."""
        try:
            if self._ctx.ownership.is_owner:
                await self._check(self._ctx.places.local)
        except EngineError as error:
            _log.warning("instances are not compared", extra={"why": str(error)})
        await at_clusters(self._ctx, _TASK_KIND, self._check)

    async def _check(self, place: Place) -> None:
        """Compares a place if it is scheduled. The records are read before the engine, so that a later
        deployment cannot appear absent."""
        if place.id not in self._due or place.engine.is_unavailable:
            return  # A comparison is scheduled when the engine is available again.
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

    async def _stray(self, place: Place, running_services: Collection[str]) -> list[str]:
        """Returns services that have running instances but should have none. Services with runs in progress
        are correct."""
        reads, stray = self._ctx.store.reads, []
        for service in sorted(running_services)[:MAX_LOOKUPS]:
            status = await reads.statuses.get(service)
            if status is None or status.serving is not None or not await self._is_at(place, status):
                continue
            if not (await reads.deployments.open(service) or await reads.runs.open(service)):
                stray.append(service)
        return stray

    async def _mark_absent(self, place: Place, absent: Sequence[StatusRow]) -> None:
        """Records that these services have no instances, before each of them is started again."""
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
            continue  # The service has changed since: its deployment checks the instances.
        await tx.statuses.change(replace(status, running=0, ready=0))
        if status.state in STATES_OF_RUNNING_SERVICES and status.deployment == status.serving:
            await record_health(
                tx, service, State.DEPLOYMENT_ERROR, _MISSING_INSTANCES_ADVICE.format(name_of(service))
            )
