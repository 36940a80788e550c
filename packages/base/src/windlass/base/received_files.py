"""Receives file descriptors over a socket so that child processes do not inherit them.

It replaces `socket.recv_fds`, which ignores its flags in Python 3.11.
"""

from __future__ import annotations

import array
import socket
from typing import Final

_SIZE: Final = array.array("i").itemsize


def receive_files(connection: socket.socket, most_bytes: int, most_files: int) -> tuple[bytes, list[int]]:
    """Receives a message with its file descriptors. Raises the exceptions of `recvmsg`."""
    space = socket.CMSG_LEN(most_files * _SIZE)
    body, ancillary, _, _ = connection.recvmsg(most_bytes, space, socket.MSG_CMSG_CLOEXEC)
    files = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files.frombytes(data[: len(data) - len(data) % _SIZE])
    return body, [*files]
