"""Protects the secrets of this process from other programs on the same machine."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

_PR_SET_DUMPABLE: Final = 4
_ENV_START, _ENV_END = 49, 50
"""The indexes of the fields in /proc/self/stat."""

libc: Final = ctypes.CDLL(None, use_errno=True)


def refuse_dumps() -> None:
    """Prevents other processes of the same user from reading this process's memory and environment.

    A crash does not leave a core file either.
    """
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def wipe_variables(names: Collection[str]) -> None:
    """Overwrites environment variables in the memory that the kernel shows as /proc/<pid>/environ.

    Removing a variable from `os.environ` does not change that memory. Remove the variables there first,
    because nothing may refer to the memory afterwards.
    """
    start, end = _environment_block()
    encoded_names = {os.fsencode(name) for name in names}
    at = start
    for word in ctypes.string_at(start, end - start).split(b"\0"):
        if word.partition(b"=")[0] in encoded_names:
            ctypes.memset(at, 0, len(word))
        at += len(word) + 1


def _environment_block() -> tuple[int, int]:
    """Returns the address range of this process's initial environment."""
    line = Path("/proc/self/stat").read_bytes()
    # The second field is the program name, which may contain blanks and parentheses.
    words = [b"", b"", *line[line.rindex(b")") + 2 :].split()]
    return int(words[_ENV_START]), int(words[_ENV_END])
