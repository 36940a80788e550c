"""Collects metrics as plain values, which are updated during work and read at each scrape.

This module does not depend on the format in which metrics are sent; see `api.metrics`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

QUICK_BOUNDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The bucket bounds, in seconds, for durations of requests and the like."""
SLOW_BOUNDS: Final = (0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
"""The bucket bounds, in seconds, for durations of builds, deployments and the like."""


class MetricType(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Histogram:
    """Counts durations in buckets."""

    __slots__ = ("bounds", "buckets", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        """The number of durations in each bucket: above the previous bound, and at most this bound. The last
        bucket has no bound."""
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.buckets[bisect_left(self.bounds, seconds)] += 1
        self.total += seconds


Labels = tuple[str, ...]
Sample = tuple[Labels, float | Histogram]


class Metric(Struct, frozen=True):
    """A metric with its current samples. `name` has no prefix and ends with the unit."""

    name: str
    help: str
    type: MetricType
    labels: Labels
    samples: Sequence[Sample]


def gauge(name: str, help: str, number: float) -> Metric:
    """Returns a gauge without labels."""
    return Metric(name, help, MetricType.GAUGE, (), [((), number)])


def counter(name: str, help: str, number: float) -> Metric:
    """Returns a counter without labels."""
    return Metric(name, help, MetricType.COUNTER, (), [((), number)])


class Meter:
    """A counter or histogram, with a separate series for each combination of its labels."""

    def __init__(self, name: str, help: str, *labels: str, bounds: Sequence[float] = ()) -> None:
        """Creates a histogram with these bucket bounds; without bounds, a counter."""
        self._name, self._help, self._labels, self._bounds = name, help, labels, bounds
        self._counts: dict[Labels, float] = {}
        self._histograms: dict[Labels, Histogram] = {}

    def count(self, *labels: str, by: float = 1) -> None:
        self._counts[labels] = self._counts.get(labels, 0) + by

    def observe(self, seconds: float, *labels: str) -> None:
        histogram = self._histograms.get(labels)
        if histogram is None:
            histogram = self._histograms[labels] = Histogram(self._bounds)
        histogram.observe(seconds)

    def add(self, seconds: float, *labels: str) -> None:
        """Records an event: a histogram records its duration, and a counter adds 1."""
        if self._bounds:
            self.observe(seconds, *labels)
        else:
            self.count(*labels)

    def expect(self, *labels: str) -> None:
        """Creates the series of these labels with value 0, so that monitoring notices the first increase."""
        if self._bounds:
            self._histograms[labels] = Histogram(self._bounds)
        else:
            self._counts[labels] = 0

    def metric(self) -> Metric:
        type = MetricType.HISTOGRAM if self._bounds else MetricType.COUNTER
        samples: dict[Labels, float | Histogram] = {**self._counts, **self._histograms}
        return Metric(self._name, self._help, type, self._labels, [*samples.items()])
