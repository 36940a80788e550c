"""The folder of a gateway: its sockets, its lock, its journal and its log."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Final

from windlass import gateway, routers
from windlass.base import http_in
from windlass.base.cleanup import on_failure
from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.files import useful_files

FOLDER: Final = "gateway"
"""Below the data directory."""
CONTROL, HANDOVER, SOCKETS = "control", "handover", "sockets"
JOURNAL, LOCK, LOG = "journal", "lock", "log"
_SOURCES: Final = (gateway, routers, http_in)
"""The packages of its code."""


def folder_of(data_dir: str) -> Path:
    """Returns the folder of the gateway of a data directory."""
    return Path(data_dir).resolve() / FOLDER


@cache
def build() -> str:
    """Returns a fingerprint of the code of a gateway, its Python, and the files that it may open: a server
    replaces a gateway that was started with others."""
    content = hashlib.sha256(f"{sys.executable} {sys.version} {useful_files(Bounds().connections)}".encode())
    for package in _SOURCES:
        for file in sorted(Path(*package.__path__).rglob("*.py")):
            content.update(file.read_bytes())
    return content.hexdigest()[:16]


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """Gives a path of any length a name that fits into the address of a socket, which has 107 bytes."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def listen_at(path: Path, kind: socket.SocketKind) -> socket.socket:
    """Listens at a path, in place of any program that listened there before."""
    listening = socket.socket(socket.AF_UNIX, kind)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    with on_failure(listening.close):
        with suppress(FileNotFoundError):
            new.unlink()
        try:
            with _short(new) as name:
                listening.bind(name)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            path.unlink(missing_ok=True)  # the disk has no more files: that of the last program makes room
            with _short(new) as name:
                listening.bind(name)
        new.chmod(0o600)
        listening.listen(64)
        new.replace(path)
    listening.setblocking(False)
    return listening


def connect_to(path: Path, kind: socket.SocketKind) -> socket.socket | None:
    """Connects to a program that listens at a path; None if there is none."""
    connection = socket.socket(socket.AF_UNIX, kind)
    try:
        with _short(path) as name:
            connection.connect(name)
    except (FileNotFoundError, ConnectionError):
        connection.close()
        return None
    connection.setblocking(False)
    return connection


def is_of_this_user(connection: socket.socket) -> bool:
    """True if the other side of a local connection belongs to this user, or to root."""
    _, user = _other_side(connection)
    return user in {0, os.geteuid()}


def process_of(connection: socket.socket) -> int:
    """Returns the id of the process on the other side of a local connection."""
    process, _ = _other_side(connection)
    return process


def _other_side(connection: socket.socket) -> tuple[int, int]:
    size = struct.calcsize("3i")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    process, user, _ = struct.unpack("3i", credentials)
    return process, user
