"""Finds deleted files that processes still use: open, executed, mapped, or in messages that wait in their
sockets."""

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
    """Yields the facts of each file; several times, if it is held several times. The kernel shows files that
    are only in memory to root alone. May raise UnseenFiles."""
    for pid in pids:
        for path in _paths(pid):
            with suppress(OSError):
                # Others are not touched: they may be on a disk that hangs.
                if os.readlink(path).endswith(_DELETED):  # noqa: PTH115 (of thousands)
                    facts = os.stat(path)  # noqa: PTH116 (likewise)
                    if not facts.st_nlink:
                        yield facts
    for facts in files_in_messages(pids):
        if not facts.st_nlink:
            yield facts


def mapped_files(pids: Collection[int]) -> set[tuple[int, int]]:
    """Returns the files without a name in the memory of these processes, each by device and inode. Those that
    `unnamed_files` does not yield are mapped and closed, and only root sees how large they are."""
    return {file for pid in pids for file in _mapped(live_thread(pid))}


def _mapped(process: int) -> Iterator[tuple[int, int]]:
    with suppress(OSError), open(f"/proc/{process}/maps", "rb") as file:  # noqa: PTH123 (of thousands)
        for line in file:
            if line.endswith(_DELETED_LINE):
                device, inode = line.split(b" ", 5)[3:5]
                major, minor = device.split(b":")
                yield os.makedev(int(major, 16), int(minor, 16)), int(inode)


def _paths(pid: int) -> Iterator[str]:
    process = f"/proc/{live_thread(pid)}"
    yield f"{process}/exe"
    for folder, number in open_numbers(pid):
        yield f"{folder}/fd/{number}"
    with suppress(OSError):
        for name in os.listdir(f"{process}/map_files"):  # noqa: PTH208 (names, not paths)
            yield f"{process}/map_files/{name}"
