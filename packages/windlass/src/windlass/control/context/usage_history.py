"""The usage of services and the requests to them in the last hour: rings of 240 points, in memory.

The server that reaches an engine keeps the points of its services. A restart begins a new hour. The number of
rings has a limit, so that the memory has one.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Final, Generic, TypeVar

from msgspec import Struct

EVERY: Final = 15_000
"""Milliseconds between two points. All services have theirs at the same times, the multiples of it."""
KEPT: Final = 240
"""Points of a number: an hour."""
RECENT: Final = 20
"""The points from which the present share of errors is computed: five minutes."""
MOST_INSTANCES: Final = 2000
"""Instances with points, of all services together."""
MOST_SERVICES: Final = 2000
"""Services with points of their requests."""
MOST_SHOWN: Final = 50
"""Instances of one service that are measured at a time, and that are answered."""
CPU: Final = "cpu"
MEMORY: Final = "memory"
ALWAYS_SHOWN: Final = ("2xx", "3xx", "4xx", "5xx")
CLASSES: Final = ("none", "1xx", *ALWAYS_SHOWN)
"""Requests by the first digit of their status; none: the client left before."""
PERCENTILES: Final = ("p50", "p90", "p99")
_IDLE: Final = 2
"""The number of points without a measurement after which a series may be replaced by a new one."""
_SINGLE, _DOUBLE, _TOLD = "f", "d", "told"
_USAGE: Final = {CPU: _SINGLE, MEMORY: _DOUBLE}
_REQUESTS: Final = dict.fromkeys((*CLASSES, *PERCENTILES), _SINGLE)

Point = Mapping[str, float | None]
"""Numbers that were measured together, by name; None: unknown."""
InstanceKey = tuple[str, str]
"""The service of an instance, and the name of the instance within it."""
Numbers = list[float | None]
Key = TypeVar("Key")


class UsagePoints(Struct, frozen=True):
    """The points of a service, oldest first: every list is as long as `times`."""

    times: Sequence[int]
    instances: Mapping[str, Mapping[str, Numbers]]
    """Keyed by instance: processor and memory."""
    requests: Mapping[str, Numbers] | None
    """Rates by class, and percentiles; None if no request was counted."""


class Series:
    """The last points of numbers that are measured together, such as those of an instance."""

    __slots__ = ("_rings", "newest", "since")

    def __init__(self, names: Mapping[str, str], slot: int) -> None:
        self._rings = {name: array(type, [math.nan]) * KEPT for name, type in names.items()}
        self.since = self.newest = slot

    def put(self, slot: int, point: Point) -> None:
        """Adds a point; those between it and the one before are unknown. A point that is a little older is
        left out. One that is much older begins the series again: the clock was set back."""
        if slot < self.newest - _IDLE:
            self._begin(slot)
        if slot < self.newest:
            return
        for missed in range(max(self.newest, slot - KEPT) + 1, slot):
            for ring in self._rings.values():
                ring[missed % KEPT] = math.nan
        for name, ring in self._rings.items():
            number = point.get(name)
            ring[slot % KEPT] = math.nan if number is None else number
        self.newest = slot

    def _begin(self, slot: int) -> None:
        for ring in self._rings.values():
            ring[:] = array(ring.typecode, [math.nan]) * KEPT
        self.since = self.newest = slot

    def numbers(self, name: str, slots: range) -> Numbers:
        ring = self._rings[name]
        kept = range(max(self.since, self.newest - KEPT + 1), self.newest + 1)
        return [
            None if slot not in kept or math.isnan(number := ring[slot % KEPT]) else number for slot in slots
        ]


class SeriesTable(Generic[Key]):
    """A limited number of series. If there are more, those that were measured least recently give way."""

    def __init__(self, names: Mapping[str, str], most: int) -> None:
        self._names, self._most = names, most
        self.series: dict[Key, Series] = {}
        self.complete_since = 0
        """The first slot from which on all measurements have been kept."""

    def put(self, slot: int, points: Mapping[Key, Point]) -> None:
        self.complete_since = min(self.complete_since, slot + 1)  # The clock may have been set back.
        gone = [key for key, series in self.series.items() if not slot - KEPT < series.newest <= slot + _IDLE]
        for key in gone:
            del self.series[key]
        for key in self._make_room(slot, [key for key in points if key not in self.series]):
            self.series[key] = Series(self._names, slot)
        for key, point in points.items():
            if series := self.series.get(key):
                series.put(slot, point)

    def _make_room(self, slot: int, new: Sequence[Key]) -> Sequence[Key]:
        """Drops idle series if there are too many, and returns the new ones that have room. Series that are
        measured now stay: otherwise none would be whole."""
        surplus = len(self.series) + len(new) - self._most
        if surplus <= 0:
            return new
        self.complete_since = slot + 1
        idle = [key for key, series in self.series.items() if series.newest < slot - _IDLE]
        for key in sorted(idle, key=lambda key: self.series[key].newest)[:surplus]:
            del self.series[key]
        return new[: self._most - len(self.series)]


class UsageHistory:
    def __init__(self) -> None:
        self._instances = SeriesTable[InstanceKey](_USAGE, MOST_INSTANCES)
        self._requests = SeriesTable[str](_REQUESTS, MOST_SERVICES)
        self._told = Series({_TOLD: _SINGLE}, 0)
        """0 in each slot for which the gateway reported the requests of all services."""
        self._newest = 0

    def note_usage(self, at: int, points: Mapping[InstanceKey, Point]) -> None:
        """Adds what instances used."""
        slot = self._advance_to(at)
        self._instances.put(slot, points)

    def note_requests(self, at: int, points: Mapping[str, Point]) -> None:
        """Adds the requests of all services that had any; all others had none."""
        slot = self._advance_to(at)
        self._requests.put(slot, points)
        self._told.put(slot, {_TOLD: 0.0})

    def _advance_to(self, at: int) -> int:
        """Returns the slot of a time. After the clock was set back, it is the newest."""
        slot = slot_of(at)
        self._newest = slot if slot < self._newest - _IDLE else max(self._newest, slot)
        return slot

    def of(self, service: str, now: int) -> UsagePoints:
        """Returns the last hour of a service, from its first point on."""
        last = max(self._newest, slot_of(now) - 1)
        since = last - KEPT + 1
        mine = {name: series for (of, name), series in self._instances.series.items() if of == service}
        instances = {name: series for name, series in mine.items() if series.newest >= since}
        requests = self._requests.series.get(service)
        if requests and requests.newest < since:
            requests = None
        shown = [*instances.values(), *([requests] if requests else [])]
        slots = range(max(since, min((series.since for series in shown), default=last + 1)), last + 1)
        newest = sorted(instances, key=lambda name: instances[name].newest, reverse=True)[:MOST_SHOWN]
        return UsagePoints(
            times=[slot * EVERY for slot in slots],
            instances={
                name: {number: instances[name].numbers(number, slots) for number in _USAGE} for name in newest
            },
            requests=self._requests_in(requests, slots) if requests else None,
        )

    def error_share(self, service: str, now: int) -> float | None:
        """Returns the share of the recent requests of a service that were answered with 5xx; None if no
        request is known."""
        series = self._requests.series.get(service)
        if series is None:
            return None
        last = max(self._newest, slot_of(now) - 1)
        slots = range(last - RECENT + 1, last + 1)
        rates = {name: sum(number or 0.0 for number in series.numbers(name, slots)) for name in CLASSES}
        total = sum(rates.values())
        return round(rates["5xx"] / total, 3) if total else None

    def _requests_in(self, series: Series, slots: range) -> Mapping[str, Numbers]:
        """Returns the requests of a service, with a rate of 0 where the gateway reported none."""
        zeros = self._told.numbers(_TOLD, slots)
        certain = min(series.since, self._requests.complete_since)
        numbers = {name: series.numbers(name, slots) for name in _REQUESTS}
        for name in CLASSES:
            numbers[name] = [
                zero if number is None and slot >= certain else number
                for slot, number, zero in zip(slots, numbers[name], zeros, strict=True)
            ]
        return numbers


def slot_of(at: int) -> int:
    """Returns the number of the point that is nearest to a time."""
    return (at + EVERY // 2) // EVERY
