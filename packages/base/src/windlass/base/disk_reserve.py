"""Measures the disk: its free space, its reserve, and the usage of each instance or build. Chooses the
instance to end when space runs short.

Space is counted in bytes and in files (inodes), because a disk can run out of either.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar

from msgspec import Struct, structs

from windlass.base.message_files import UnseenFiles
from windlass.base.process_memory import have_too_many_files
from windlass.base.repeated_measurement import MeasurementInterval, measure_until_stable
from windlass.base.unnamed_files import mapped_files, unnamed_files

MAX_RESERVE_FRACTION: Final = 1 / 20
"""The maximum reserve, as a fraction of the disk, so that small disks can be used."""
_MIN_START_SPACE_DIVISOR: Final = 8
"""The minimum free space to start an instance or build: the reserve divided by this number."""
_MIN_USAGE_DIVISOR: Final = 16
"""The minimum usage of an instance to be ended: the free space divided by this number; see `_MIN_USAGE`."""
_MIN_USAGE: Final = {"bytes": 16 << 20, "files": 1000}
"""The minimum usage of an instance to be ended, whatever the free space."""
_MIN_CAUSE_DIVISOR: Final = 8
"""The minimum part of an instance that is a cause of a shortage: the shortage, without the parts of all other
instances, divided by this number."""
_AMPLE_SPACE_DIVISOR: Final = 10
"""The minimum free space of a disk that is not full: its size divided by this number."""
_SECONDS_PER_MINUTE: Final = 60
_BLOCK_BYTES: Final = 512
_CLOCK_TOLERANCE_SECONDS: Final = 1.0
"""The seconds by which the time of a file's change may lag behind the clock."""

K = TypeVar("K")


class DiskSpace(Struct, frozen=True):
    """The free, total and reserved space of a disk, in one unit."""

    unit: str
    """`bytes` or `files`."""
    free: int
    whole: int
    reserve: int
    lost: int = 0
    """The space that was consumed within the last minute."""
    hour_lost: int = 0
    """The decrease of free space since its maximum in the last hour."""
    most_at: float = 0
    """The time of that maximum."""


class Amount(Struct, frozen=True):
    """The disk usage of some files."""

    bytes: int = 0
    files: int = 0
    is_hidden: bool = False
    """Whether some files cannot be measured. The program has removed the server's permission on a folder, has
    nested folders too deep, has too many open files, or has sent open files in socket messages."""
    new_bytes: int = 0
    """The bytes of files that changed since the maximum of free space."""
    new_files: int = 0
    """The number of files that changed since the maximum of free space."""
    has_unmeasured: bool = False
    """Whether some files have an unknown size."""

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.bytes + other.bytes,
            self.files + other.files,
            self.is_hidden or other.is_hidden,
            self.new_bytes + other.new_bytes,
            self.new_files + other.new_files,
            self.has_unmeasured or other.has_unmeasured,
        )

    def size(self, space: DiskSpace) -> int:
        if self.is_hidden:
            return space.whole - space.free
        return self.bytes if space.unit == "bytes" else self.files

    def new(self, space: DiskSpace) -> int:
        if self.is_hidden:
            return space.whole - space.free
        return self.new_bytes if space.unit == "bytes" else self.new_files


class DiskShare(Struct, frozen=True):
    """The disk usage of one instance, or the sum of several instances."""

    own: Amount
    """The usage of its own folders, which are erased when the instance is ended."""
    changed: Amount
    """The usage of files in its volumes that changed in the last minute. They stay when it is ended."""
    stored: int = 0
    """The bytes of all files in its volumes."""

    def __add__(self, other: DiskShare) -> DiskShare:
        return DiskShare(self.own + other.own, self.changed + other.changed, self.stored + other.stored)

    def grown_from(self, previous_bytes: int) -> DiskShare:
        """Returns this share with the changed bytes limited to the growth of the volumes since
        `previous_bytes`."""
        grown, changed = max(0, self.stored - previous_bytes), self.changed
        bounded = structs.replace(
            changed, bytes=min(changed.bytes, grown), new_bytes=min(changed.new_bytes, grown)
        )
        return structs.replace(self, changed=bounded)

    def size(self, space: DiskSpace) -> int:
        """Returns the usage that is attributed to the instance.

        Changed files in volumes are limited to the space that the disk has lost, because a large database
        changes files without growing. They count half, because ending the instance does not free them.
        """
        return self.own.size(space) + min(self.changed.size(space), space.lost) // 2

    def new(self, space: DiskSpace) -> int:
        """Returns the most that the instance can have consumed since the maximum of free space."""
        return self.own.new(space) + min(self.changed.new(space), space.hour_lost)

    def whole(self, space: DiskSpace) -> int:
        """Returns the upper bound of the instance's part in the missing space."""
        return self.own.size(space) + min(self.changed.new(space), space.hour_lost)


def disk_spaces(folder: Path, reserve: int) -> list[DiskSpace]:
    """Returns the space of a folder's disk, in bytes and in files. Some file systems have no limit of files.

    `reserve` is the reserve in bytes; the same fraction of inodes is reserved.
    """
    facts = os.statvfs(folder)
    whole = facts.f_blocks * facts.f_frsize
    part = min(reserve / whole, MAX_RESERVE_FRACTION) if whole else 0.0
    counted = [("bytes", facts.f_bavail * facts.f_frsize, whole), ("files", facts.f_favail, facts.f_files)]
    return [DiskSpace(unit, free, whole, int(whole * part)) for unit, free, whole in counted if whole]


def bytes_per_file(disk_spaces: Collection[DiskSpace]) -> int:
    """Returns the disk's bytes per available inode; 0 if the file system does not limit its files."""
    whole = {space.unit: space.whole for space in disk_spaces}
    return whole["bytes"] // whole["files"] if "files" in whole else 0


def has_room_to_start(folder: Path, reserve: int) -> bool:
    return all(
        space.free >= space.reserve // _MIN_START_SPACE_DIVISOR for space in disk_spaces(folder, reserve)
    )


def least_to_start(folder: Path, reserve: int) -> int:
    """Returns the bytes that have to be free on the disk so that instances are started."""
    spaces = disk_spaces(folder, reserve)
    return next((each.reserve // _MIN_START_SPACE_DIVISOR for each in spaces if each.unit == "bytes"), 0)


def is_short(folder: Path, reserve: int, times: int = 1) -> bool:
    """Returns whether the free space is below the reserve, multiplied by `times`."""
    return any(space.free < space.reserve * times for space in disk_spaces(folder, reserve))


def has_little(folder: Path) -> bool:
    """Returns whether the disk is so full that a write may have failed, even if space was freed since."""
    return any(space.free * _AMPLE_SPACE_DIVISOR < space.whole for space in disk_spaces(folder, 0))


class DiskWatch:
    """Checks the free space of a disk every second, and decides when to measure the usage of instances."""

    def __init__(self, folder: Path, reserve: int) -> None:
        self._folder, self._wanted = folder, reserve
        self._pace = MeasurementInterval()
        self._seconds: deque[dict[str, int]] = deque(maxlen=_SECONDS_PER_MINUTE)
        self._minutes: deque[dict[str, tuple[int, float]]] = deque(maxlen=_SECONDS_PER_MINUTE)
        """The maximum of free space in each of the last minutes, with its time, by unit."""
        self._minute_began = 0.0

    def shortage(self, times: int = 1) -> DiskSpace | None:
        """Returns the unit with less free space than `times` its reserve; None if there is enough space."""
        present = disk_spaces(self._folder, self._wanted)
        self._note(present, time.time())
        for space in present:
            if space.free < space.reserve * times:
                lately = max(seen.get(space.unit, 0) for seen in self._seconds)
                most, at = max(seen.get(space.unit, (0, 0.0)) for seen in self._minutes)
                lost, hour_lost = lately - space.free, most - space.free
                return structs.replace(space, lost=lost, hour_lost=hour_lost, most_at=at)
        return None

    def _note(self, disk_spaces: Iterable[DiskSpace], now: float) -> None:
        self._seconds.append({space.unit: space.free for space in disk_spaces})
        free = {space.unit: (space.free, now) for space in disk_spaces}
        if self._minutes and now - self._minute_began < _SECONDS_PER_MINUTE:
            before = self._minutes.pop()
            free = {unit: max(seen, before.get(unit, seen)) for unit, seen in free.items()}
        else:
            self._minute_began = now
        self._minutes.append(free)

    def is_due(self, space: DiskSpace) -> bool:
        return self._pace.is_due(space.free)

    def postpone(self, space: DiskSpace, duration: float) -> None:
        self._pace.postpone(space.free, duration)


def heaviest(
    space: DiskSpace,
    uses: Mapping[K, DiskShare],
    orgs: Mapping[K, str] | None = None,
    usage_by_organization: Mapping[str, int] | None = None,
    payers: Collection[str] | None = None,
    environments: Mapping[K, str] | None = None,
) -> K | None:
    """Chooses the instance to end: the largest instance among the causes of the shortage.

    Returns None if no instance is a cause. Then, something else has filled the disk, and ending instances
    would not help.

    `orgs`: the organization of each instance. If there are several organizations, the organization is chosen
    first: the largest of those whose instances together are a cause of the shortage. Otherwise, many small
    instances of one organization, or an instance that fills its volume slowly, could cause the end of an
    instance of another organization. The environment is chosen next, in the same way.

    `usage_by_organization`: the last known usage of organizations in bytes, including volumes, builds and
    stopped services.
    `payers`: the organizations that may be chosen; None for all. `environments`: the environment of each
    instance.
    """
    own, counts_together = uses, False
    if orgs and (payers is not None or len({orgs[key] for key in uses}) > 1):
        weights = (usage_by_organization or {}) if space.unit == "bytes" else {}
        own, counts_together = _within_largest_group(space, own, uses, orgs, weights, payers), True
    if environments and len({environments[key] for key in own}) > 1:
        part = _within_largest_group(space, own, uses, environments)
        own, counts_together = part or own, counts_together or bool(part)
    largest = max(own, key=lambda key: own[key].whole(space), default=None)
    return _largest_cause(space, own, uses) or (largest if counts_together else None)


def _within_largest_group(
    space: DiskSpace,
    candidates: Mapping[K, DiskShare],
    usage: Mapping[K, DiskShare],
    groups: Mapping[K, str],
    weights: Mapping[str, int] = MappingProxyType({}),
    payers: Collection[str] | None = None,
) -> Mapping[K, DiskShare]:
    """Returns the instances of the largest group among the groups that are a cause of the shortage.

    `weights`: bytes of the groups in addition to their instances.
    """
    sums: dict[str, DiskShare] = {}
    for key, use in usage.items():
        group = groups[key]
        sums[group] = sums[group] + use if group in sums else use
    possible = {groups[key] for key in candidates if payers is None or groups[key] in payers}
    reasons = _causes_of_shortage(space, sums, sums, {group: use.whole(space) for group, use in sums.items()})
    heaviest_group = max(
        (group for group in reasons if group in possible),
        key=lambda group: sums[group].size(space) + weights.get(group, 0),
        default=None,
    )
    return {key: use for key, use in candidates.items() if groups[key] == heaviest_group}


def _largest_cause(
    space: DiskSpace, candidates: Mapping[K, DiskShare], usage: Mapping[K, DiskShare]
) -> K | None:
    """Returns the largest candidate among the causes of the shortage; None if there is no cause."""
    sizes = {key: use.size(space) for key, use in candidates.items()}
    return max(_causes_of_shortage(space, candidates, usage, sizes), key=lambda key: sizes[key], default=None)


def _causes_of_shortage(
    space: DiskSpace,
    candidates: Mapping[K, DiskShare],
    usage: Mapping[K, DiskShare],
    sizes: Mapping[K, int],
) -> list[K]:
    """Returns the candidates that are a cause of the shortage and large enough to be ended."""
    least = max(_MIN_USAGE[space.unit], space.free // _MIN_USAGE_DIVISOR)
    all_own = sum(use.own.size(space) for use in usage.values())
    all_new = sum(use.own.new(space) for use in usage.values())

    def is_reason(share: DiskShare) -> bool:
        # Volumes of others are left out, because a database changes large files without consuming space.
        reserve = space.reserve - (all_own - share.own.size(space))
        lost = space.hour_lost - (all_new - share.own.new(space))
        has_much = share.whole(space) * _MIN_CAUSE_DIVISOR >= reserve
        return has_much and (
            share.new(space) * _MIN_CAUSE_DIVISOR >= lost or share.whole(space) >= space.hour_lost
        )

    return [key for key, use in candidates.items() if sizes[key] >= least and is_reason(use)]


def measure(places: Iterable[Path], start_time: float = 0, new_since: float = 0) -> Amount:
    """Measures files and folder trees, except files that last changed before `start_time`. Follows no
    links."""
    return measure_with_all(places, start_time, new_since)[0]


def measure_with_all(places: Iterable[Path], start_time: float, new_since: float) -> tuple[Amount, int]:
    """Measures like `measure`, and returns the bytes of all files as well, including unchanged files."""
    count = _UsageCounter(start_time, new_since)
    is_hidden, waiting = False, [str(place) for place in places]
    while waiting:
        place = waiting.pop()
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):  # removed meanwhile
                        facts = entry.stat(follow_symlinks=False)
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                        count.add(facts)
        except FileNotFoundError:
            continue
        except NotADirectoryError:
            with suppress(OSError):
                count.add(os.lstat(place))
        except OSError:
            is_hidden = True
    return count.amount() + Amount(is_hidden=is_hidden), count.all_bytes


class _UsageCounter:
    """Adds up the sizes of files."""

    def __init__(self, start_time: float, new_since: float) -> None:
        self._since, self._new_since = start_time, new_since - _CLOCK_TOLERANCE_SECONDS
        self._bytes = self._files = self._new_bytes = self._new_files = self.all_bytes = 0

    def add(self, stat_result: os.stat_result) -> None:
        size = stat_result.st_blocks * _BLOCK_BYTES
        self.all_bytes += size
        if stat_result.st_ctime >= self._since:
            self._bytes += size
            self._files += 1
        if stat_result.st_ctime >= self._new_since:
            self._new_bytes += size
            self._new_files += 1

    def amount(self) -> Amount:
        return Amount(self._bytes, self._files, new_bytes=self._new_bytes, new_files=self._new_files)


def unlinked(find_pids: Callable[[], Collection[int]], folder: Path, new_since: float = 0) -> Amount:
    """Measures deleted files on a folder's disk that processes still have open or mapped.

    `find_pids` returns the ids of the processes.
    """
    device = folder.stat().st_dev
    files: dict[int, os.stat_result] = {}
    mapped: set[tuple[int, int]] = set()
    try:
        for pids in measure_until_stable(find_pids):
            if have_too_many_files(pids):
                return Amount(is_hidden=True)
            mapped |= mapped_files(pids)
            for facts in unnamed_files(pids):
                if facts.st_dev == device:
                    files[facts.st_ino] = facts
    except UnseenFiles:
        return Amount(is_hidden=True)
    count = _UsageCounter(0, new_since)
    for facts in files.values():
        if stat.S_ISREG(facts.st_mode):
            count.add(facts)
    has_unmeasured = any(at == device and inode not in files for at, inode in mapped)
    return count.amount() + Amount(has_unmeasured=has_unmeasured)
