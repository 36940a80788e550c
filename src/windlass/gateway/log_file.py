"""The log of a gateway: a file that is exchanged when it is long, also while the gateway runs.

The gateway writes to standard error, which the server has opened for it. A relieved gateway and its successor
write to the same file: either may exchange it, and the other one follows.
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
    """Opens the log, after another one if that is long."""
    exchange(path)
    return os.open(path, _FLAGS, 0o600)


def exchange(path: Path) -> None:
    """Sets a long log aside, in place of the one before."""
    with suppress(FileNotFoundError):
        if path.stat().st_size > LARGEST:
            path.replace(path.with_name(f"{path.name}.1"))


class LogFile:
    """The standard outputs of this process, as far as they are the log."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_log = self._is_open()
        """False where a person started the gateway with other outputs."""

    def look(self) -> None:
        """Sets the log aside if it is long, and goes on in the present one."""
        if not self._is_log:
            return
        exchange(self._path)
        if self._is_open():
            return
        with suppress(OSError):  # the folder has gone, or the disk is full: the log goes on where it is
            file = os.open(self._path, _FLAGS, 0o600)
            for output in _OUTPUTS:
                os.dup2(file, output)
            os.close(file)

    def _is_open(self) -> bool:
        """True if standard error is the file at this path."""
        with suppress(OSError):
            return os.path.samestat(os.fstat(2), self._path.stat())
        return False
