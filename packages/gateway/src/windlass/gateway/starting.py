"""Starts a gateway as a process that outlives its server, and rotates its log."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from windlass.gateway.files import CONTROL, LOG, connect_to

MAX_LOG_BYTES: Final = 10 * 1024 * 1024
"""Size in bytes above which the log is rotated. One rotated log is kept."""
GATEWAY_ENVIRONMENT: Final = {
    "LANG": "C.UTF-8",
    # A large buffer is given back to the kernel as soon as it is free. Pieces of static files (PIECE) are
    # smaller.
    "MALLOC_MMAP_THRESHOLD_": str(224 * 1024),
    # Otherwise, the heap would be trimmed and extended again for many a request.
    "MALLOC_TRIM_THRESHOLD_": str(16 * 1024 * 1024),
}
_OUTPUT_DESCRIPTORS: Final = (1, 2)
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


def open_log(path: Path) -> int:
    """Opens the log, after rotating it if it is too large."""
    rotate(path)
    return os.open(path, _FLAGS, 0o600)


def rotate(path: Path) -> None:
    """Renames the log if it is too large. This overwrites the previously rotated log."""
    with suppress(FileNotFoundError):
        if path.stat().st_size > MAX_LOG_BYTES:
            path.replace(path.with_name(f"{path.name}.1"))


class LogFile:
    """The log file to which standard output and standard error of this process are redirected."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_log = self._is_open()
        """Whether standard error is the log. It is not if the gateway was started manually."""

    def look(self) -> None:
        """Rotates the log if it is too large, and reopens the log after a rotation."""
        if not self._is_log:
            return
        rotate(self._path)
        if self._is_open():
            return
        with suppress(OSError):  # the folder is gone, or the disk is full: the old file stays open
            file = os.open(self._path, _FLAGS, 0o600)
            for output in _OUTPUT_DESCRIPTORS:
                os.dup2(file, output)
            os.close(file)

    def _is_open(self) -> bool:
        """Returns whether standard error is the log file."""
        with suppress(OSError):
            return os.path.samestat(os.fstat(2), self._path.stat())
        return False


def start_gateway(folder: Path) -> int:
    """Starts a gateway and returns its process id. The new gateway takes over from the running gateway of
    this folder.

    The process does not inherit the environment variables of the server, because they contain secrets."""
    output = open_log(folder / LOG)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "windlass.gateway", str(folder)],
            GATEWAY_ENVIRONMENT,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, nothing, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
        )
    finally:
        os.close(output)
        os.close(nothing)


def start_missing_gateway(folder: Path) -> int:
    """Starts a gateway unless a gateway runs in this folder. Returns the process id of the new gateway, or
    0."""
    if connection := connect_to(folder, CONTROL, socket.SOCK_STREAM):
        connection.close()
        return 0
    return start_gateway(folder)


def has_ended(process: int) -> bool:
    """Returns whether a child process has exited, and reaps it."""
    try:
        return os.waitpid(process, os.WNOHANG)[0] == process
    except ChildProcessError:
        return True
