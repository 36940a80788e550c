"""Reads which open files wait in messages of Unix sockets (SCM_RIGHTS). No process has them open, and /proc
shows only how many there are.

Each message is copied and stays where it is (MSG_PEEK). The program shares the position from which one
copies, and may change it at any time. Some files cannot be copied at all, such as those that were sent to a
connection before the program accepted it. So what was copied is compared with that count.
"""

from __future__ import annotations

import array
import os
import re
import socket
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from windlass.base.live_thread import OURS, copy_of_file, live_thread, open_numbers, open_thread

_SO_PEEK_OFF: Final = 42
_SCM_PIDFD: Final = 4
"""Brings a descriptor of the process that sent a message, if the program asked for it."""
_COUNT: Final = re.compile(rb"^scm_fds:\s*(\d+)", re.MULTILINE)
_ROOM: Final = 16 << 10
"""Bytes for what comes with a message: at most 253 files, a process, credentials, and a security label."""
_DATA: Final = 1 << 20
"""Bytes of a message. The usual buffers of a socket hold less than half of that."""
_MOST_MESSAGES: Final = 10_000
"""Maximum number of messages of a socket that are read. The default buffers hold about 600."""
_MOST_SOCKETS: Final = 500
"""Maximum number of sockets from messages that are held open at the same time."""
_TRIES: Final = 20
"""Failed attempts, of all sockets together. A program that reads and sends meanwhile disturbs some."""
_PAUSE: Final = 0.02


class UnseenFiles(Exception):
    """Raised if some of the files that wait in messages could not be read."""


class _Disturbed(Exception):
    pass


def files_in_messages(pids: Collection[int]) -> Iterator[os.stat_result]:
    """Yields the facts of each file in a message that waits in a socket of these processes, also in sockets
    that are in messages themselves. May raise UnseenFiles."""
    seen: set[int] = set()
    tries = iter(range(_TRIES))
    for pid in pids:
        for copy in _sockets(pid, seen):
            waiting = [copy]
            try:
                while waiting:
                    yield from _files_in_messages(waiting, seen, tries)
            finally:
                for copy in waiting:
                    os.close(copy)


def _sockets(pid: int, seen: set[int]) -> Iterator[int]:
    """Yields a copy of each socket of a process in which files wait."""
    with suppress(OSError):
        thread = live_thread(pid)
        process = open_thread(pid, thread)
        try:
            for folder, number in open_numbers(pid):
                with suppress(OSError):
                    link = os.readlink(f"{folder}/fd/{number}")  # noqa: PTH115 (of thousands)
                    if not link.startswith("socket:[") or (inode := int(link[8:-1])) in seen:
                        continue
                    seen.add(inode)
                    if _count(f"{folder}/fdinfo/{number}"):
                        yield os.dup(number) if folder == OURS else copy_of_file(process, number)
        finally:
            os.close(process)


def _files_in_messages(waiting: list[int], seen: set[int], tries: Iterator[int]) -> Iterator[os.stat_result]:
    """Closes one of the waiting sockets, and yields the `stat` results of the files in its messages. Those
    that are sockets with files wait, too."""
    with socket.socket(fileno=waiting.pop()) as sock:
        while True:
            try:
                for file in _peek_all(sock):
                    facts = os.fstat(file)
                    if stat.S_ISSOCK(facts.st_mode) and facts.st_ino not in seen and _count_own(file):
                        if len(waiting) == _MOST_SOCKETS:
                            raise UnseenFiles
                        seen.add(facts.st_ino)
                        waiting.append(os.dup(file))
                    yield facts
                return
            except _Disturbed:
                if next(tries, None) is None:
                    raise UnseenFiles from None
            time.sleep(_PAUSE)


def _peek_all(sock: socket.socket) -> Iterator[int]:
    """Yields a descriptor of each file that waits in this socket; those of a message are closed before the
    next message. Where the program itself peeks from is the same afterwards. May raise _Disturbed."""
    try:
        before, found = _position(sock), 0
        _move(sock, 0)
        try:
            for _ in range(_MOST_MESSAGES):
                at = _position(sock)
                with _peek(sock) as (length, files):
                    yield from files
                found += len(files)
                if length == _DATA or _position(sock) != at + length:
                    raise _Disturbed
                if not length and not files:
                    break
            if found < _count_own(sock.fileno()):
                raise _Disturbed
        finally:
            _move(sock, before)
    except OSError as error:
        raise _Disturbed from error


@contextmanager
def _peek(sock: socket.socket) -> Iterator[tuple[int, list[int]]]:
    """Yields the length of the next message, and descriptors of its files; 0 and nothing if there is none."""
    flags = socket.MSG_PEEK | socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
    try:
        data, parts, marks, _ = sock.recvmsg(_DATA, _ROOM, flags)
    except BlockingIOError:
        yield 0, []
        return
    files, senders = _descriptors(parts, socket.SCM_RIGHTS), _descriptors(parts, _SCM_PIDFD)
    try:
        if marks & socket.MSG_CTRUNC:
            raise _Disturbed
        yield len(data), files
    finally:
        for file in (*files, *senders):
            os.close(file)


def _descriptors(parts: Iterable[tuple[int, int, bytes]], kind: int) -> list[int]:
    numbers = array.array("i")
    for level, of, content in parts:
        if (level, of) == (socket.SOL_SOCKET, kind):
            numbers.frombytes(content[: len(content) // numbers.itemsize * numbers.itemsize])
    return [number for number in numbers if number >= 0]  # a sender may have ended


def _position(sock: socket.socket) -> int:
    return sock.getsockopt(socket.SOL_SOCKET, _SO_PEEK_OFF)


def _move(sock: socket.socket, position: int) -> None:
    sock.setsockopt(socket.SOL_SOCKET, _SO_PEEK_OFF, position)


def _count_own(file: int) -> int:
    return _count(f"/proc/self/fdinfo/{file}")


def _count(facts: str) -> int:
    """Returns how many files wait in a socket; 0 for anything else."""
    found = _COUNT.search(Path(facts).read_bytes())
    return int(found[1]) if found else 0
