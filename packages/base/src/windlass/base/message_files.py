"""Reads which open files wait in messages of Unix sockets (SCM_RIGHTS). No process has them open, and /proc
tells only how many there are.

Each message is copied and stays where it is (MSG_PEEK). Messages that were sent to a connection before the
program accepted it are not seen, and neither are empty ones behind others.
"""

from __future__ import annotations

import array
import os
import re
import socket
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from windlass.base.living_thread import copy_of_file, living_thread, open_thread

_SO_PEEK_OFF: Final = 42
_HAVE_FILES: Final = re.compile(rb"^scm_fds:\s*[1-9]", re.MULTILINE)
_MOST_IN_MESSAGE: Final = 253
_DATA: Final = 64 << 10
_MOST_SOCKETS: Final = 500
"""Sockets inside of messages that are held open at a time."""


def files_in_messages(pids: Collection[int]) -> Iterator[os.stat_result]:
    """Yields the facts of each file in a message that waits in a socket of these processes, also in sockets
    that are in messages themselves."""
    seen: set[int] = set()
    waiting = [copy for pid in pids for copy in _sockets(pid, seen)]
    try:
        while waiting:
            copy = waiting.pop()
            for file in _peek_all(copy):
                facts = os.fstat(file)
                if stat.S_ISSOCK(facts.st_mode) and facts.st_ino not in seen and len(waiting) < _MOST_SOCKETS:
                    seen.add(facts.st_ino)
                    waiting.append(file)
                    continue
                os.close(file)
                yield facts
    finally:
        for copy in waiting:
            os.close(copy)


def _sockets(pid: int, seen: set[int]) -> Iterator[int]:
    """Yields a copy of each socket of a process in which files wait."""
    with suppress(OSError):
        thread = living_thread(pid)
        process = open_thread(pid, thread)
        try:
            for name in os.listdir(f"/proc/{thread}/fd"):  # noqa: PTH208 (names, not paths)
                with suppress(OSError):
                    link = os.readlink(f"/proc/{thread}/fd/{name}")  # noqa: PTH115 (of thousands)
                    if not link.startswith("socket:[") or (number := int(link[8:-1])) in seen:
                        continue
                    seen.add(number)
                    if _HAVE_FILES.search(Path(f"/proc/{thread}/fdinfo/{name}").read_bytes()):
                        yield copy_of_file(process, int(name))
        finally:
            os.close(process)


def _peek_all(copy: int) -> Iterator[int]:
    """Yields a descriptor of each file that waits in this socket, and closes the socket. Where the program
    itself peeks from is the same afterwards."""
    space = socket.CMSG_SPACE(_MOST_IN_MESSAGE * array.array("i").itemsize)
    flags = socket.MSG_PEEK | socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
    with socket.socket(fileno=copy) as sock, suppress(OSError):
        before = sock.getsockopt(socket.SOL_SOCKET, _SO_PEEK_OFF)
        sock.setsockopt(socket.SOL_SOCKET, _SO_PEEK_OFF, 0)
        try:
            while True:
                data, parts, _, _ = sock.recvmsg(_DATA, space, flags)
                files = array.array("i")
                for level, kind, content in parts:
                    if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                        files.frombytes(content[: len(content) // files.itemsize * files.itemsize])
                yield from files
                if not data and not parts:
                    return
        finally:
            sock.setsockopt(socket.SOL_SOCKET, _SO_PEEK_OFF, before)
