"""Looks four times a minute at what services use, for the charts of the last hour."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from windlass.base.clock import SECOND
from windlass.base.errors import Unavailable
from windlass.base.log import log
from windlass.base.metrics import Histogram, Metric
from windlass.control.context.context import Context
from windlass.control.context.place import Place
from windlass.control.context.usage_history import EVERY, Counts, counts_of
from windlass.core.deploy.workload import Usage
from windlass.engines.engine import EngineError

_REQUESTS: Final = "gateway_requests_total"
_SECONDS: Final = "gateway_request_seconds"
_log = log("sampling")


class Sampler:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY / SECOND)
            with suppress(Unavailable):  # Others log that the database is away.
                await sample(self._ctx)


async def sample(ctx: Context) -> None:
    """Takes a sample of all services that this server reaches."""
    for place in ctx.places.all():
        if place.elsewhere is None and place.is_connected and _is_ours(ctx, place):
            await _sample_place(ctx, place)


def _is_ours(ctx: Context, place: Place) -> bool:
    return place is not ctx.places.local or ctx.ownership.is_owner


async def _sample_place(ctx: Context, place: Place) -> None:
    try:
        usage = await place.engine.usage()
        used: dict[str, dict[str, Usage]] = {}
        for instance in await place.engine.all():
            if instance.id in usage:
                name = f"{instance.generation}-{instance.index}"
                used.setdefault(instance.service, {})[name] = usage[instance.id]
    except EngineError as error:
        _log.info("an engine tells no usage: %s", error, extra={"place": place.id})
        return
    ctx.usage.note(ctx.clock.now(), used, _counts_in(await place.router.metrics(), used))


def _counts_in(
    metrics: Sequence[Metric], used: Mapping[str, Mapping[str, Usage]]
) -> Mapping[str, Counts] | None:
    """Returns the requests so far of the services that run; None if the gateway did not tell."""
    answers: dict[str, dict[str, float]] = {}
    times: dict[str, Histogram] = {}
    is_counted = False
    for metric in metrics:
        if metric.name == _REQUESTS:
            is_counted = True
            for (service, name), number in metric.samples:
                if service in used and not isinstance(number, Histogram):
                    answers.setdefault(service, {})[name] = number
        elif metric.name == _SECONDS:
            for (service,), histogram in metric.samples:
                if service in used and isinstance(histogram, Histogram):
                    times[service] = histogram
    return counts_of(answers, times) if is_counted else None
