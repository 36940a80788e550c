"""Measures the disk usage of each organization, on this machine and in the database.

Files are counted in short intervals, so that millions of files take at most a twentieth of one CPU.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from windlass.base.disk_reserve import bytes_per_file, disk_spaces
from windlass.base.errors import Unavailable
from windlass.base.ids import is_id
from windlass.base.long_paths import HIDDEN_BYTES, PathTooLong, folder_entries
from windlass.base.subprocesses import in_thread
from windlass.control.context.context import Context
from windlass.control.records.disk_shares import note_disk, read_disk, record_of, share_of
from windlass.engines.engine import DiskMeasurement, EngineError
from windlass.store import FIRST_PLACE

INTERVAL: Final = 300.0
"""Seconds between two measurements. The interval is `SHORT_INTERVAL` while an organization exceeds its
quota, so that freed space is noticed soon."""
SHORT_INTERVAL: Final = 60.0
_FIRST_PAUSE: Final = 20.0
_TURN_SECONDS: Final = 0.02
_PAUSE_FACTOR: Final = 19
"""The pause after an interval of counting, as a multiple of its duration."""
_LONG_PAUSE_FACTOR: Final = 50
_VOLUMES_FOLDER: Final = "run/volumes"
_CACHES_FOLDER: Final = "builds/cache/.services"
"""A folder with one subfolder for each organization. The other folders below have one subfolder for each
service."""
_MEASURED_FOLDERS: Final = (
    _VOLUMES_FOLDER,
    "run/caches",
    "run/services",
    "builds",
    "databases",
    "git/kept",
    "bundled/git/kept",
    "repositories",
    "uploads",
    "sites",
    "logs",
    _CACHES_FOLDER,
)
Key = tuple[str, str]
"""A part of the data directory, and the name of a folder in it."""


class FileCount:
    """Counts the files and bytes below folders, in intervals. Hard links to one file are counted once."""

    def __init__(self, folders: Iterable[tuple[Key, Path]]) -> None:
        self.bytes: Counter[Key] = Counter()
        self.files: Counter[Key] = Counter()
        """The number of files and folders."""
        self._waiting = [(key, str(path)) for key, path in folders]
        self._linked: set[tuple[int, int]] = set()
        self._entries = self._count_all()

    def go_on(self, seconds: float) -> bool:
        """Counts for this many seconds. Returns whether there is more to count."""
        until = time.monotonic() + seconds
        return any(time.monotonic() >= until for _ in self._entries)

    def _count_all(self) -> Iterator[None]:
        while self._waiting:
            key, place = self._waiting.pop()
            try:
                with suppress(OSError), folder_entries(place) as entries:
                    for entry in entries:
                        with suppress(OSError):
                            if entry.is_dir(follow_symlinks=False):
                                self._waiting.append((key, f"{place}/{entry.name}"))
                            self._add(key, entry.stat(follow_symlinks=False))
                        yield
            except PathTooLong:
                self.bytes[key] += HIDDEN_BYTES

    def _add(self, key: Key, stat_result: os.stat_result) -> None:
        if stat_result.st_nlink > 1:
            file = stat_result.st_dev, stat_result.st_ino
            if file in self._linked:
                return
            self._linked.add(file)
        self.bytes[key] += stat_result.st_blocks * 512
        self.files[key] += 1


class DiskMeter:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._folder = Path(ctx.settings.data_dir)
        self._rows: dict[str, int] = {}
        """The last measured bytes of organizations in the database."""
        self._rows_due = self._volumes_due = 0.0
        self._volumes: dict[Key, int] = {}

    async def run(self) -> None:
        await asyncio.sleep(_FIRST_PAUSE)
        while True:
            began = time.monotonic()
            is_any_above = self._ctx.ownership.is_owner and await self.measure()
            await asyncio.sleep(max(SHORT_INTERVAL if is_any_above else INTERVAL, time.monotonic() - began))

    async def measure(self, pause_seconds: int = _PAUSE_FACTOR) -> bool:
        """Measures the disk usage and records the result. Returns whether an organization exceeds its
        quota."""
        ctx = self._ctx
        count = FileCount(await in_thread(self._folders))
        is_left = True
        while is_left:
            began = time.monotonic()
            is_left = await in_thread(count.go_on, _TURN_SECONDS)
            await asyncio.sleep(pause_seconds * (time.monotonic() - began))
        owners = await ctx.store.reads.statuses.organizations()
        sizes = count.bytes + Counter(await self._volumes_elsewhere())
        on_disk, files = _sum_up(sizes, owners), _sum_up(count.files, owners)
        present = disk_spaces(self._folder, ctx.settings.disk_reserve_bytes)
        each = bytes_per_file(present)
        # Files count with at least their share of the inodes, because empty files use no bytes but the disk's
        # inodes are limited.
        on_disk |= Counter({org: number * each for org, number in files.items()})
        held = on_disk + Counter(await self._row_sizes())
        share = share_of(ctx.settings.organization_disk_bytes, present, len(on_disk))
        volumes = {name: size for (part, name), size in sizes.items() if part == _VOLUMES_FOLDER}
        ctx.places.local.engine.note_disk_use(DiskMeasurement(share, held, volumes))
        record = record_of(held, share)
        if record != await read_disk(ctx.store.reads, ctx.ownership.place):
            await ctx.store.write(lambda tx: note_disk(tx, ctx.ownership.place, record))
        return bool(record.above)

    async def _row_sizes(self) -> dict[str, int]:
        """Returns the bytes of organizations in the database. Only the servers of the first place measure
        them, for at most a fiftieth of the time. The last result is used if the measurement fails."""
        began = time.monotonic()
        if self._ctx.ownership.place == FIRST_PLACE and began >= self._rows_due:
            with suppress(Unavailable):
                self._rows = await self._ctx.store.row_sizes()
            now = time.monotonic()
            self._rows_due = now + _LONG_PAUSE_FACTOR * (now - began)
        return self._rows

    def _folders(self) -> list[tuple[Key, Path]]:
        found = []
        for part in _MEASURED_FOLDERS:
            with suppress(OSError):
                found += [
                    ((part, path.name), path) for path in (self._folder / part).iterdir() if is_id(path.name)
                ]
        return found

    async def _volumes_elsewhere(self) -> dict[Key, int]:
        """Returns the sizes of volumes outside the data directory. The engine measures them for at most a
        fiftieth of the time. The last result is used while the engine is unavailable."""
        began = time.monotonic()
        if began >= self._volumes_due:
            with suppress(EngineError, TimeoutError):
                sizes = await self._ctx.places.local.engine.volume_sizes()
                self._volumes = {("", service): size for service, size in sizes.items()}
            now = time.monotonic()
            self._volumes_due = now + _LONG_PAUSE_FACTOR * (now - began)
        return self._volumes


def _sum_up(counts: Mapping[Key, int], owners: Mapping[str, str]) -> Counter[str]:
    """Returns the sums by organization. `owners` contains the organizations of services."""
    sums = Counter[str]()
    for (part, name), number in counts.items():
        if org := name if part == _CACHES_FOLDER else owners.get(name):
            sums[org] += number
    return sums
