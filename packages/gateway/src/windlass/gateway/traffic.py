"""Metrics of the requests to services, from the gateway's traffic counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from windlass.base.metrics import Histogram, Metric, MetricType, Sample, counter
from windlass.gateway.messages import ServiceTraffic
from windlass.routers.builtin.traffic import LATENCY_BOUNDS

MAX_SERVICES: Final = 500
"""Maximum number of services with their own samples. All further services share one sample, "other"."""
OTHER_SERVICES: Final = "other"
_STATUS_CLASSES: Final = ("none", "1xx", "2xx", "3xx", "4xx", "5xx")


def metrics_of(traffic: Sequence[ServiceTraffic], dropped_lines: int = 0) -> Iterator[Metric]:
    own, others = traffic[:MAX_SERVICES], traffic[MAX_SERVICES:]
    shown = [*own, _sum_traffic(others)] if others else own
    answers: list[Sample] = [
        ((row.service, name), count)
        for row in shown
        for name, count in zip(_STATUS_CLASSES, row.answers, strict=True)
        if count
    ]
    yield Metric(
        "gateway_requests_total",
        "Requests that ended, by id of the service and class of the status; none: the client left before",
        MetricType.COUNTER,
        ("service", "class"),
        answers,
    )
    times: list[Sample] = [((row.service,), _histogram(row)) for row in shown]
    yield Metric(
        "gateway_request_seconds",
        "Time from a request to the end of its answer; every eighth of frequent requests is timed, for eight",
        MetricType.HISTOGRAM,
        ("service",),
        times,
    )
    active: list[Sample] = [((row.service,), row.active) for row in shown]
    yield Metric(
        "gateway_active",
        "Requests, websockets and TCP connections under way",
        MetricType.GAUGE,
        ("service",),
        active,
    )
    yield counter(
        "gateway_access_log_dropped_total",
        "Lines that the gateway could not write to its access log",
        dropped_lines,
    )


def _sum_traffic(traffic: Sequence[ServiceTraffic]) -> ServiceTraffic:
    return ServiceTraffic(
        service=OTHER_SERVICES,
        requests=sum(row.requests for row in traffic),
        active=sum(row.active for row in traffic),
        answers=_sum_columns(row.answers for row in traffic),
        buckets=_sum_columns(row.buckets for row in traffic),
        seconds=sum(row.seconds for row in traffic),
    )


def _sum_columns(rows: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(map(sum, zip(*rows, strict=True)))


def _histogram(traffic: ServiceTraffic) -> Histogram:
    histogram = Histogram(LATENCY_BOUNDS)
    histogram.buckets, histogram.total = list(traffic.buckets), traffic.seconds
    return histogram
