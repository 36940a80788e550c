"""The usage of services in the last hour, in memory: four samples a minute, and the oldest goes.

The server that reaches an engine keeps the samples of its services. A restart begins a new hour.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from windlass.base.metrics import Histogram
from windlass.core.deploy.workload import Usage

EVERY: Final = 15_000
"""Milliseconds between two samples."""
KEPT: Final = 240
"""Samples: an hour."""
MOST_SERVICES: Final = 1000
"""Services with samples. Of more, those that were measured first have them."""
MOST_INSTANCES: Final = 20
"""Instances of a service with samples of their own."""
CLASSES: Final = ("2xx", "3xx", "4xx", "5xx")


class Counts(Struct, frozen=True):
    """Requests of a service so far."""

    by_class: Mapping[str, float]
    buckets: tuple[int, ...]
    """Requests by the time of their answer; see `bounds`."""
    bounds: tuple[float, ...]


class UsageSample(Struct, frozen=True):
    """What was measured between two looks."""

    at: int
    cpu: Mapping[str, float]
    """By instance: thousandths of a processor."""
    memory: Mapping[str, int]
    """By instance: bytes."""
    per_second: Mapping[str, float] | None = None
    """Requests by class of status; None if the gateway did not tell."""
    latency: tuple[float | None, float | None, float | None] = (None, None, None)
    """Milliseconds that half, nine of ten, and ninety-nine of a hundred answers took at most."""


class _Before(Struct):
    """The last look at a service."""

    at: int
    used: Mapping[str, Usage] = field(default_factory=dict)
    counts: Counts | None = None


class UsageHistory:
    def __init__(self) -> None:
        self._samples: dict[str, deque[UsageSample]] = {}
        self._before: dict[str, _Before] = {}

    def note(
        self,
        at: int,
        used: Mapping[str, Mapping[str, Usage]],
        counts: Mapping[str, Counts] | None,
    ) -> None:
        """Adds a look: by service the usage of its instances, and its requests so far; None if unknown."""
        for service in [*used, *(service for service in counts or () if service not in used)]:
            self._note_service(service, at, used.get(service, {}), counts)
        for service, samples in [*self._samples.items()]:
            if samples[-1].at < at - KEPT * EVERY:
                del self._samples[service]
                self._before.pop(service, None)

    def _note_service(
        self, service: str, at: int, used: Mapping[str, Usage], counts: Mapping[str, Counts] | None
    ) -> None:
        used = dict(list(used.items())[:MOST_INSTANCES])
        now = None if counts is None else counts.get(service)
        before = self._before.get(service)
        if before is None and len(self._before) >= MOST_SERVICES:
            return
        self._before[service] = _Before(at, used, now)
        if before is None or at <= before.at:
            return
        passed = at - before.at
        cpu = {
            name: max(0, usage.cpu_ms - before.used[name].cpu_ms) / passed * 1000
            for name, usage in used.items()
            if name in before.used
        }
        memory = {name: usage.memory for name, usage in used.items()}
        if counts is None:
            sample = UsageSample(at, cpu, memory)
        else:
            sample = UsageSample(
                at, cpu, memory, rates(before.counts, now, passed), latency(before.counts, now)
            )
        samples = self._samples.setdefault(service, deque(maxlen=KEPT))
        samples.append(sample)

    def of(self, service: str, now: int) -> Sequence[UsageSample]:
        """Returns the samples of the last hour, oldest first."""
        since = now - KEPT * EVERY
        return [sample for sample in self._samples.get(service, ()) if sample.at > since]

    def forget(self, services: Iterable[str]) -> None:
        for service in services:
            self._samples.pop(service, None)
            self._before.pop(service, None)


def rates(before: Counts | None, now: Counts | None, passed: int) -> dict[str, float]:
    """Returns requests per second by class of status. Counts that went back begin again at zero."""
    if now is None:
        return dict.fromkeys(CLASSES, 0.0)
    earlier = before.by_class if before else {}
    grown = {name: now.by_class.get(name, 0) - earlier.get(name, 0) for name in CLASSES}
    return {
        name: (growth if growth >= 0 else now.by_class.get(name, 0)) / passed * 1000
        for name, growth in grown.items()
    }


def latency(before: Counts | None, now: Counts | None) -> tuple[float | None, float | None, float | None]:
    """Returns the percentiles of what was answered since, estimated within the buckets; None without any."""
    if now is None:
        return None, None, None
    earlier = (
        before.buckets if before and len(before.buckets) == len(now.buckets) else (0,) * len(now.buckets)
    )
    grown = [count - old for count, old in zip(now.buckets, earlier, strict=True)]
    if min(grown) < 0:
        grown = [*now.buckets]
    return (
        _percentile(grown, now.bounds, 0.5),
        _percentile(grown, now.bounds, 0.9),
        _percentile(grown, now.bounds, 0.99),
    )


def _percentile(buckets: Sequence[int], bounds: Sequence[float], part: float) -> float | None:
    total = sum(buckets)
    if not total:
        return None
    wanted, passed = total * part, 0
    for index, count in enumerate(buckets):
        if passed + count >= wanted and count:
            if index == len(bounds):
                return bounds[-1] * 1000
            low = bounds[index - 1] if index else 0.0
            return (low + (bounds[index] - low) * (wanted - passed) / count) * 1000
        passed += count
    return bounds[-1] * 1000


def counts_of(
    answers: Mapping[str, Mapping[str, float]], times: Mapping[str, Histogram]
) -> Mapping[str, Counts]:
    """Returns the counts of services from what a gateway counted: answers by class, and times."""
    return {
        service: Counts(by_class, tuple(times[service].buckets), tuple(times[service].bounds))
        for service, by_class in answers.items()
        if service in times
    }
