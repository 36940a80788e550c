"""Renders metrics in Prometheus' text format.

This module is imported at the first scrape, because importing the Prometheus library takes as long as many
requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.core import Metric as Family

from windlass.base.metrics import Histogram, Metric, MetricType


def text_of(prefix: str, metrics: Iterable[Metric]) -> bytes:
    """Returns the given metrics and the metrics of this process. Every name begins with `prefix`."""
    registry = CollectorRegistry()
    ProcessCollector(namespace=prefix, registry=registry)
    registry.register(_Collector(prefix, metrics))
    return generate_latest(registry)


class _Collector:
    def __init__(self, prefix: str, metrics: Iterable[Metric]) -> None:
        self._families = [_family(f"{prefix}_{metric.name}", metric) for metric in metrics]

    def collect(self) -> Iterator[Family]:
        yield from self._families


def _family(name: str, metric: Metric) -> Family:
    if metric.type is MetricType.HISTOGRAM:
        histograms = HistogramMetricFamily(name, metric.help, labels=metric.labels)
        for labels, histogram in metric.samples:
            assert isinstance(histogram, Histogram)
            histograms.add_metric(labels, _cumulative(histogram), histogram.total)
        return histograms
    make = CounterMetricFamily if metric.type is MetricType.COUNTER else GaugeMetricFamily
    numbers = make(name, metric.help, labels=metric.labels)
    for labels, number in metric.samples:
        assert not isinstance(number, Histogram)
        numbers.add_metric(labels, number)
    return numbers


def _cumulative(histogram: Histogram) -> list[tuple[str, float]]:
    total = 0
    buckets: list[tuple[str, float]] = []
    for bound, number in zip((*map(str, histogram.bounds), "+Inf"), histogram.buckets, strict=True):
        total += number
        buckets.append((bound, total))
    return buckets
