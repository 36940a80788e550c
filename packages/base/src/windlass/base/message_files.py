"""Finds open files that wait in messages of Unix sockets (SCM_RIGHTS). No process has these files open, and
/proc shows only their number.

Each message is copied and stays in its socket (MSG_PEEK). The program shares the peek offset and may change
it at any time. Some files cannot be copied at all, such as files that were sent to a connection before the
program accepted it. Therefore the number of copied files is compared with the number in /proc.
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

from windlass.base.live_thread import OWN_PROCESS, copy_of_file, live_thread, open_numbers, open_thread

_SO_PEEK_OFF: Final = 42
_SCM_PIDFD: Final = 4
"""The type of a control message with a pidfd of the sender, which a program may request."""
_COUNT_PATTERN: Final = re.compile(rb"^scm_fds:\s*(\d+)", re.MULTILINE)
_CONTROL_BUFFER_BYTES: Final = 16 << 10
"""The buffer size for control data: at most 253 files, a pidfd, credentials and a security label."""
_DATA_BUFFER_BYTES: Final = 1 << 20
"""The buffer size for a message's data. The default socket buffers are smaller than half of it."""
_MAX_MESSAGES: Final = 10_000
"""The maximum number of messages read from a socket. The default socket buffers have room for some 600."""
_MAX_SOCKETS: Final = 500
"""The maximum number of open copies of sockets that were found inside messages."""
_MAX_FAILED_ATTEMPTS: Final = 20
"""The maximum number of failed attempts for all sockets. Programs that use a socket disturb its copying."""
_RETRY_PAUSE: Final = 0.02


class UnseenFiles(Exception):
    """Some files that wait in messages could not be read."""


class _Disturbed(Exception):
    pass


def files_in_messages(pids: Collection[int]) -> Iterator[os.stat_result]:
    """Yields the `stat` results of files that wait in messages of these processes' sockets.

    Includes files in the messages of sockets that are themselves inside messages. May raise UnseenFiles.
    """
    seen: set[int] = set()
    tries = iter(range(_MAX_FAILED_ATTEMPTS))
    for pid in pids:
        for copy in _sockets(pid, seen):
            waiting = [copy]
            try:
                while waiting:
                    yield from _files_in_messages(waiting, seen, tries)
            finally:
                for copy in waiting:
                    os.close(copy)


def _sockets(pid: int, seen_inodes: set[int]) -> Iterator[int]:
    """Yields a copy of each socket of a process, if files wait in the socket."""
    with suppress(OSError):
        thread = live_thread(pid)
        process = open_thread(pid, thread)
        try:
            for folder, number in open_numbers(pid):
                with suppress(OSError):
                    link = os.readlink(f"{folder}/fd/{number}")  # noqa: PTH115 (of thousands)
                    if not link.startswith("socket:[") or (inode := int(link[8:-1])) in seen_inodes:
                        continue
                    seen_inodes.add(inode)
                    if _count(f"{folder}/fdinfo/{number}"):
                        yield os.dup(number) if folder == OWN_PROCESS else copy_of_file(process, number)
        finally:
            os.close(process)


def _files_in_messages(
    waiting_fds: list[int], seen_inodes: set[int], remaining_tries: Iterator[int]
) -> Iterator[os.stat_result]:
    """Yields the `stat` results of the files in the messages of the last socket in `waiting_fds`, and closes
    it.

    Adds sockets that are inside these messages and have waiting files to `waiting_fds`.
    """
    with socket.socket(fileno=waiting_fds.pop()) as sock:
        while True:
            try:
                for file in _peek_all(sock):
                    facts = os.fstat(file)
                    if stat.S_ISSOCK(facts.st_mode) and facts.st_ino not in seen_inodes and _count_own(file):
                        if len(waiting_fds) == _MAX_SOCKETS:
                            raise UnseenFiles
                        seen_inodes.add(facts.st_ino)
                        waiting_fds.append(os.dup(file))
                    yield facts
                return
            except _Disturbed:
                if next(remaining_tries, None) is None:
                    raise UnseenFiles from None
            time.sleep(_RETRY_PAUSE)


def _peek_all(sock: socket.socket) -> Iterator[int]:
    """Yields a descriptor of each file that waits in a socket. May raise _Disturbed.

    Closes the descriptors of a message before the next message. Restores the program's peek offset.
    """
    try:
        before, found = _peek_offset(sock), 0
        _set_peek_offset(sock, 0)
        try:
            for _ in range(_MAX_MESSAGES):
                at = _peek_offset(sock)
                with _peek_message(sock) as (length, files):
                    yield from files
                found += len(files)
                if length == _DATA_BUFFER_BYTES or _peek_offset(sock) != at + length:
                    raise _Disturbed
                if not length and not files:
                    break
            if found < _count_own(sock.fileno()):
                raise _Disturbed
        finally:
            _set_peek_offset(sock, before)
    except OSError as error:
        raise _Disturbed from error


@contextmanager
def _peek_message(sock: socket.socket) -> Iterator[tuple[int, list[int]]]:
    """Yields the data length and the file descriptors of the next message; 0 and no files without one."""
    flags = socket.MSG_PEEK | socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
    try:
        data, parts, marks, _ = sock.recvmsg(_DATA_BUFFER_BYTES, _CONTROL_BUFFER_BYTES, flags)
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
    return [number for number in numbers if number >= 0]  # the pidfd of an ended sender is negative


def _peek_offset(sock: socket.socket) -> int:
    return sock.getsockopt(socket.SOL_SOCKET, _SO_PEEK_OFF)


def _set_peek_offset(sock: socket.socket, position: int) -> None:
    sock.setsockopt(socket.SOL_SOCKET, _SO_PEEK_OFF, position)


def _count_own(file: int) -> int:
    return _count(f"/proc/self/fdinfo/{file}")


def _count(facts: str) -> int:
    """Returns the number of files that wait in a socket; 0 for other files."""
    found = _COUNT_PATTERN.search(Path(facts).read_bytes())
    return int(found[1]) if found else 0
