"""Metrics of the API: plain numbers while serving, and Prometheus' text on request."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import Metric

_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    def __init__(self, gauges: Callable[[], dict[str, float]]) -> None:
        self._gauges = gauges
        self._more: dict[str, Callable[[], float]] = {}
        self._counts: dict[tuple[str, int], int] = {}
        self._buckets = [0] * (len(_BOUNDS) + 1)
        self._seconds = 0.0

    def gauge(self, name: str, value: Callable[[], float]) -> None:
        """Adds a gauge, which is read with each scrape."""
        self._more[name] = value

    def count(self, operation: str, status: int, seconds: float) -> None:
        key = (operation, status)
        self._counts[key] = self._counts.get(key, 0) + 1
        self._buckets[bisect_left(_BOUNDS, seconds)] += 1
        self._seconds += seconds

    def text(self) -> bytes:
        from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415 (70 ms; only for scrapes)

        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import (  # noqa: PLC0415 (see above)
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        requests = CounterMetricFamily(
            "windlass_requests", "Requests answered", labels=["operation", "status"]
        )
        for (operation, status), number in self._counts.items():
            requests.add_metric([operation, str(status)], number)
        yield requests
        total, buckets = 0, []
        for bound, number in zip((*map(str, _BOUNDS), "+Inf"), self._buckets, strict=True):
            total += number
            buckets.append((bound, total))
        durations = HistogramMetricFamily("windlass_request_seconds", "Time to answer")
        durations.add_metric([], buckets, self._seconds)
        yield durations
        for name, value in (self._gauges() | {name: look() for name, look in self._more.items()}).items():
            yield GaugeMetricFamily(f"windlass_{name}", name.replace("_", " "), value)
