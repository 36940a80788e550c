"""Looks after what runs: asks the probes that people declared, and scales between least and most.

It decides nothing for good: an instance that is not alive is started anew; one that is not ready gets no
requests until it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct

from windlass.base.log import log
from windlass.control.deploying.release import start
from windlass.control.deploying.routes import refresh
from windlass.control.request.context import Context
from windlass.core.deploy.workload import HealthProbe, Instance, Phase, Workload
from windlass.engines.engine import EngineError

_log = log("watch")


class Pulse(Struct):
    """How one instance answered lately."""

    failures: int = 0
    successes: int = 0


class Watcher:
    """One task for each service that declared how to tell that it is alive or ready."""

    def __init__(self, ctx: Callable[[], Context]) -> None:
        self._ctx = ctx
        self._watching: dict[str, tuple[Workload, asyncio.Task[None]]] = {}

    def keep(self, wanted: Workload) -> None:
        known = self._watching.get(wanted.service)
        if known and known[0].generation == wanted.generation:
            return
        self.forget(wanted.service)
        if wanted.alive or _asked(wanted):
            watch = asyncio.create_task(self._watch(wanted))
            self._watching[wanted.service] = (wanted, watch)

    def forget(self, service: str) -> None:
        if known := self._watching.pop(service, None):
            known[1].cancel()

    async def stop(self) -> None:
        tasks = [task for _, task in self._watching.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._watching.clear()

    async def _watch(self, wanted: Workload) -> None:
        pulses: dict[str, Pulse] = {}
        period = min(probe.period for probe in (*wanted.alive, *_asked(wanted)))
        while True:
            await asyncio.sleep(period)
            try:
                await self._look(wanted, pulses)
            except EngineError as error:
                _log.info("cannot look after a service", extra={"id": wanted.service, "why": str(error)})
            except Exception:  # noqa: BLE001 (looking after one service must outlive one bad look)
                _log.exception("the watch stumbled", extra={"id": wanted.service})

    async def _look(self, wanted: Workload, pulses: dict[str, Pulse]) -> None:
        ctx = self._ctx()
        place = await ctx.places.of(wanted.service)
        seen = [
            one
            for one in await place.engine.observe(wanted.service)
            if one.generation == wanted.generation and one.phase is Phase.RUNNING
        ]
        changed = False
        for one in seen:
            age = (ctx.clock.now() - one.started_at) / 1000
            await self._alive(ctx, wanted, one, age, pulses)
            changed |= await self._ready(ctx, wanted, one, pulses)
        if changed:
            await refresh(ctx, wanted.service)

    async def _alive(
        self, ctx: Context, wanted: Workload, one: Instance, age: float, pulses: dict[str, Pulse]
    ) -> None:
        place = await ctx.places.of(wanted.service)
        for probe in wanted.alive:
            if age < probe.initial_delay:
                continue
            pulse = pulses.setdefault(f"{one.id}/{one.restarts}/alive", Pulse())
            trouble = await place.probe(place.engine, one, probe)
            pulse.failures = pulse.failures + 1 if trouble else 0
            if pulse.failures >= probe.failures:
                _say(ctx, wanted, one, f"is not alive ({trouble}): started anew")
                pulse.failures = 0
                await place.engine.remove(
                    wanted.service, generation=wanted.generation, indexes=[one.index], grace=wanted.grace
                )
                await start(ctx, wanted, one.index)
                await refresh(ctx, wanted.service)

    async def _ready(self, ctx: Context, wanted: Workload, one: Instance, pulses: dict[str, Pulse]) -> bool:
        """Whether it began or ceased to be ready."""
        place = await ctx.places.of(wanted.service)
        for probe in _asked(wanted):
            pulse = pulses.setdefault(f"{one.id}/ready", Pulse())
            trouble = await place.probe(place.engine, one, probe)
            pulse.failures = pulse.failures + 1 if trouble else 0
            pulse.successes = 0 if trouble else pulse.successes + 1
            if one.id not in ctx.unwell and pulse.failures >= probe.failures:
                _say(ctx, wanted, one, f"is not ready ({trouble}): it gets no requests")
                ctx.unwell.add(one.id)
                return True
            if one.id in ctx.unwell and pulse.successes >= probe.successes:
                _say(ctx, wanted, one, "is ready again")
                ctx.unwell.discard(one.id)
                return True
        return False


def _asked(wanted: Workload) -> tuple[HealthProbe, ...]:
    """Derived probes only tell when it has come up: nobody asked for more."""
    return wanted.ready if wanted.watched else ()


def _say(ctx: Context, wanted: Workload, one: Instance, what: str) -> None:
    ctx.logs.write(wanted.service, ctx.clock.now(), f"Instance {one.index} {what}", version=wanted.deployment)
