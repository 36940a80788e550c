"""Watches files for writes with inotify. Each watch notifies once and then has to be set again."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from typing import Final

from windlass.base import kernel

_MODIFIED: Final = 0x2
_ONCE: Final = 0x80000000
_OVERFLOWN: Final = 0x4000
_EVENT: Final = struct.Struct("iIII")


class Inotify:
    """`fd` is None if the kernel has no inotify instance left: then files must be polled."""

    def __init__(self) -> None:
        self.fd: int | None = None

    def open(self) -> None:
        fd = kernel.libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.fd = fd if fd >= 0 else None

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def watch(self, path: Path) -> int:
        """Returns the number of the watch, or -1 if there can be none."""
        if self.fd is None:
            return -1
        once = ctypes.c_uint32(_MODIFIED | _ONCE)
        return int(kernel.libc.inotify_add_watch(self.fd, os.fsencode(path), once))

    def ready(self) -> tuple[set[int], bool]:
        """Returns the watches whose files were written to, and True if notifications were lost."""
        assert self.fd is not None
        try:
            raw = os.read(self.fd, 64 * 1024)
        except BlockingIOError:
            return set(), False
        numbers, overflown, at = set(), False, 0
        while at < len(raw):
            number, mask, _, length = _EVENT.unpack_from(raw, at)
            overflown |= bool(mask & _OVERFLOWN)
            if mask & _MODIFIED:
                numbers.add(number)
            at += _EVENT.size + length
        return numbers, overflown
