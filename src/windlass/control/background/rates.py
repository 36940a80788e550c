"""Works out what services used, and the requests to them, between two looks. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from windlass.base.clock import SECOND
from windlass.control.context.usage_history import (
    CLASSES,
    CPU,
    EVERY,
    MEMORY,
    PERCENTILES,
    InstanceKey,
    Point,
)
from windlass.core.deploy.workload import Usage
from windlass.gateway.messages import ServiceTraffic
from windlass.routers.builtin.traffic import BOUNDS

_LONGEST: Final = EVERY * 5 // 2
"""Milliseconds between two looks that still give a rate: one of them may fail. A mean over more would hide
the gap."""
_PARTS: Final = dict(zip(PERCENTILES, (0.5, 0.9, 0.99), strict=True))


class UsageLook(Struct, frozen=True):
    """What the instances of a place had used at one moment."""

    at: int
    used: Mapping[InstanceKey, Usage]


class RequestLook(Struct, frozen=True):
    """The requests that a gateway had counted at one moment, by service."""

    at: int
    traffic: Mapping[str, ServiceTraffic]


def usage_points(before: UsageLook | None, now: UsageLook) -> Mapping[InstanceKey, Point]:
    """Returns the memory of each instance in bytes, and its use of processors in thousandths of one."""
    passed = _passed(before, now)
    earlier = before.used if before and passed else {}
    return {
        key: {
            MEMORY: usage.memory,
            CPU: _rate(earlier[key].cpu_ms, usage.cpu_ms, passed) if key in earlier else None,
        }
        for key, usage in now.used.items()
    }


def request_points(before: RequestLook | None, now: RequestLook) -> Mapping[str, Point] | None:
    """Returns requests per second by class, and percentiles of their times in milliseconds, for each service
    that had any; None if there is no earlier look to compare with."""
    passed = _passed(before, now)
    if before is None or not passed:
        return None
    grown = {service: _growth(before.traffic.get(service), row) for service, row in now.traffic.items()}
    return {
        service: {
            **{name: count * SECOND / passed for name, count in zip(CLASSES, answers, strict=True)},
            **{name: percentile(buckets, part) for name, part in _PARTS.items()},
        }
        for service, (answers, buckets) in grown.items()
        if any(answers)
    }


def percentile(buckets: Sequence[int], part: float) -> float | None:
    """Returns the milliseconds that this part of the answers took at most, estimated within a bucket; None
    without answers. The times of the last bucket are unknown: they count as its lower bound."""
    total = sum(buckets)
    if not total:
        return None
    wanted, passed = total * part, 0
    for count, low, high in zip(buckets, (0.0, *BOUNDS), (*BOUNDS, BOUNDS[-1]), strict=True):
        if count and passed + count >= wanted:
            return (low + (high - low) * (wanted - passed) / count) * SECOND
        passed += count
    return BOUNDS[-1] * SECOND


def _passed(before: UsageLook | RequestLook | None, now: UsageLook | RequestLook) -> int:
    """Returns the milliseconds since the look before; 0 if it is too long ago for a rate."""
    passed = now.at - before.at if before else 0
    return passed if 0 < passed <= _LONGEST else 0


def _rate(before: int, now: int, passed: int) -> float | None:
    """None if the count went back: the instance was started again, or a process of it has ended."""
    return (now - before) * SECOND / passed if now >= before else None


def _growth(before: ServiceTraffic | None, now: ServiceTraffic) -> tuple[Sequence[int], Sequence[int]]:
    """Returns the answers since the look before, by class and by time. A gateway that was started again, or
    got the routes of the service again, counts from zero."""
    if before is None:
        return now.answers, now.buckets
    answers = [count - old for count, old in zip(now.answers, before.answers, strict=True)]
    buckets = [count - old for count, old in zip(now.buckets, before.buckets, strict=True)]
    return (now.answers, now.buckets) if min(*answers, *buckets) < 0 else (answers, buckets)
