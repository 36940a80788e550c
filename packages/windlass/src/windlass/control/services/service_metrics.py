"""The metrics of a service in the last hour or longer: resource usage of its instances, and requests to
it."""

from __future__ import annotations

from collections.abc import Mapping

from windlass.base.clock import SECOND, stamp
from windlass.control.context.call import Call, Reply, encode, reads
from windlass.control.context.context import Context
from windlass.control.context.usage_files import INSTANCES, SPANS, LongUsagePoints
from windlass.control.context.usage_history import (
    ALWAYS_SHOWN_CLASSES,
    CLASSES,
    CPU,
    INTERVAL_MS,
    MEMORY,
    PERCENTILES,
    Numbers,
    UsagePoints,
)
from windlass.control.records.reachability import check_here
from windlass.control.request.paths import target
from windlass.core.declare.service_metrics import (
    InstanceMetrics,
    RequestMetrics,
    ServiceMetrics,
    ServiceMetricsQuery,
    UsageMetrics,
)


@reads("*.metrics")
async def read_metrics(ctx: Context, call: Call) -> Reply:
    service = await target(ctx.store.reads, call)
    await check_here(ctx, service.id)
    if span := SPANS.get(call.asked(ServiceMetricsQuery).span):
        points = await ctx.usage_files.read(service.id, span, ctx.clock.now())
        return Reply(encode(long_metrics_of(points)))
    return Reply(encode(metrics_of(ctx.usage.of(service.id, ctx.clock.now()))))


def metrics_of(points: UsagePoints) -> ServiceMetrics:
    return ServiceMetrics(
        every_seconds=INTERVAL_MS // SECOND,
        times=[stamp(at) for at in points.times],
        instances=[
            InstanceMetrics(
                name=name,
                cpu=_round(points.instances[name][CPU]),
                memory=_whole(points.instances[name][MEMORY]),
            )
            for name in sorted(points.instances, key=_order)
        ],
        requests=_requests_of(points.requests) if points.requests else None,
    )


def long_metrics_of(points: LongUsagePoints) -> ServiceMetrics:
    numbers = points.numbers
    has_requests = any(number for name in CLASSES for number in numbers[name])
    return ServiceMetrics(
        every_seconds=points.every // SECOND,
        times=[stamp(at) for at in points.times],
        instances=[],
        requests=_requests_of(numbers) if has_requests else None,
        usage=UsageMetrics(
            instances=_whole(numbers[INSTANCES]), cpu=_round(numbers[CPU]), memory=_whole(numbers[MEMORY])
        ),
    )


def _requests_of(series: Mapping[str, Numbers]) -> RequestMetrics:
    shown = [name for name in CLASSES if name in ALWAYS_SHOWN_CLASSES or any(series[name])]
    return RequestMetrics(
        by_status={name: _round(series[name]) for name in shown},
        **{name: _round(series[name]) for name in PERCENTILES},
    )


def _round(values: Numbers) -> Numbers:
    return [None if number is None else round(number, 2) for number in values]


def _whole(values: Numbers) -> list[int | None]:
    return [None if number is None else int(number) for number in values]


def _order(name: str) -> tuple[int, ...]:
    """Returns a sort key for instance names: generation and number."""
    return tuple(int(part) for part in name.split("-"))
