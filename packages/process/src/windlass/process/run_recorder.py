"""Runs a program to completion, and records that it has begun and how it ended.

The recorder is a separate program. It runs in the cell (sandbox) of the recorded program, as its parent. It
continues if Windlass is killed, so that the next Windlass finds the result. It imports only the standard
library.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

BEGAN_FILE: Final = "began"
ENDED_FILE: Final = "ended"
_FORWARDED_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
_DISK_FULL_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT)
_RETRY_PAUSE: Final = 1.0
"""Seconds between two attempts to write to a full disk."""
_NOT_FOUND, _REFUSED, _TWICE = 127, 126, 125


class Result(NamedTuple):
    status: int
    """The exit code, or the negative number of the signal that killed the program."""
    at: int
    """Milliseconds since the epoch."""
    peak_memory: int
    """The peak memory of the largest process in bytes."""


def recording_command(command: Sequence[str], folder: Path) -> list[str]:
    """Returns a command that runs the given command and records its end in a folder."""
    return [sys.executable, "-I", "-S", __file__, str(folder), *command]


def has_begun(folder: Path) -> bool:
    return (folder / BEGAN_FILE).exists()


def main(folder: str, *command: str) -> NoReturn:
    place = Path(folder)
    try:
        _write(place / BEGAN_FILE, "", os.O_EXCL)
    except FileExistsError:
        os._exit(_TWICE)
    for number in _FORWARDED_SIGNALS:  # the program gets these signals; this process waits for its end
        signal.signal(number, lambda *_: None)
    child = os.fork()
    if not child:
        _exec_command(command)
    _, code, usage = os.wait4(child, 0)
    status = os.waitstatus_to_exitcode(code)
    _record_end(place, f"{status} {time.time_ns() // 1_000_000} {usage.ru_maxrss * 1024}")
    os._exit(status if status >= 0 else 128 - status)


def _record_end(path: Path, result: str) -> None:
    """Records the end of the program. On a full disk, waits for free space, because no other process has this
    information."""
    while True:
        try:
            _write(path / f"{ENDED_FILE}.new", result)
            break
        except OSError as error:
            if error.errno not in _DISK_FULL_ERRORS:
                raise
            time.sleep(_RETRY_PAUSE)
    (path / f"{ENDED_FILE}.new").rename(path / ENDED_FILE)
    _sync(path)


def _write(path: Path, text: str, how: int = os.O_TRUNC) -> None:
    """Writes a file and syncs it to the disk, because a program that has begun must not start again after a
    power cut."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | how, 0o600)
    try:
        if os.write(file, text.encode()) < len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(file)
    finally:
        os.close(file)
    _sync(path.parent)


def _sync(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _exec_command(command: Sequence[str]) -> NoReturn:
    for number in (*_FORWARDED_SIGNALS, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    error = _try_to_execute(lambda: os.execvp(command[0], list(command)))  # noqa: S606
    if error.errno == errno.ENOEXEC:  # runs a script without an interpreter line, as a shell does
        error = _try_to_execute(lambda: os.execv("/bin/sh", ["sh", *command]))  # noqa: S606
    os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    os._exit(_NOT_FOUND if error.errno == errno.ENOENT else _REFUSED)


def _try_to_execute(execute: Callable[[], NoReturn]) -> OSError:
    try:
        execute()
    except OSError as error:
        return error


if __name__ == "__main__":
    main(*sys.argv[1:])
