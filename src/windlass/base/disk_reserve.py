"""Measures the disk: its room and its reserve, what an instance or a build holds of it, and who holds most.

The room is counted in bytes and in files (inodes), as a disk can run out of either.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from msgspec import Struct

from windlass.base.measure_pace import MeasurePace

_LARGEST_PART: Final = 1 / 20
"""The reserve is at most this part of the disk, so that small disks can be used."""
_LAST: Final = 8
"""Nothing is started below one part in so many of the reserve."""
_WORTH: Final = 16
"""An instance is ended if it holds at least one part in so many of what is free, and at least `_LEAST`."""
_LEAST: Final = {"bytes": 16 << 20, "files": 1000}
_MINUTE: Final = 60
_BLOCK: Final = 512

K = TypeVar("K")


class Room(Struct, frozen=True):
    """The room of a disk in one unit."""

    unit: str
    """`bytes` or `files`."""
    free: int
    whole: int
    reserve: int
    lost: int = 0
    """Room that went within the last minute."""


class Amount(Struct, frozen=True):
    """Room that files take."""

    bytes: int = 0
    files: int = 0
    is_hidden: bool = False
    """Not all of it can be counted: the program closed folders to the server, or made them too deep."""

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.bytes + other.bytes, self.files + other.files, self.is_hidden or other.is_hidden)

    def size(self, room: Room) -> int:
        if self.is_hidden:
            return room.whole - room.free
        return self.bytes if room.unit == "bytes" else self.files


class DiskShare(Struct, frozen=True):
    """The part of the disk that an instance holds."""

    own: Amount
    """In its own folders, which are erased when it is ended."""
    changed: Amount
    """Files in its volumes that changed in the last minute. They stay when it is ended."""

    def size(self, room: Room) -> int:
        """Returns what counts. A database that has always been large changes files, too: no more counts than
        the disk has lost meanwhile; and half of that, because its end gives nothing back."""
        return self.own.size(room) + min(self.changed.size(room), room.lost) // 2


def rooms(folder: Path, wanted: int) -> list[Room]:
    """Returns the room of the disk of a folder, with a reserve of so many bytes, and as large a part of its
    files. Some file systems do not count files."""
    facts = os.statvfs(folder)
    whole = facts.f_blocks * facts.f_frsize
    part = min(wanted / whole, _LARGEST_PART) if whole else 0.0
    counted = [("bytes", facts.f_bavail * facts.f_frsize, whole), ("files", facts.f_favail, facts.f_files)]
    return [Room(unit, free, whole, int(whole * part)) for unit, free, whole in counted if whole]


def has_room_to_start(folder: Path, wanted: int) -> bool:
    return all(room.free >= room.reserve // _LAST for room in rooms(folder, wanted))


def is_short(folder: Path, wanted: int) -> bool:
    return any(room.free < room.reserve for room in rooms(folder, wanted))


class DiskWatch:
    """Looks at the room of a disk every second, and says when to measure what instances hold of it."""

    def __init__(self, folder: Path, wanted: int) -> None:
        self._folder, self._wanted = folder, wanted
        self._pace = MeasurePace()
        self._seen: deque[dict[str, int]] = deque(maxlen=_MINUTE)

    def shortage(self) -> Room | None:
        """Returns the room that is smaller than its reserve; None if there is enough."""
        present = rooms(self._folder, self._wanted)
        self._seen.append({room.unit: room.free for room in present})
        for room in present:
            if room.free < room.reserve:
                most = max(seen.get(room.unit, 0) for seen in self._seen)
                return Room(room.unit, room.free, room.whole, room.reserve, most - room.free)
        return None

    def is_due(self, room: Room) -> bool:
        return self._pace.is_due(room.free)

    def postpone(self, room: Room, took: float) -> None:
        self._pace.postpone(room.free, took)


def heaviest(room: Room, uses: Mapping[K, DiskShare]) -> K | None:
    """Returns the instance to be ended. None if none holds enough: then something else has filled the disk,
    and ends of instances would not help."""
    least = max(_LEAST[room.unit], room.free // _WORTH)
    sizes = {key: use.size(room) for key, use in uses.items()}
    key = max(sizes, key=lambda key: sizes[key], default=None)
    return key if key is not None and sizes[key] >= least else None


def measure(places: Iterable[Path], since: float = 0) -> Amount:
    """Measures files, and those below folders, that changed after this second. Follows no links."""
    size = files = 0
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
                        if facts.st_ctime >= since:
                            size += facts.st_blocks * _BLOCK
                            files += 1
        except FileNotFoundError:
            continue
        except NotADirectoryError:
            with suppress(OSError):
                facts = os.lstat(place)
                if facts.st_ctime >= since:
                    size += facts.st_blocks * _BLOCK
                    files += 1
        except OSError:
            is_hidden = True
    return Amount(size, files, is_hidden)


def unlinked(pids: Collection[int], folder: Path) -> Amount:
    """Measures files on the disk of this folder that have no name any more, and that these processes have
    open, or in their memory: the kernel tells the latter to root alone."""
    device = folder.stat().st_dev
    sizes: dict[int, int] = {}
    for held in (f"/proc/{pid}/{kind}" for pid in pids for kind in ("fd", "map_files")):
        with suppress(OSError), os.scandir(held) as entries:
            for entry in entries:
                with suppress(OSError):
                    facts = entry.stat()
                    if facts.st_dev == device and facts.st_nlink == 0 and stat.S_ISREG(facts.st_mode):
                        sizes[facts.st_ino] = facts.st_blocks * _BLOCK
    return Amount(sum(sizes.values()), len(sizes))
