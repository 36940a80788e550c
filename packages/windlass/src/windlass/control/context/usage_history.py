"""The resource usage and requests of services in the last hour: ring buffers of 240 points in memory.

The server that is connected to an engine stores the points of the engine's services. A restart empties the
history. The number of ring buffers is limited, which limits the memory.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Final, Generic, TypeVar

from msgspec import Struct

INTERVAL_MS: Final = 15_000
"""Milliseconds between two points. The points of all services are at the same times, the multiples of this
number."""
RING_POINTS: Final = 240
"""Points in a ring buffer: one hour."""
RECENT_POINTS: Final = 20
"""The number of points from which the present error share is computed: five minutes."""
MAX_INSTANCES: Final = 2000
"""The largest number of instances whose usage is stored, for all services together."""
MAX_SERVICES: Final = 2000
"""The largest number of services whose requests are stored."""
MAX_SHOWN_INSTANCES: Final = 50
"""The largest number of instances of one service that are measured and returned."""
CPU: Final = "cpu"
MEMORY: Final = "memory"
ALWAYS_SHOWN_CLASSES: Final = ("2xx", "3xx", "4xx", "5xx")
CLASSES: Final = ("none", "1xx", *ALWAYS_SHOWN_CLASSES)
"""Classes of requests by the first digit of the status; `none` if the client disconnected before the
response."""
PERCENTILES: Final = ("p50", "p90", "p99")
_MAX_IDLE_POINTS: Final = 2
"""Points without a measurement after which a new series may replace an old one."""
_SINGLE, _DOUBLE, _REPORTED = "f", "d", "told"
_USAGE: Final = {CPU: _SINGLE, MEMORY: _DOUBLE}
_REQUESTS: Final = dict.fromkeys((*CLASSES, *PERCENTILES), _SINGLE)

Point = Mapping[str, float | None]
"""Measurements of one time by name; None if a measurement is missing."""
InstanceKey = tuple[str, str]
"""The id of a service, and the name of an instance within it."""
Numbers = list[float | None]
Key = TypeVar("Key")


class UsagePoints(Struct, frozen=True):
    """The points of a service, oldest first. Every list is as long as `times`."""

    times: Sequence[int]
    instances: Mapping[str, Mapping[str, Numbers]]
    """CPU and memory usage, keyed by instance."""
    requests: Mapping[str, Numbers] | None
    """Request rates by class, and latency percentiles; None if no requests were counted."""


class Series:
    """The ring buffers of measurements that are made together, such as those of one instance."""

    __slots__ = ("_rings", "newest", "since")

    def __init__(self, names: Mapping[str, str], slot: int) -> None:
        self._rings = {name: array(type, [math.nan]) * RING_POINTS for name, type in names.items()}
        self.since = self.newest = slot

    def put(self, slot: int, point: Point) -> None:
        """Adds a point. Points between the previous point and this one are marked as missing. A point
        slightly older than the newest is ignored. A much older point restarts the series, because the clock
        was set back."""
        if slot < self.newest - _MAX_IDLE_POINTS:
            self._begin(slot)
        if slot < self.newest:
            return
        for missed in range(max(self.newest, slot - RING_POINTS) + 1, slot):
            for ring in self._rings.values():
                ring[missed % RING_POINTS] = math.nan
        for name, ring in self._rings.items():
            number = point.get(name)
            ring[slot % RING_POINTS] = math.nan if number is None else number
        self.newest = slot

    def _begin(self, slot: int) -> None:
        for ring in self._rings.values():
            ring[:] = array(ring.typecode, [math.nan]) * RING_POINTS
        self.since = self.newest = slot

    def numbers(self, name: str, slots: range) -> Numbers:
        ring = self._rings[name]
        kept = range(max(self.since, self.newest - RING_POINTS + 1), self.newest + 1)
        return [
            None if slot not in kept or math.isnan(number := ring[slot % RING_POINTS]) else number
            for slot in slots
        ]


class SeriesTable(Generic[Key]):
    """A limited number of series. Beyond the limit, the series that were measured least recently are
    evicted."""

    def __init__(self, names: Mapping[str, str], limit: int) -> None:
        self._names, self._most = names, limit
        self.series: dict[Key, Series] = {}
        self.complete_since = 0
        """The first slot since which no measurement was dropped."""

    def put(self, slot: int, points: Mapping[Key, Point]) -> None:
        self.complete_since = min(self.complete_since, slot + 1)  # The clock may have been set back.
        gone = [
            key
            for key, series in self.series.items()
            if not slot - RING_POINTS < series.newest <= slot + _MAX_IDLE_POINTS
        ]
        for key in gone:
            del self.series[key]
        for key in self._make_room(slot, [key for key in points if key not in self.series]):
            self.series[key] = Series(self._names, slot)
        for key, point in points.items():
            if series := self.series.get(key):
                series.put(slot, point)

    def _make_room(self, slot: int, new_keys: Sequence[Key]) -> Sequence[Key]:
        """Evicts idle series if there are too many, and returns the new keys for which there is room. A
        series that is measured now is never evicted: otherwise all series would have gaps."""
        surplus = len(self.series) + len(new_keys) - self._most
        if surplus <= 0:
            return new_keys
        self.complete_since = slot + 1
        idle = [key for key, series in self.series.items() if series.newest < slot - _MAX_IDLE_POINTS]
        for key in sorted(idle, key=lambda key: self.series[key].newest)[:surplus]:
            del self.series[key]
        return new_keys[: self._most - len(self.series)]


class UsageHistory:
    def __init__(self) -> None:
        self._instances = SeriesTable[InstanceKey](_USAGE, MAX_INSTANCES)
        self._requests = SeriesTable[str](_REQUESTS, MAX_SERVICES)
        self._told = Series({_REPORTED: _SINGLE}, 0)
        """A series with the value 0 in each slot for which the gateway reported the requests of all
        services."""
        self._newest = 0

    def note_usage(self, timestamp: int, points: Mapping[InstanceKey, Point]) -> None:
        """Adds the resource usage of instances."""
        slot = self._advance_to(timestamp)
        self._instances.put(slot, points)

    def note_requests(self, timestamp: int, points: Mapping[str, Point]) -> None:
        """Adds the requests of services. A service that is missing in `points` had no requests."""
        slot = self._advance_to(timestamp)
        self._requests.put(slot, points)
        self._told.put(slot, {_REPORTED: 0.0})

    def _advance_to(self, timestamp: int) -> int:
        """Returns the slot of a time and advances the newest slot. If the clock was set back, the slot
        becomes the newest."""
        slot = slot_of(timestamp)
        self._newest = slot if slot < self._newest - _MAX_IDLE_POINTS else max(self._newest, slot)
        return slot

    def of(self, service: str, now: int) -> UsagePoints:
        """Returns the last hour of a service, beginning with its first point."""
        last = max(self._newest, slot_of(now) - 1)
        since = last - RING_POINTS + 1
        mine = {name: series for (of, name), series in self._instances.series.items() if of == service}
        instances = {name: series for name, series in mine.items() if series.newest >= since}
        requests = self._requests.series.get(service)
        if requests and requests.newest < since:
            requests = None
        shown = [*instances.values(), *([requests] if requests else [])]
        slots = range(max(since, min((series.since for series in shown), default=last + 1)), last + 1)
        newest = sorted(instances, key=lambda name: instances[name].newest, reverse=True)[
            :MAX_SHOWN_INSTANCES
        ]
        return UsagePoints(
            times=[slot * INTERVAL_MS for slot in slots],
            instances={
                name: {number: instances[name].numbers(number, slots) for number in _USAGE} for name in newest
            },
            requests=self._requests_in(requests, slots) if requests else None,
        )

    def error_share(self, service: str, now: int) -> float | None:
        """Returns the share of 5xx responses among the recent requests of a service; None if no requests were
        counted."""
        series = self._requests.series.get(service)
        if series is None:
            return None
        last = max(self._newest, slot_of(now) - 1)
        slots = range(last - RECENT_POINTS + 1, last + 1)
        rates = {name: sum(number or 0.0 for number in series.numbers(name, slots)) for name in CLASSES}
        total = sum(rates.values())
        return round(rates["5xx"] / total, 3) if total else None

    def _requests_in(self, series: Series, slots: range) -> Mapping[str, Numbers]:
        """Returns the requests of a service. Slots without requests have the rate 0 if the gateway reported
        in them."""
        zeros = self._told.numbers(_REPORTED, slots)
        certain = min(series.since, self._requests.complete_since)
        numbers = {name: series.numbers(name, slots) for name in _REQUESTS}
        for name in CLASSES:
            numbers[name] = [
                zero if number is None and slot >= certain else number
                for slot, number, zero in zip(slots, numbers[name], zeros, strict=True)
            ]
        return numbers


def slot_of(timestamp: int) -> int:
    """Returns the number of the slot that is nearest to a time."""
    return (timestamp + INTERVAL_MS // 2) // INTERVAL_MS
