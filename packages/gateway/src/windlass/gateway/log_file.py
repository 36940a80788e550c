"""The log of a gateway, which is rotated while the gateway runs.

The gateway writes to standard error, which the server has opened for it. A relieved gateway and its successor
write to the same file: if one rotates it, the other one reopens it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

LARGEST: Final = 10 * 1024 * 1024
"""Bytes of a log. There are at most two: the present one and the one before."""
_OUTPUTS: Final = (1, 2)
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


def open_log(path: Path) -> int:
    """Opens the log. Rotates it first if it is long."""
    rotate(path)
    return os.open(path, _FLAGS, 0o600)


def rotate(path: Path) -> None:
    """Renames a long log, and so replaces the previous one."""
    with suppress(FileNotFoundError):
        if path.stat().st_size > LARGEST:
            path.replace(path.with_name(f"{path.name}.1"))


class LogFile:
    """The log as the standard outputs of this process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_log = self._is_open()
        """False if the gateway was started by hand, with other outputs."""

    def look(self) -> None:
        """Rotates the log if it is long, and reopens it if it was rotated."""
        if not self._is_log:
            return
        rotate(self._path)
        if self._is_open():
            return
        with suppress(OSError):  # the folder has gone, or the disk is full: the old file stays open
            file = os.open(self._path, _FLAGS, 0o600)
            for output in _OUTPUTS:
                os.dup2(file, output)
            os.close(file)

    def _is_open(self) -> bool:
        """True if standard error is the file at this path."""
        with suppress(OSError):
            return os.path.samestat(os.fstat(2), self._path.stat())
        return False
