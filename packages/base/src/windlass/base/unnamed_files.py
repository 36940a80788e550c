"""Finds the unnamed files of processes, such as deleted files: open files, mapped files, executables, and
files in socket messages."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Final

from windlass.base.live_thread import live_thread, open_numbers
from windlass.base.message_files import files_in_messages

_DELETED: Final = " (deleted)"
_DELETED_LINE: Final = b" (deleted)\n"


def unnamed_files(pids: Collection[int]) -> Iterator[os.stat_result]:
    """Yields the `stat` results of unnamed files, without removing duplicates. May raise UnseenFiles.

    The kernel shows files that are mapped and closed to root only.
    """
    for pid in pids:
        for path in _open_file_paths(pid):
            with suppress(OSError):
                # Other files are not accessed, because they may be on a disk that hangs.
                if os.readlink(path).endswith(_DELETED):  # noqa: PTH115 (of thousands)
                    facts = os.stat(path)  # noqa: PTH116 (likewise)
                    if not facts.st_nlink:
                        yield facts
    for facts in files_in_messages(pids):
        if not facts.st_nlink:
            yield facts


def mapped_files(pids: Collection[int]) -> set[tuple[int, int]]:
    """Returns the device and inode of each unnamed file that these processes have mapped.

    Files that `unnamed_files` does not yield are mapped and closed; only root can read their size.
    """
    return {file for pid in pids for file in _mapped_unnamed(live_thread(pid))}


def _mapped_unnamed(process: int) -> Iterator[tuple[int, int]]:
    with suppress(OSError), open(f"/proc/{process}/maps", "rb") as file:  # noqa: PTH123 (of thousands)
        for line in file:
            if line.endswith(_DELETED_LINE):
                device, inode = line.split(b" ", 5)[3:5]
                major, minor = device.split(b":")
                yield os.makedev(int(major, 16), int(minor, 16)), int(inode)


def _open_file_paths(pid: int) -> Iterator[str]:
    process = f"/proc/{live_thread(pid)}"
    yield f"{process}/exe"
    for folder, number in open_numbers(pid):
        yield f"{folder}/fd/{number}"
    with suppress(OSError):
        for name in os.listdir(f"{process}/map_files"):  # noqa: PTH208 (names, not paths)
            yield f"{process}/map_files/{name}"
