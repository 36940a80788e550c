"""Puts services to sleep that have had no requests for some time, and wakes them at the next request.

The gateway counts the requests of all services of this server, and the time since each was last used. Servers
that share an engine have gateways of their own: the last use is stored, so that each knows what the others
have seen. Health checks go to instances directly, and are not counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from windlass.base.clock import MINUTE, SECOND
from windlass.base.errors import Unavailable
from windlass.base.fair_share import FairShare
from windlass.base.log import log
from windlass.control.background.mentions import MentionReader
from windlass.control.background.sleep_reasons import why_awake
from windlass.control.context.context import Context, SleepTerms
from windlass.control.records.sealed_workload import workload_of
from windlass.control.records.sleep import fall_asleep, wake
from windlass.engines.engine import EngineError
from windlass.gateway.messages import ServiceTraffic, ServiceUses
from windlass.routers.router import RouteError
from windlass.store import Tx

LOOK_SECONDS: Final = 15.0
"""Seconds between two looks at the requests of services that may sleep."""
GRACE: Final = 5 * MINUTE
"""Milliseconds for which services stay awake after the start of a gateway. Its counters before the start are
lost, and visitors may be about to return."""
_REASON_LASTS: Final = 5 * MINUTE
"""Milliseconds for which the reason why a service stays awake is cached."""
_GATEWAY_TIMEOUT: Final = 10.0
_RETRY_PAUSE: Final = 1.0
_AT_ONCE: Final = 50
"""Maximum number of services in one transaction."""
_log = log("sleep")


class _SeenUse(Struct, frozen=True):
    """The counters of the gateway for a service at the last look."""

    requests: int
    last: int
    """The time of the last use."""


class _SeenGateway(Struct, frozen=True):
    """The gateway at the last look."""

    started_at: int
    age: float


class _KeptAwake(Struct, frozen=True):
    terms: SleepTerms
    reason: str
    until: int
    """The time at which the reason is examined again."""


class Sleepers:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._seen: dict[str, _SeenUse] = {}
        self._kept: dict[str, _KeptAwake] = {}
        """Unused services that must not sleep."""
        self._mentions = MentionReader(ctx)
        self._gateway: _SeenGateway | None = None
        self._asked: set[str] = set()
        """Services that have to be woken."""
        self._is_asked = asyncio.Event()

    # Waking

    def hear(self, services: Sequence[str]) -> None:
        """Records that requests wait for services. The gateway repeats this call while they wait."""
        self._asked.update(services)
        self._is_asked.set()

    async def run_wakes(self) -> None:
        """Wakes services with waiting requests, in an endless loop."""
        while True:
            await self._is_asked.wait()
            self._is_asked.clear()
            try:
                await self.wake_asked()
            except Unavailable:  # Other loops log that the database is unavailable.
                await asyncio.sleep(_RETRY_PAUSE)

    async def wake_asked(self) -> None:
        asked, self._asked = [*self._asked], set()
        for first in range(0, len(asked), _AT_ONCE):
            some = [one for one in asked[first : first + _AT_ONCE] if await self._is_asleep(one)]
            for service in await self._ctx.store.write(partial(_wake_all, some)) if some else ():
                self._ctx.logs.write(service, self._ctx.clock.now(), "Woken by a request")

    async def _is_asleep(self, service: str) -> bool:
        status = await self._ctx.store.reads.statuses.get(service)
        return status is not None and bool(status.sleep)

    # Falling asleep

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.put_unused_to_sleep()
            except Unavailable:
                continue

    async def put_unused_to_sleep(self) -> None:
        """Records which services were used, and puts the others to sleep."""
        sleepers = dict(self._ctx.routing.sleepers)
        self._seen = {service: seen for service, seen in self._seen.items() if service in sleepers}
        self._kept = {service: kept for service, kept in self._kept.items() if service in sleepers}
        if not sleepers:
            return
        try:
            async with asyncio.timeout(_GATEWAY_TIMEOUT):
                uses = await self._ctx.places.local.router.service_uses()
        except (RouteError, TimeoutError) as error:
            _log.info("no service is put to sleep now", extra={"reason": str(error) or "no answer"})
            return
        await self._note_uses(sleepers, uses)
        self._mentions.begin_look()
        started_at = self._gateway_start(uses.age)
        share = FairShare()
        for service, terms in sleepers.items():
            await share.pause()
            if not self._is_used(uses, service) and await self._is_due(service, terms, started_at):
                await self._put_to_sleep(service, terms)

    def _gateway_start(self, age: float) -> int:
        """Returns when the gateway was started, by the clock at the first look at it."""
        if self._gateway is None or age < self._gateway.age:
            self._gateway = _SeenGateway(self._ctx.clock.now() - round(age * SECOND), age)
        else:
            self._gateway = replace(self._gateway, age=age)
        return self._gateway.started_at

    async def _note_uses(self, sleepers: Mapping[str, SleepTerms], uses: ServiceUses) -> None:
        """Stores the last uses that are new."""
        now, new, share = self._ctx.clock.now(), [], FairShare()
        for service in sleepers:
            await share.pause()
            traffic = uses.traffic.get(service)
            if traffic is not None or self._is_used(uses, service):
                requests = traffic.requests if traffic else 0
                before = self._seen.get(service)
                last = now if self._is_used(uses, service) else self._last_use(before, traffic, now)
                self._seen[service] = _SeenUse(requests, last)
                if before is None or last > before.last:
                    new.append((service, last))
            elif await self._ctx.store.reads.service_uses.last(service) is None:
                new.append((service, now))  # its time begins when this server first looks at it
        for first in range(0, len(new), _AT_ONCE):
            await self._ctx.store.write(partial(_note_uses, new[first : first + _AT_ONCE]))

    def _is_used(self, uses: ServiceUses, service: str) -> bool:
        """Returns whether a service has requests or connections now, or people work in its instances."""
        traffic = uses.traffic.get(service)
        is_active = traffic is not None and traffic.active > 0
        return is_active or service in uses.of_elders or self._ctx.routing.sessions[service] > 0

    @staticmethod
    def _last_use(before: _SeenUse | None, traffic: ServiceTraffic | None, now: int) -> int:
        """Returns when a service was last used, as far as its gateway knows; 0 if it does not."""
        if traffic is None:
            return 0
        if before is not None and before.requests == traffic.requests:
            return before.last
        return now - round(traffic.idle * SECOND) if traffic.idle >= 0 else 0

    async def _is_due(self, service: str, terms: SleepTerms, gateway_start: int) -> bool:
        reads, now, span = self._ctx.store.reads, self._ctx.clock.now(), terms.minutes * MINUTE
        last, status = await reads.service_uses.last(service), await reads.statuses.get(service)
        if last is None or status is None or status.sleep or not status.instances:
            return False
        known = max(last, status.deployed_at or 0, gateway_start - max(0, span - GRACE))
        kept = self._kept.get(service)
        is_kept = kept is not None and kept.terms == terms and now < kept.until
        return now - known >= span and not is_kept

    async def _put_to_sleep(self, service: str, terms: SleepTerms) -> None:
        ctx = self._ctx
        row, status = (
            await ctx.store.reads.resources.get(service),
            await ctx.store.reads.statuses.get(service),
        )
        workload = await workload_of(ctx, status.serving if status else None)
        if row is None or workload is None or (await ctx.places.of(service)).engine.is_unavailable:
            return
        try:
            reason = await why_awake(ctx, row, workload, terms, self._mentions)
        except EngineError as error:
            _log.info("a service is not put to sleep now", extra={"service": service, "why": str(error)})
            return
        if reason is None:
            return
        if reason:
            before = self._kept.get(service)
            self._kept[service] = _KeptAwake(terms, reason, ctx.clock.now() + _REASON_LASTS)
            if before is None or before.reason != reason:
                ctx.logs.write(service, ctx.clock.now(), f"It stays awake without requests: {reason}")
            return
        self._kept.pop(service, None)
        if await ctx.store.write(lambda tx: fall_asleep(tx, row, workload.deployment, terms.minutes)):
            line = f"Put to sleep: no requests for {terms.minutes} minutes. The next one wakes it"
            ctx.logs.write(service, ctx.clock.now(), line)


async def _wake_all(services: Iterable[str], tx: Tx) -> list[str]:
    rows = [row for service in services if (row := await tx.resources.get(service))]
    return [row.id for row in rows if await wake(tx, row)]


async def _note_uses(uses: Sequence[tuple[str, int]], tx: Tx) -> None:
    await tx.service_uses.record(uses)
