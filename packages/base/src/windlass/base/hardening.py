"""Keeps the secrets of this process from other programs of the same machine."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

_PR_SET_DUMPABLE: Final = 4
_ENV_START, _ENV_END = 49, 50
"""Fields of /proc/self/stat, counted from 0."""

libc: Final = ctypes.CDLL(None, use_errno=True)


def refuse_dumps() -> None:
    """Keeps other processes of the same user from reading memory and environment of this one.

    A crash leaves no core file, either.
    """
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def wipe_variables(names: Collection[str]) -> None:
    """Overwrites these variables where the kernel shows them as /proc/<pid>/environ.

    Removing them from `os.environ` does not change that memory. Remove them there first: nothing may refer to
    the memory afterwards.
    """
    start, end = _block()
    encoded_names = {os.fsencode(name) for name in names}
    at = start
    for word in ctypes.string_at(start, end - start).split(b"\0"):
        if word.partition(b"=")[0] in encoded_names:
            ctypes.memset(at, 0, len(word))
        at += len(word) + 1


def _block() -> tuple[int, int]:
    """Returns the address range of the environment that this process was started with."""
    line = Path("/proc/self/stat").read_bytes()
    # The program name is the second field and may contain blanks and parentheses.
    words = [b"", b"", *line[line.rindex(b")") + 2 :].split()]
    return int(words[_ENV_START]), int(words[_ENV_END])
