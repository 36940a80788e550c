"""Metrics of the API: counters and histograms of requests, and the Prometheus text of all metrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from windlass.base.metrics import QUICK_BOUNDS, Histogram, Metric, MetricType, Sample, counter, gauge
from windlass.core.declare.operations import Operation

Source = Callable[[], Awaitable[Iterable[Metric]]]
"""A function that returns the current metrics of one part of the server. It limits its own time, and never
raises."""
METRIC_PREFIX: Final = "windlass"
_THREADS_FOLDER: Final = Path("/proc/self/task")


class Metrics:
    def __init__(self, operations: Iterable[Operation], kept_seconds: float = 1.0) -> None:
        """`kept_seconds`: time for which a rendered text is cached. Frequent scrapes then do not load the
        database and the engines."""
        self.kept_seconds = kept_seconds
        self._kept: tuple[float, bytes] = (float("-inf"), b"")
        self._rendering: asyncio.Task[bytes] | None = None
        self._sources: list[Source] = []
        self._numbers: list[Callable[[], Metric]] = []
        self._counts: dict[tuple[str, int], int] = {}
        self._groups: dict[tuple[str, str], Histogram] = {}
        """Latencies by resource family and access (read or write)."""
        self._latencies: dict[str, Histogram] = {
            operation.id: self._group(_family_of(operation), "write" if operation.writes else "read")
            for operation in operations
        }
        """The histograms of `_groups`, by operation."""
        self._pages = self._group("page", "read")

    def gauge(self, name: str, help: str, value: Callable[[], float]) -> None:
        """Adds a gauge, which is read at each scrape."""
        self._numbers.append(lambda: gauge(name, help, value()))

    def counter(self, name: str, help: str, value: Callable[[], float]) -> None:
        """Adds a counter of another part of the server, which is read at each scrape."""
        self._numbers.append(lambda: counter(name, help, value()))

    def info(self, name: str, help: str, labels: Callable[[], Mapping[str, str]]) -> None:
        """Adds facts about the server as labels of a gauge with the constant value 1."""

        def number() -> Metric:
            facts = labels()
            return Metric(name, help, MetricType.GAUGE, tuple(facts), [(tuple(facts.values()), 1)])

        self._numbers.append(number)

    def add(self, source: Source) -> None:
        """Adds a source of metrics, which is called at each scrape."""
        self._sources.append(source)

    def count(self, operation: str, status: int, seconds: float) -> None:
        key = (operation, status)
        self._counts[key] = self._counts.get(key, 0) + 1
        latency = self._latencies.get(operation)
        if latency is None:
            latency = self._latencies[operation] = self._pages
        latency.observe(seconds)

    def _group(self, family: str, access: str) -> Histogram:
        return self._groups.setdefault((family, access), Histogram(QUICK_BOUNDS))

    async def text(self) -> bytes:
        """Returns all metrics as text. Concurrent scrapes share one rendering, and later scrapes its cached
        text.

        With many services, rendering takes as long as many requests, and clients may need no token for it.
        """
        rendered, text = self._kept
        if time.monotonic() - rendered < self.kept_seconds:
            return text
        if self._rendering is None or self._rendering.done():
            self._rendering = asyncio.create_task(self._render())
        return await asyncio.shield(self._rendering)

    async def _render(self) -> bytes:
        from windlass.api.prometheus import text_of  # noqa: PLC0415 (70 ms; only for scrapes)

        answers = await asyncio.gather(*(source() for source in self._sources))
        text = text_of(
            METRIC_PREFIX, [*self._own_metrics(), *(metric for answer in answers for metric in answer)]
        )
        self._kept = time.monotonic(), text
        return text

    def _own_metrics(self) -> Iterator[Metric]:
        requests: list[Sample] = [
            ((operation, str(status)), number) for (operation, status), number in self._counts.items()
        ]
        yield Metric(
            "requests_total", "Requests answered", MetricType.COUNTER, ("operation", "status"), requests
        )
        yield Metric(
            "request_seconds",
            "Time to answer, by family of resources and access (read or write)",
            MetricType.HISTOGRAM,
            ("family", "access"),
            [*self._groups.items()],
        )
        for number in self._numbers:
            yield number()
        if _THREADS_FOLDER.is_dir():
            yield gauge(
                "process_threads", "Threads of this process", sum(1 for _ in _THREADS_FOLDER.iterdir())
            )


def _family_of(operation: Operation) -> str:
    return operation.family.name if operation.family else "other"
