"""The folder of a gateway: its sockets, its lock, its journal and its log."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
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
from windlass.base.atomic_files import write_whole
from windlass.base.cleanup import on_failure
from windlass.base.http_in.bounds import Bounds
from windlass.base.http_in.connection_limits import useful_files
from windlass.base.marks import read_mark

FOLDER: Final = "gateway"
"""The name of the gateway's folder in the data directory."""
CONTROL, HANDOVER, SOCKETS = "control", "handover", "sockets"
JOURNAL, LOCK, LOG = "journal", "lock", "log"
_ROOM: Final = "room"
"""The file with the name of the folder of the sockets."""
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
def _short_name(path: Path) -> Iterator[str]:
    """Gives a path of any length a name that fits into the address of a socket, which has 107 bytes."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def socket_of(folder: Path, name: str) -> Path:
    """Returns the path of a socket of the gateway: in a folder whose name is a secret, or, of a gateway
    of an older version, beside the other files.

    On a kernel without namespaces, services are of the same user, and no rule of Landlock forbids a
    connection to a path. But they can neither list the folder of the gateway nor read its files, so they do
    not know the name; and the kernel shows none, because sockets are bound below `/proc/self/fd`."""
    try:
        return folder / (folder / _ROOM).read_text() / name
    except FileNotFoundError:
        return folder / name


def _make_room(folder: Path) -> None:
    if not (folder / _ROOM).exists():
        write_whole(folder / _ROOM, f"room-{secrets.token_hex(16)}".encode(), durable=False)
    socket_of(folder, "").mkdir(mode=0o700, exist_ok=True)


def listen_at(folder: Path, name: str, kind: socket.SocketKind) -> socket.socket:
    """Listens at a socket of the gateway, in place of any program that listened there before."""
    _make_room(folder)
    path = socket_of(folder, name)
    listening = socket.socket(socket.AF_UNIX, kind)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    with on_failure(listening.close):
        with suppress(FileNotFoundError):
            new.unlink()
        try:
            with _short_name(new) as short:
                listening.bind(short)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            path.unlink(missing_ok=True)  # the disk has no more files: that of the last program makes room
            with _short_name(new) as short:
                listening.bind(short)
        new.chmod(0o600)
        listening.listen(64)
        new.replace(path)
    listening.setblocking(False)
    return listening


def connect_to(folder: Path, name: str, kind: socket.SocketKind) -> socket.socket | None:
    """Connects to the gateway of a folder, also to one of an older version; None if there is none."""
    for path in dict.fromkeys((socket_of(folder, name), folder / name)):
        connection = socket.socket(socket.AF_UNIX, kind)
        with on_failure(connection.close):
            try:
                with _short_name(path) as short:
                    connection.connect(short)
            except (FileNotFoundError, ConnectionError):
                connection.close()
                continue
        connection.setblocking(False)
        return connection
    return None


def is_of_windlass(connection: socket.socket) -> bool:
    """Returns whether the other side of a local connection belongs to this user, or to root, and is no
    program of a service. On a kernel without namespaces, those are of this user, too, but have a mark
    (marks.py).

    One that has ended is refused: its connection may be held by a program with a mark."""
    process, user = _other_side(connection)
    is_program = process > 0 and (read_mark(process) > 0 or not Path(f"/proc/{process}").exists())
    return user in {0, os.geteuid()} and not is_program


def process_of(connection: socket.socket) -> int:
    """Returns the id of the process on the other side of a local connection."""
    process, _ = _other_side(connection)
    return process


def _other_side(connection: socket.socket) -> tuple[int, int]:
    size = struct.calcsize("3i")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    process, user, _ = struct.unpack("3i", credentials)
    return process, user
