"""Receives file descriptors that programs which this process starts do not inherit.

`socket.recv_fds` of Python 3.11 ignores its flags.
"""

from __future__ import annotations

import array
import socket
from typing import Final

_SIZE: Final = array.array("i").itemsize


def receive_files(connection: socket.socket, most_bytes: int, most_files: int) -> tuple[bytes, list[int]]:
    """Returns a message and its file descriptors. Raises what `recvmsg` raises."""
    space = socket.CMSG_LEN(most_files * _SIZE)
    body, ancillary, _, _ = connection.recvmsg(most_bytes, space, socket.MSG_CMSG_CLOEXEC)
    files = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            files.frombytes(data[: len(data) - len(data) % _SIZE])
    return body, [*files]
