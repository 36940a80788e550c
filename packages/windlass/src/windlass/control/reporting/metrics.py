"""Metrics of the current state of the installation. Each scrape queries the database and the engines once.

Labels contain no customer names: services are counted by state, and clusters are labelled by id. A component
that does not respond in time is reported as down, so that it cannot block the scrape. Values that are still
encrypted with a former key are counted only during a key rotation and at most once a minute, because the
count reads every encrypted value.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from windlass.base.clock import MINUTE, SECOND
from windlass.base.errors import Unavailable
from windlass.base.lazy import lazy_module
from windlass.base.metrics import Metric, MetricType, Sample, gauge
from windlass.control.context.context import Context
from windlass.control.context.place import EngineAccess, Place
from windlass.control.records.sealing_keys import read_keys, values_by_key
from windlass.core.deploy.states import OPEN_STATES_OF_DEPLOYMENTS, State
from windlass.engines.engine import EngineError
from windlass.engines.workload import Instance, Phase
from windlass.store import Queue, work_class
from windlass.store.tables.figures import Figure

if TYPE_CHECKING:
    from cryptography import x509
else:  # 8 MB and 35 ms, unneeded by many installations
    x509 = lazy_module("cryptography.x509")

CACHE_TIME: Final = MINUTE
"""Milliseconds for which a count is cached."""


class FormerKeyMetrics:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._counted_at: int | None = None
        self._count = 0

    async def all(self) -> list[Metric]:
        """Returns the metrics; empty while the database is unavailable."""
        try:
            async with asyncio.timeout(TIMEOUT):
                await self._catch_up()
        except (Unavailable, TimeoutError):
            return []
        help = "Values that are still sealed with a former key; counted once a minute"
        return [gauge("former_key_values", help, self._count)]

    async def _catch_up(self) -> None:
        now = self._ctx.clock.now()
        if self._counted_at is None or now >= self._counted_at + CACHE_TIME:
            # A count that times out is not repeated by every scrape.
            self._counted_at = now
            self._count = await self._read_count()

    async def _read_count(self) -> int:
        """Returns the number of values with a former key. Returns 0 without counting if no rotation is in
        progress."""
        reads = self._ctx.store.reads
        state = await read_keys(reads)
        if state is None or state.is_settled:
            return 0
        values = await values_by_key(reads)
        return sum(count for key, count in values.items() if key != state.current)


def certificate_metrics(accesses: Iterable[EngineAccess]) -> Iterator[Metric]:
    samples: list[Sample] = []
    for access in accesses:
        pems = [pem for pem in (access.ca_certificate, access.certificate) if pem]
        with suppress(ValueError):  # `windlass doctor` reports unreadable certificates
            if pems:
                samples.append(((access.cluster,), min(map(end_of, pems)).timestamp()))
    yield Metric(
        "cluster_certificate_end_timestamp_seconds",
        "Time when the first certificate ends that was given for the engine of the cluster",
        MetricType.GAUGE,
        ("place",),
        samples,
    )


@lru_cache(256)
def end_of(pem: str) -> datetime:
    """Returns the earliest expiry of the certificates."""
    return min(
        certificate.not_valid_after_utc for certificate in x509.load_pem_x509_certificates(pem.encode())
    )


TIMEOUT: Final = 2.0
"""The timeout in seconds for the database and for each engine."""
MAX_PLACES: Final = 50
"""The largest number of places in the metrics. Further places are skipped."""
_QUEUES: Final[Mapping[Queue | None, str]] = {
    Queue.QUICK: "quick",
    Queue.RECONCILE: "deployments",
    Queue.DELIVER: "deliveries",
    Queue.LOCAL: "housekeeping",
    Queue.BRANCHES: "branches",
    Queue.RUNS: "runs",
    None: "clusters",
}
"""Labels by class of work, for all places together; None stands for all clusters with their own engine."""


class EngineScrape(Struct, frozen=True):
    """The response of a place's engine to a scrape."""

    place: str
    """The machine name of this server, or the id of the cluster."""
    engine: str
    seconds: float
    instances: Sequence[Instance] | None
    """The instances; None if the engine did not respond."""


class InstallationMetrics:
    def __init__(self, ctx: Context, timeout: float = TIMEOUT) -> None:
        self._ctx, self._patience = ctx, timeout
        self._former_keys = FormerKeyMetrics(ctx)
        self.restarts: dict[str, dict[str, int]] = {}
        """The restart counts of instances at the last response of their engine, by place."""

    async def all(self) -> list[Metric]:
        database, seen = await asyncio.gather(self._database(), self._places())
        self._count_restarts(seen)
        meters = self._ctx.meters
        building = gauge("builds_running", "Builds under way at this server", meters.builds_running)
        certificates = certificate_metrics(self._ctx.places.accesses()[:MAX_PLACES])
        disk = _disk_metrics(self._ctx.settings.data_dir)
        return [*database, *_place_metrics(seen), *certificates, *disk, building, *meters.all()]

    async def _database(self) -> list[Metric]:
        began, store = time.perf_counter(), self._ctx.store
        now = self._ctx.clock.now()
        try:
            async with asyncio.timeout(self._patience):
                figures = await store.figures(now)
        except (Unavailable, TimeoutError):
            figures = None
        seconds = time.perf_counter() - began
        keys = await self._former_keys.all() if figures is not None else ()
        return [
            *keys,
            gauge("database_up", "1 if the database answered this scrape", int(figures is not None)),
            gauge(
                "database_writable",
                "0 while the database stores no changes, as it is read-only or full",
                int(store.stores_changes and not store.shortage(ends_something=False)),
            ),
            gauge("database_response_seconds", "Time that the database took for this scrape", seconds),
            *_pool_metrics(store.connections),
            *(_figure_metrics(figures, now) if figures is not None else ()),
        ]

    async def _places(self) -> list[EngineScrape]:
        places = self._ctx.places.all()[:MAX_PLACES]
        return await asyncio.gather(*(_scrape_engine(place, self._patience) for place in places))

    def _count_restarts(self, scrapes: Sequence[EngineScrape]) -> None:
        """Counts the restarts since the last response of each engine. Restarts before the first response are
        unknown."""
        before, self.restarts = self.restarts, {}
        for scrape in scrapes:
            former = before.get(scrape.place)
            now = former if scrape.instances is None else _restarts_of(scrape.instances)
            if now is not None:
                self.restarts[scrape.place] = now
                added = _count_added(former, now) if former is not None else 0
                self._ctx.meters.restarts.count(scrape.place, by=added)


def _disk_metrics(folder: str) -> Iterator[Metric]:
    try:
        facts = os.statvfs(folder)
    except OSError:  # the folder is not mounted
        return
    free, size = facts.f_bavail * facts.f_frsize, facts.f_blocks * facts.f_frsize
    yield gauge("disk_free_bytes", "Free bytes of the disk with the data directory", free)
    yield gauge("disk_bytes", "Size of the disk with the data directory", size)
    if facts.f_files:  # some file systems have no limit of files
        yield gauge(
            "disk_free_files", "Files that the disk with the data directory has room for", facts.f_favail
        )
        yield gauge("disk_files", "Files that the disk with the data directory can have", facts.f_files)


def _restarts_of(instances: Iterable[Instance]) -> dict[str, int]:
    return {instance.id: instance.restarts for instance in instances}


def _count_added(previous_counts: Mapping[str, int], now: Mapping[str, int]) -> int:
    return sum(max(0, restarts - previous_counts.get(instance, 0)) for instance, restarts in now.items())


async def _scrape_engine(place: Place, timeout: float) -> EngineScrape:
    began, instances = time.perf_counter(), None
    try:
        async with asyncio.timeout(timeout):
            instances = await place.engine.all()
    except (EngineError, TimeoutError):
        instances = None
    seconds = time.perf_counter() - began
    return EngineScrape(place.machine or place.id, place.engine.name, seconds, instances)


def _place_metrics(scrapes: Sequence[EngineScrape]) -> Iterator[Metric]:
    labels = ("place", "engine")
    up: list[Sample] = [
        ((scrape.place, scrape.engine), int(scrape.instances is not None)) for scrape in scrapes
    ]
    took: list[Sample] = [((scrape.place, scrape.engine), scrape.seconds) for scrape in scrapes]
    yield Metric("engine_up", "1 if the engine of the place answered", MetricType.GAUGE, labels, up)
    yield Metric(
        "engine_response_seconds",
        "Time that the engine of the place took to list its instances",
        MetricType.GAUGE,
        labels,
        took,
    )
    running: list[Sample] = []
    for scrape in scrapes:
        if scrape.instances is not None:
            phases = [instance.phase for instance in scrape.instances]
            running += [((scrape.place, phase.lower()), phases.count(phase)) for phase in Phase]
    yield Metric(
        "instances",
        "Instances on the engine of the place, by phase",
        MetricType.GAUGE,
        ("place", "phase"),
        running,
    )


def _pool_metrics(connections: Mapping[str, int]) -> Iterator[Metric]:
    samples: list[Sample] = [((state,), count) for state, count in connections.items()]
    if samples:
        help = "Connections of the pool to the database: in use, idle, and how many it may have"
        yield Metric("database_connections", help, MetricType.GAUGE, ("state",), samples)


def _figure_metrics(figures: Sequence[Figure], now: int) -> Iterator[Metric]:
    yield from _queue_metrics([figure for figure in figures if figure.sort in {"due", "held"}], now)
    open = {figure.state: figure for figure in figures if figure.sort == "deployments"}
    counts: list[Sample] = [
        ((progress.lower(),), open[progress].count if progress in open else 0)
        for progress in sorted(OPEN_STATES_OF_DEPLOYMENTS)
    ]
    yield Metric(
        "deployments", "Deployments that wait or are under way", MetricType.GAUGE, ("state",), counts
    )
    oldest = min((figure.oldest for figure in open.values()), default=now)
    yield gauge("deployments_oldest_seconds", "Age of the oldest deployment under way", _age(oldest, now))
    for figure in figures:
        if figure.sort == "deliveries":
            yield gauge("webhook_deliveries_waiting", "Deliveries that wait for a webhook", figure.count)
            oldest = figure.oldest if figure.count else now
            yield gauge("webhook_deliveries_oldest_seconds", "Age of the oldest of them", _age(oldest, now))
        if figure.sort == "receivers":
            yield gauge("webhooks_failing", "Webhooks whose receiver takes nothing", figure.count)
        if figure.sort == "sessions":
            yield gauge("browser_sessions", "Browsers that are signed in, at most 10,000", figure.count)
        if figure.sort == "renewals":
            yield gauge(
                "domain_certificates_overdue",
                "Certificates of domains whose renewal by an authority has been failing for a day",
                figure.count,
            )
    ends: list[Sample] = [
        ((figure.state.lower(),), figure.oldest / SECOND)
        for figure in figures
        if figure.sort == "certificates"
    ]
    yield Metric(
        "domain_certificate_end_timestamp_seconds",
        "When the first certificate of a domain ends, by its origin",
        MetricType.GAUGE,
        ("origin",),
        ends,
    )
    services = {figure.state: figure for figure in figures if figure.sort == "services"}
    states: list[Sample] = [
        ((state.lower(),), services[state].count if state in services else 0) for state in State
    ]
    yield Metric("services", "Services that were deployed, by state", MetricType.GAUGE, ("state",), states)
    wanted = sum(figure.instances for figure in services.values())
    yield gauge("instances_wanted", "Instances that should run, of all services", wanted)


def _queue_metrics(figures: Sequence[Figure], now: int) -> Iterator[Metric]:
    due = dict.fromkeys(_QUEUES.values(), 0)
    held, oldest = dict(due), dict.fromkeys(due, now)
    for figure in figures:
        queue = _QUEUES[work_class(figure.queue)]
        if figure.sort == "due":
            due[queue] += figure.count
            oldest[queue] = min(oldest[queue], figure.oldest)
        else:
            held[queue] += figure.count
    ages = {queue: _age(moment, now) for queue, moment in oldest.items()}
    for name, help, numbers in (
        ("queue_due", "Work that is due and waits, at most 10,000 of a queue", due),
        ("queue_oldest_seconds", "How long the oldest due work has been waiting", ages),
        ("queue_held", "Work under way, at all servers", held),
    ):
        samples: list[Sample] = [((queue,), number) for queue, number in numbers.items()]
        yield Metric(name, help, MetricType.GAUGE, ("queue",), samples)


def _age(timestamp: int, now: int) -> float:
    return max(0, now - timestamp) / SECOND
