"""Pure functions that compute the resource usage and request rates of services between two samples."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

from msgspec import Struct

from windlass.base.clock import SECOND
from windlass.control.context.usage_history import (
    CLASSES,
    CPU,
    INTERVAL_MS,
    MEMORY,
    PERCENTILES,
    InstanceKey,
    Point,
)
from windlass.engines.workload import Usage
from windlass.gateway.messages import ServiceTraffic
from windlass.routers.builtin.traffic import LATENCY_BOUNDS

_MAX_INTERVAL: Final = INTERVAL_MS * 5 // 2
"""The longest interval in milliseconds between two samples for a rate. One failed sample is tolerated; a mean
over a longer interval would hide the gap."""
_BUCKET_EDGES: Final = (0.0, *LATENCY_BOUNDS, LATENCY_BOUNDS[-1])
_PERCENTILE_FRACTIONS: Final = dict(zip(PERCENTILES, (0.5, 0.9, 0.99), strict=True))


class UsageLook(Struct, frozen=True):
    """A sample of the cumulative usage of a place's instances."""

    at: int
    used: Mapping[InstanceKey, Usage]


class RequestLook(Struct, frozen=True):
    """A sample of the gateway's request counters, by service."""

    at: int
    traffic: Mapping[str, ServiceTraffic]


def is_comparable(
    previous_sample: UsageLook | RequestLook | None,
    now: UsageLook | RequestLook,
    max_milliseconds: int = _MAX_INTERVAL,
) -> bool:
    """Returns whether there is an earlier sample, at most `max_milliseconds` milliseconds before, to compute
    rates."""
    return _interval(previous_sample, now, max_milliseconds) > 0


def usage_points(previous_sample: UsageLook | None, now: UsageLook) -> Mapping[InstanceKey, Point]:
    """Returns the memory of each instance in bytes, and its CPU usage in thousandths of a CPU."""
    passed = _interval(previous_sample, now)
    earlier = previous_sample.used if previous_sample and passed else {}
    return {
        key: {
            MEMORY: usage.memory,
            CPU: _rate(earlier[key].cpu_ms, usage.cpu_ms, passed) if key in earlier else None,
        }
        for key, usage in now.used.items()
    }


def request_points(
    previous_sample: RequestLook | None, now: RequestLook, max_milliseconds: int = _MAX_INTERVAL
) -> Mapping[str, Point]:
    """Returns requests per second by class, and latency percentiles in milliseconds, for each service with
    requests. Empty if the samples are not comparable, because there is none before, or one more than
    `max_milliseconds` milliseconds earlier."""
    passed = _interval(previous_sample, now, max_milliseconds)
    if previous_sample is None or not passed:
        return {}
    earlier = previous_sample.traffic
    grown = (
        (service, _growth(earlier.get(service), row))
        for service, row in now.traffic.items()
        if service not in earlier or row.answers != earlier[service].answers
    )
    return {
        service: {
            **{name: count * SECOND / passed for name, count in zip(CLASSES, answers, strict=True)},
            **percentiles(buckets),
        }
        for service, (answers, buckets) in grown
        if any(answers)
    }


def percentiles(buckets: Sequence[int]) -> Point:
    """Returns latency percentiles in milliseconds, interpolated within a histogram bucket; None without
    responses. Latencies in the last, unbounded bucket count as its lower bound."""
    sums = [*accumulate(buckets)]
    if not sums[-1]:
        return dict.fromkeys(PERCENTILES)
    return {name: _estimate(buckets, sums, sums[-1] * part) for name, part in _PERCENTILE_FRACTIONS.items()}


def _estimate(buckets: Sequence[int], sums: Sequence[int], percentile: float) -> float:
    bucket = bisect_left(sums, percentile)
    low, high = _BUCKET_EDGES[bucket], _BUCKET_EDGES[bucket + 1]
    return (high - (high - low) * (sums[bucket] - percentile) / buckets[bucket]) * SECOND


def _interval(
    previous_sample: UsageLook | RequestLook | None,
    now: UsageLook | RequestLook,
    max_milliseconds: int = _MAX_INTERVAL,
) -> int:
    """Returns the milliseconds since the previous sample; 0 if the sample is too old for a rate."""
    passed = now.at - previous_sample.at if previous_sample else 0
    return passed if 0 < passed <= max_milliseconds else 0


def _rate(previous_count: int, now: int, passed: int) -> float | None:
    """Returns the increase per second. Returns None if the counter decreased, because the instance was
    restarted or one of its processes has ended."""
    return (now - previous_count) * SECOND / passed if now >= previous_count else None


def _growth(
    previous_traffic: ServiceTraffic | None, now: ServiceTraffic
) -> tuple[Sequence[int], Sequence[int]]:
    """Returns the increase of the response counters and of the latency histogram. A restarted gateway, or a
    gateway that received the routes of the service again, counts from zero."""
    if previous_traffic is None:
        return now.answers, now.buckets
    answers = [count - old for count, old in zip(now.answers, previous_traffic.answers, strict=True)]
    buckets = [count - old for count, old in zip(now.buckets, previous_traffic.buckets, strict=True)]
    return (now.answers, now.buckets) if min(*answers, *buckets) < 0 else (answers, buckets)
