"""Measures the kernel memory of the sockets and pipes of processes. Only control groups account for this
memory; it is not part of any process's memory."""

from __future__ import annotations

import array
import fcntl
import os
import socket
import termios
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from windlass.base.live_thread import OWN_PROCESS, copy_of_file, live_thread, open_numbers, open_thread

_SO_MEMINFO: Final = 55
_RECEIVED, _SENT, _QUEUED, _BACKLOG = 0, 2, 5, 7
"""The indexes of the needed values in the result of SO_MEMINFO, which has nine values."""
_PIPE_BYTES: Final = 64 << 10
_SEND_BUFFER: Final = 212_992

Measure = Callable[[int, int], int]


class KernelBuffers(Struct, frozen=True):
    sockets: int = 0
    pipes: int = 0
    bytes: int = 0


def held_by(pids: Collection[int]) -> KernelBuffers:
    """Measures the sockets and pipes that these processes have open, without counting one twice.

    A socket or pipe that cannot be inspected counts with its default size. A socket with unread data counts
    with at least this size, because its sender may have closed its end. Sockets and pipes inside socket
    messages are not seen.
    """
    sockets: dict[str, int] = {}
    pipes: dict[str, int] = {}
    default = _default_buffer()
    for pid in pids:
        with suppress(OSError):
            thread = live_thread(pid)
            process = open_thread(pid, thread)
            try:
                for copy, link in _open_files(pid, process):
                    if link.startswith("socket:") and link not in sockets:
                        sockets[link] = _measure_copy(copy, _socket_bytes, default)
                    elif link.startswith("pipe:") and link not in pipes:
                        pipes[link] = _measure_copy(copy, _pipe_bytes, _PIPE_BYTES)
            finally:
                os.close(process)
    return KernelBuffers(len(sockets), len(pipes), sum(sockets.values()) + sum(pipes.values()))


def _open_files(pid: int, process: int) -> Iterator[tuple[Callable[[], int], str]]:
    """Yields, for each open file, a function that copies its descriptor, and the link in /proc."""
    for folder, number in open_numbers(pid):
        with suppress(OSError):
            link = os.readlink(f"{folder}/fd/{number}")  # noqa: PTH115 (of thousands)
            yield (
                partial(os.dup, number) if folder == OWN_PROCESS else partial(copy_of_file, process, number),
                link,
            )


def _measure_copy(make_copy: Callable[[], int], measure: Measure, default: int) -> int:
    try:
        copy = make_copy()
    except OSError:
        return default
    try:
        return measure(copy, default)
    except OSError:  # the program has closed the file meanwhile
        return default
    finally:
        os.close(copy)


def _socket_bytes(descriptor: int, default: int) -> int:
    asked = socket.socket(fileno=os.dup(descriptor))
    with asked:
        numbers = array.array("I", asked.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 36))
    held = numbers[_RECEIVED] + max(numbers[_SENT], numbers[_QUEUED]) + numbers[_BACKLOG]
    if held:
        return held
    # Data in a Unix socket is charged to its sender only.
    return max(readable, default) if (readable := _readable_bytes(descriptor)) else 0


def _pipe_bytes(descriptor: int, default: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ) if _readable_bytes(descriptor) else 0


def _readable_bytes(descriptor: int) -> int:
    count = array.array("i", [0])
    with suppress(OSError):  # a listening socket has no data
        fcntl.ioctl(descriptor, termios.FIONREAD, count)
    return count[0]


def _default_buffer() -> int:
    with suppress(OSError, ValueError):
        return int(Path("/proc/sys/net/core/wmem_default").read_text())
    return _SEND_BUFFER
