"""Metrics of this process since its start. `reporting.metrics` adds metrics of the current state."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from windlass.base.metrics import SLOW_BOUNDS, Labels, Meter, Metric
from windlass.builders.builder import BuildError


class Meters:
    def __init__(self) -> None:
        self.deployments = Meter(
            "deployment_duration_seconds",
            "Time from the request for a deployment to its end, of those that ended at this server",
            "action", "result",
            bounds=SLOW_BOUNDS,
        )  # fmt: skip
        self.builds = Meter(
            "build_duration_seconds",
            "Time that builds took at this server; an earlier build that is used again is not counted",
            "result",
            bounds=SLOW_BOUNDS,
        )
        self.deliveries = Meter(
            "webhook_attempts_total",
            "Attempts to deliver an event to a webhook: delivered, to be repeated, or given up",
            "result",
        )
        self.restarts = Meter(
            "instance_restarts_total",
            "Restarts of instances that ended or failed a probe, as far as scrapes of this server saw them",
            "place",
        )
        self.runs = Meter(
            "runs_total",
            "Runs that ended at this server, or were skipped, by the family of their service and result",
            "family", "result",
        )  # fmt: skip
        self.missed = Meter(
            "due_times_missed_total",
            "Due times of jobs that had passed for more than a minute when a server came to them",
        )
        self.missed.expect()
        for result in ("succeeded", "failed", "canceled", "superseded"):
            self.deployments.expect("deploy", result)
        for result in ("succeeded", "failed", "interrupted"):
            self.builds.expect(result)
        for result in ("delivered", "repeated", "given_up"):
            self.deliveries.expect(result)
        self.builds_running = 0
        self._committed: Mapping[str, Meter] = {
            "deployment": self.deployments,
            "run": self.runs,
            "due time missed": self.missed,
        }
        """Meters whose measurements are counted after a database transaction is committed, keyed by their
        name in `Tx.measure`."""

    def expect_runs(self, family: str, *, may_skip: bool) -> None:
        """Shows the run counters of a family at zero before the first run. `may_skip`: runs of the family can
        be skipped, as only scheduled runs can."""
        for result in ("succeeded", "failed", "timed_out", "canceled", *(("skipped",) if may_skip else ())):
            self.runs.expect(family, result)

    @contextmanager
    def building(self) -> Iterator[None]:
        """Measures the duration and result of a build."""
        began, result = time.monotonic(), "interrupted"
        self.builds_running += 1
        try:
            yield
            result = "succeeded"
        except BuildError:
            result = "failed"
            raise
        finally:
            self.builds_running -= 1
            self.builds.observe(time.monotonic() - began, result)

    def take(self, metric: str, seconds: float, labels: Labels) -> None:
        """Adds a measurement whose transaction was committed."""
        self._committed[metric].add(seconds, *labels)

    def all(self) -> Iterator[Metric]:
        meters = self.deployments, self.builds, self.runs, self.missed, self.deliveries, self.restarts
        for meter in meters:
            yield meter.metric()
