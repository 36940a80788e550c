"""Answers the metrics of a service: what its instances used in the last hour, and the requests to it."""

from __future__ import annotations

from collections.abc import Sequence

from windlass.base.clock import stamp
from windlass.control.context.call import Call, Reply, encode, reads
from windlass.control.context.context import Context
from windlass.control.context.usage_history import CLASSES, EVERY, UsageSample
from windlass.control.records.reachability import check_here
from windlass.control.request.paths import target
from windlass.core.declare.service_metrics import InstanceMetrics, RequestMetrics, ServiceMetrics


@reads("*.metrics")
async def read_metrics(ctx: Context, call: Call) -> Reply:
    service = await target(ctx.store.reads, call)
    await check_here(ctx, service.id)
    return Reply(encode(metrics_of(ctx.usage.of(service.id, ctx.clock.now()))))


def metrics_of(samples: Sequence[UsageSample]) -> ServiceMetrics:
    """Returns the samples as columns with common times. A pause, such as that of a restart, is a gap."""
    filled = _with_gaps(samples)
    names = sorted({name for sample in samples for name in sample.memory}, key=_order)
    return ServiceMetrics(
        every_seconds=EVERY // 1000,
        times=[stamp(at) for at, _ in filled],
        instances=[
            InstanceMetrics(
                name=name,
                cpu=[_round(sample.cpu.get(name)) if sample else None for _, sample in filled],
                memory=[sample.memory.get(name) if sample else None for _, sample in filled],
            )
            for name in names
        ],
        requests=_requests(filled),
    )


def _with_gaps(samples: Sequence[UsageSample]) -> list[tuple[int, UsageSample | None]]:
    filled: list[tuple[int, UsageSample | None]] = []
    for sample in samples:
        if filled and sample.at - filled[-1][0] > 2 * EVERY:
            filled += [(filled[-1][0] + EVERY, None), (sample.at - EVERY, None)]
        filled.append((sample.at, sample))
    return filled


def _requests(filled: list[tuple[int, UsageSample | None]]) -> RequestMetrics | None:
    if not any(sample and sample.per_second is not None for _, sample in filled):
        return None
    rates = [sample.per_second if sample else None for _, sample in filled]
    times = [sample.latency if sample else (None, None, None) for _, sample in filled]
    return RequestMetrics(
        by_status={name: [_round(rate[name]) if rate else None for rate in rates] for name in CLASSES},
        p50=[_round(latency[0]) for latency in times],
        p90=[_round(latency[1]) for latency in times],
        p99=[_round(latency[2]) for latency in times],
    )


def _round(number: float | None) -> float | None:
    return None if number is None else round(number, 2)


def _order(name: str) -> tuple[int, ...]:
    return tuple(int(part) for part in name.split("-"))
