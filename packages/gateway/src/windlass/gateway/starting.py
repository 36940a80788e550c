"""Starts a gateway as a process that outlives the server which started it."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from windlass.gateway.files import CONTROL, LOG, connect_to
from windlass.gateway.log_file import open_log


def start_gateway(folder: Path) -> int:
    """Returns the process id. The new gateway relieves one that runs in this folder.

    It gets no environment variable of this server, because these contain secrets."""
    output = open_log(folder / LOG)
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "windlass.gateway", str(folder)],
            {"LANG": "C.UTF-8"},
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
    """Starts a gateway unless one runs in this folder. Returns its process id, or 0."""
    if connection := connect_to(folder / CONTROL, socket.SOCK_STREAM):
        connection.close()
        return 0
    return start_gateway(folder)


def has_ended(process: int) -> bool:
    """Returns whether this child has ended, and reaps it."""
    try:
        return os.waitpid(process, os.WNOHANG)[0] == process
    except ChildProcessError:
        return True
