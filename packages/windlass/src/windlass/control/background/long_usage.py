"""Computes the points of the last day and month from the samples of four times a minute."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from msgspec import Struct, field

from windlass.base.clock import SECOND
from windlass.base.log import log
from windlass.control.background.rates import RequestLook, is_comparable, request_points
from windlass.control.context.usage_files import INSTANCES, RESOLUTIONS, Resolution, UsageFiles
from windlass.control.context.usage_history import CLASSES, CPU, MEMORY, InstanceKey, Point

_AT_A_TIME: Final = 200
"""The number of services whose points are computed in one turn of the event loop."""
_TOLERANCE_MS: Final = 60 * SECOND
"""Milliseconds by which the samples of a point may be further apart than its interval."""
_log = log("sampling")


class ServiceSum(Struct):
    """The samples of a service in an interval."""

    cpu: float = 0.0
    """The sum of the CPU usage of all samples in which it was known."""
    samples: int = 0
    memory: float = 0.0
    instances: int = 0

    def add(self, cpu: float | None, memory: float, instances: int) -> None:
        if cpu is not None:
            self.cpu += cpu
            self.samples += 1
        self.memory = max(self.memory, memory)
        self.instances = max(self.instances, instances)

    def as_point(self) -> Point:
        """Returns the mean of the CPU usage, and the highest memory and number of instances."""
        cpu = self.cpu / self.samples if self.samples else None
        return {CPU: cpu, MEMORY: self.memory, INSTANCES: float(self.instances)}


class Interval(Struct):
    """The interval of a resolution that is under way."""

    resolution: Resolution
    slot: int = -1
    sums: dict[str, ServiceSum] = field(default_factory=dict)
    requests: RequestLook | None = None
    """The counters of the gateway at the begin of the interval."""


class LongUsage:
    def __init__(self, files: UsageFiles) -> None:
        self._files = files
        self._intervals = [Interval(resolution) for resolution in RESOLUTIONS]
        self._is_silent = False

    def note_usage(self, points: Mapping[InstanceKey, Point]) -> None:
        """Adds a sample of instances to each interval that is under way."""
        totals: dict[str, tuple[float | None, float, int]] = {}
        for (service, _), point in points.items():
            cpu, memory, instances = totals.get(service, (None, 0.0, 0))
            if (used := point[CPU]) is not None:
                cpu = (cpu or 0.0) + used
            totals[service] = cpu, memory + (point[MEMORY] or 0.0), instances + 1
        for interval in self._intervals:
            for service, total in totals.items():
                interval.sums.setdefault(service, ServiceSum()).add(*total)

    async def write_ended(self, now: int, requests: RequestLook | None) -> None:
        """Writes the points of the intervals that have ended. `requests`: the newest counters of the
        gateway."""
        for interval in self._intervals:
            slot = interval.resolution.slot_of(now)
            if slot == interval.slot:
                continue
            ended = Interval(interval.resolution, interval.slot, interval.sums, interval.requests)
            interval.slot, interval.sums, interval.requests = slot, {}, requests
            # After a pause or a change of the clock, the sums belong to no interval.
            if ended.slot == slot - 1:
                await self._write(ended, requests)

    async def _write(self, ended_interval: Interval, requests: RequestLook | None) -> None:
        longest = ended_interval.resolution.every + _TOLERANCE_MS
        is_known = requests is not None and is_comparable(ended_interval.requests, requests, longest)
        traffic = request_points(ended_interval.requests, requests, longest) if requests else {}
        without_requests: Point = dict.fromkeys(CLASSES, 0.0) if is_known else {}
        services = iter({**ended_interval.sums, **traffic})
        while some := list(islice(services, _AT_A_TIME)):
            points: dict[str, Point] = {
                service: {
                    **(ended_interval.sums[service].as_point() if service in ended_interval.sums else {}),
                    **traffic.get(service, without_requests),
                }
                for service in some
            }
            try:
                await self._files.write(ended_interval.resolution, ended_interval.slot, points)
            except OSError as error:  # The chart gets a gap; the next point is tried again.
                self._report(error)
                return
        self._is_silent = False

    def _report(self, error: OSError) -> None:
        if not self._is_silent:
            self._is_silent = True
            _log.warning("the usage of services is not written", extra={"reason": repr(error)})
