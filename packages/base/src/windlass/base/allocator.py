"""Settings of the C library's memory allocator (glibc). Other C libraries do not have these settings."""

from __future__ import annotations

import ctypes
from typing import Final

_TRIM_THRESHOLD, _ARENA_MAX = -1, -8
"""Parameters of `mallopt`."""
_UNUSED: Final = 1 << 20
"""Bytes of unused memory at the end of the heap that a process keeps. Without a setting, glibc keeps twice
the size of the largest block that was ever released, which may be 64 MB."""

_libc: Final = ctypes.CDLL(None)


def share_arena() -> None:
    """Makes all threads allocate from the same arena. Call it before the first thread is started.

    Otherwise each thread has an arena of its own, and keeps what it has released there: after a burst of
    deployments, a server keeps megabytes for each of its worker threads.
    """
    if hasattr(_libc, "mallopt"):
        _libc.mallopt(_ARENA_MAX, 1)
        _libc.mallopt(_TRIM_THRESHOLD, _UNUSED)


def release_unused() -> None:
    """Returns unused memory to the system, including pages between blocks that are in use."""
    if hasattr(_libc, "malloc_trim"):
        _libc.malloc_trim(ctypes.c_size_t(0))
