"""Keeps the routes of this replica up to date with changes at other replicas and engines.

Each place has its own queue, so that an unavailable or slow host does not delay the routes of other places.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

from windlass.base.errors import Unavailable
from windlass.base.fair_share import FairShare
from windlass.base.log import log
from windlass.base.outage import Outage
from windlass.control.context.context import Context
from windlass.control.deploying.routes import catch_up, hold_names
from windlass.control.deploying.sites import lost_sites
from windlass.control.records.deployments import RECONCILE
from windlass.control.records.runs import RUN_WORK
from windlass.engines.engine import EngineError, EngineUnavailable
from windlass.engines.job_plans import RunState
from windlass.routers.router import RouteError
from windlass.store import Tx

_SITE_CHECK_INTERVAL = 15.0
"""Seconds between two checks of the files of static sites."""
_RETRY_PAUSE = 1.0
"""Seconds between two attempts to set routes."""
_log = log("routes")


class RouteUpdates:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._noted: dict[str, float] = {}
        """Services whose routes have to be updated, with the time of the request; not yet assigned to
        places."""
        self._waiting: dict[str, dict[str, float]] = {}
        """Services whose routes have to be updated, by place."""
        self._running: dict[str, asyncio.Task[None]] = {}
        """Running update tasks by place."""
        self._reasons: dict[str, str] = {}
        """The logged reasons why the routes of services wait, by service."""
        self._must_look = asyncio.Event()
        self._outage = Outage(_log, "routes wait for the database", "routes are updated again")
        self._untold: set[str] | None = None
        """Services whose routes were not set since the start of the server; None once the routes of all
        services were set."""

    def note_all(self, services: Iterable[str]) -> None:
        """Schedules an update of all services. Afterwards, routers are notified that their routes are
        complete."""
        self._untold = set(services)
        self.note(self._untold)

    def note(self, services: Iterable[str]) -> None:
        """Schedules an update of the routes of services."""
        self.note_since(dict.fromkeys(services, time.monotonic()))

    def note_since(self, services: Mapping[str, float]) -> None:
        self._noted |= services
        self._must_look.set()

    async def run(self) -> None:
        """Updates routes, in an endless loop."""
        try:
            while True:
                await self._must_look.wait()
                try:
                    await self._start()
                    await self._complete()
                    self._outage.end()
                except Unavailable as error:
                    self._outage.note(str(error))
                    await asyncio.sleep(_RETRY_PAUSE)
        finally:
            await self.stop()

    async def watch_sites(self) -> None:
        """Restores lost files of static sites, in an endless loop."""
        while True:
            await asyncio.sleep(_SITE_CHECK_INTERVAL)
            with suppress(Unavailable):  # Other loops log that the database is unavailable.
                await self.restore_sites()

    async def restore_sites(self) -> None:
        """Schedules the restoring of lost files of static sites, because no engine reports their loss."""
        lost = await lost_sites(self._ctx)
        for service in lost:
            _log.warning("lost files of a site are put in place again", extra={"service": service})
        self.note(lost)
        if lost:
            await self._ctx.store.write(partial(request_check, lost))

    async def catch_up(self, timeout: float) -> None:
        """Updates the scheduled services, for at most `timeout` seconds. `run` completes the rest."""
        await self._start()
        if self._running:
            await asyncio.wait([*self._running.values()], timeout=timeout)

    async def stop(self) -> None:
        running = [*self._running.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _start(self) -> None:
        self._must_look.clear()
        noted, self._noted = self._noted, {}
        late: dict[str, float] = {}
        share = FairShare()
        try:
            for service, since in noted.items():
                with self._retrying(service, since, late, raising=Unavailable):
                    place = await self._ctx.places.of(service)
                    self._waiting.setdefault(place.id, {})[service] = since
                await share.pause()
        except Unavailable:
            self._noted = noted | self._noted
            self._must_look.set()
            raise
        if late:
            self._has_checked(late)
            self._noted = late | self._noted
            asyncio.get_running_loop().call_later(_RETRY_PAUSE, self._must_look.set)
        for id in self._waiting.keys() - self._running.keys():
            self._running[id] = asyncio.create_task(self._update(id))

    async def _update(self, place: str) -> None:
        try:
            while services := self._waiting.pop(place, {}):
                late = await self._update_all(services)
                self._has_checked(services)
                await self._complete()
                if late:
                    await asyncio.sleep(_RETRY_PAUSE)
                    self._waiting[place] = late | self._waiting.get(place, {})
        finally:
            del self._running[place]

    def _has_checked(self, services: Mapping[str, float]) -> None:
        if self._untold is not None:
            self._untold -= services.keys()

    async def _complete(self) -> None:
        """Notifies routers, once, that they have the routes of all services."""
        if self._untold is not None and not self._untold:
            try:
                for router in {place.router for place in self._ctx.places.all()}:
                    await router.complete()
            except RouteError as error:
                _log.warning("routers wait for the routes of all services", extra={"why": str(error)})
                asyncio.get_running_loop().call_later(_RETRY_PAUSE, self._must_look.set)
            else:
                self._untold = None

    async def _update_all(self, services: Mapping[str, float]) -> dict[str, float]:
        """Updates services. Returns those whose routes could not be set."""
        late: dict[str, float] = {}
        is_unavailable, share = False, FairShare()
        for service, since in services.items():
            await share.pause()
            with self._retrying(service, since, late):
                if not is_unavailable:
                    is_unavailable = await self._is_unavailable(service, since)
                if is_unavailable:
                    late[service] = since
                    await hold_names(self._ctx, service)
        return late

    @contextmanager
    def _retrying(
        self,
        service: str,
        start_time: float,
        late: dict[str, float],
        raising: type[Exception] | tuple[()] = (),
    ) -> Iterator[None]:
        """Postpones a service whose routes cannot be set, so that it does not delay other services."""
        try:
            yield
        except raising:
            raise
        except (EngineError, RouteError, Unavailable) as error:
            self._note_late(service, str(error))
            late[service] = start_time
        except Exception as error:  # noqa: BLE001 (the loop must outlive one service)
            self._note_late(service, repr(error), unexpected=error)
            late[service] = start_time

    def _note_late(self, service: str, reason: str, unexpected: Exception | None = None) -> None:
        """Logs why the routes of a service wait, once for each reason."""
        if self._reasons.get(service) != reason:
            self._reasons[service] = reason
            level = logging.ERROR if unexpected else logging.WARNING
            _log.log(level, "routes wait", extra={"service": service, "why": reason}, exc_info=unexpected)

    async def _is_unavailable(self, service: str, start_time: float) -> bool:
        """Sets the routes of a service. Returns whether its engine is unavailable."""
        try:
            await catch_up(self._ctx, service, start_time)
        except EngineUnavailable as error:
            self._note_late(service, str(error))
            return True
        self._reasons.pop(service, None)
        return False


async def request_check(services: Iterable[str], tx: Tx) -> None:
    """Schedules a check of services, which restarts their missing instances."""
    for service in services:
        if going := await tx.runs.open(service):
            queue = await tx.work.queue_of_runs(service)
            for run in going:
                if run.status == RunState.RUNNING:  # a run that waits for its retry is scheduled already
                    await tx.work.schedule(RUN_WORK, run.id, org=run.org, queue=queue)
        elif status := await tx.statuses.get(service):
            await tx.work.schedule(RECONCILE, service, org=status.org)
