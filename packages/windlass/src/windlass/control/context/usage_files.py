"""The resource usage and requests of services in the last day and month: one file of fixed size per service.

A file has a ring of points for each resolution. A point has the number of its slot, so that a point which was
never written, or belongs to an earlier turn of the ring, is told from a current one. A lost or torn point is
a gap in a chart and nothing else; therefore nothing is flushed.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from struct import Struct as Layout
from typing import Final

from msgspec import Struct

from windlass.base.clock import DAY, MINUTE
from windlass.base.subprocesses import in_thread
from windlass.control.context.usage_history import CLASSES, CPU, MEMORY, PERCENTILES, Numbers, Point

USAGE_FOLDER: Final = "usage"
"""The name of the folder in the data directory."""
INSTANCES: Final = "instances"
SERIES_NAMES: Final = (CPU, MEMORY, INSTANCES, *CLASSES, *PERCENTILES)
_POINT: Final = Layout(f"<I{len(SERIES_NAMES)}f")


class Resolution(Struct, frozen=True):
    """How often a point is written, and how many points a file has."""

    every: int
    """Milliseconds."""
    points: int

    def slot_of(self, timestamp: int) -> int:
        """Returns the number of the interval that contains a time."""
        return timestamp // self.every


class Span(Struct, frozen=True):
    """A stretch of time that can be read, up to now."""

    length: int
    """Milliseconds."""
    resolution: Resolution


FINE_RESOLUTION: Final = Resolution(5 * MINUTE, 290)
COARSE_RESOLUTION: Final = Resolution(30 * MINUTE, 1450)
RESOLUTIONS: Final = (FINE_RESOLUTION, COARSE_RESOLUTION)
SPANS: Final = {
    "24h": Span(DAY, FINE_RESOLUTION),
    "7d": Span(7 * DAY, COARSE_RESOLUTION),
    "30d": Span(30 * DAY, COARSE_RESOLUTION),
}
_OFFSETS: Final = {FINE_RESOLUTION: 0, COARSE_RESOLUTION: FINE_RESOLUTION.points * _POINT.size}
_RETENTION_SECONDS: Final = COARSE_RESOLUTION.every * COARSE_RESOLUTION.points // 1000
"""Seconds after its last point at which a file is removed."""


class LongUsagePoints(Struct, frozen=True):
    """The points of a service, oldest first. Every list is as long as `times`."""

    every: int
    """Milliseconds between two points."""
    times: Sequence[int]
    """The end of the interval of each point."""
    numbers: Mapping[str, Numbers]


class UsageFiles:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def write(self, resolution: Resolution, slot: int, points: Mapping[str, Point]) -> None:
        """Writes the points of an interval, by service. Raises OSError."""
        await in_thread(self._write, resolution, slot, points)

    def _write(self, resolution: Resolution, slot: int, points: Mapping[str, Point]) -> None:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        place = _OFFSETS[resolution] + slot % resolution.points * _POINT.size
        for service, point in points.items():
            numbers = (point.get(name) for name in SERIES_NAMES)
            packed = _POINT.pack(slot, *(math.nan if number is None else number for number in numbers))
            file = os.open(self._folder / service, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.pwrite(file, packed, place)
            finally:
                os.close(file)

    async def read(self, service: str, span: Span, now: int) -> LongUsagePoints:
        """Returns the points of a service in the span before now, beginning with its first point."""
        return await in_thread(self._read, service, span, now)

    def _read(self, service: str, span: Span, now: int) -> LongUsagePoints:
        resolution = span.resolution
        last = resolution.slot_of(now) - 1
        wanted = range(last - span.length // resolution.every + 1, last + 1)
        found = {slot: numbers for slot, numbers in self._points_in(service, resolution) if slot in wanted}
        slots = range(min(found), last + 1) if found else range(0)
        unknown = [math.nan] * len(SERIES_NAMES)
        rows = [found.get(slot, unknown) for slot in slots]
        columns = zip(*rows, strict=True) if rows else ((),) * len(SERIES_NAMES)
        return LongUsagePoints(
            every=resolution.every,
            times=[(slot + 1) * resolution.every for slot in slots],
            numbers={
                name: [None if math.isnan(number) else number for number in column]
                for name, column in zip(SERIES_NAMES, columns, strict=True)
            },
        )

    def _points_in(self, service: str, resolution: Resolution) -> Iterator[tuple[int, Sequence[float]]]:
        try:
            file = os.open(self._folder / service, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            ring = os.pread(file, resolution.points * _POINT.size, _OFFSETS[resolution])
        finally:
            os.close(file)
        for slot, *numbers in _POINT.iter_unpack(ring[: len(ring) // _POINT.size * _POINT.size]):
            yield slot, numbers

    async def services(self) -> Collection[str]:
        return await in_thread(self._services)

    def _services(self) -> Collection[str]:
        with suppress(FileNotFoundError):
            return [file.name for file in self._folder.iterdir()]
        return ()

    async def sweep(self, deleted_services: Collection[str]) -> None:
        """Removes the files of the services in `deleted_services`, and of those that were not measured for a
        month."""
        await in_thread(self._sweep, deleted_services)

    def _sweep(self, deleted_services: Collection[str]) -> None:
        files = {name: self._folder / name for name in self._services()}
        newest = max((file.stat().st_mtime for file in files.values()), default=0.0)
        for name, file in files.items():
            # Measured against the newest file: while nothing was measured, nothing is too old.
            if name in deleted_services or file.stat().st_mtime < newest - _RETENTION_SECONDS:
                file.unlink()
