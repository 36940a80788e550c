"""The gateway's folder: its sockets, lock, journal and log."""

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

GATEWAY_FOLDER: Final = "gateway"
"""The name of the gateway's folder in the data directory."""
CONTROL, HANDOVER, SOCKETS = "control", "handover", "sockets"
JOURNAL, LOCK, LOG = "journal", "lock", "log"
_SOCKET_FOLDER: Final = "room"
"""File that contains the secret name of the socket folder."""
_CODE_PACKAGES: Final = (gateway, routers, http_in)
"""Packages that contain the gateway's code."""


def folder_of(data_dir: str) -> Path:
    """Returns the gateway's folder in a data directory."""
    return Path(data_dir).resolve() / GATEWAY_FOLDER


@cache
def build() -> str:
    """Returns a fingerprint of the gateway's code, the Python version and the limit of open files. A server
    replaces a running gateway whose fingerprint differs."""
    content = hashlib.sha256(f"{sys.executable} {sys.version} {useful_files(Bounds().connections)}".encode())
    for package in _CODE_PACKAGES:
        for file in sorted(Path(*package.__path__).rglob("*.py")):
            content.update(file.read_bytes())
    return content.hexdigest()[:16]


@contextmanager
def _short_name(path: Path) -> Iterator[str]:
    """Yields a short alias of a path. The address of a Unix socket is limited to 107 bytes."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


def socket_of(folder: Path, name: str) -> Path:
    """Returns the path of a gateway socket. The socket is in a folder with a secret name. Gateways of older
    versions have their sockets directly in the gateway's folder.

    On a kernel without namespaces, services run as the same user, and Landlock has no rule against connecting
    to a path. But services can neither list the gateway's folder nor read its files, so they cannot find out
    the secret name. The kernel does not show the name either, because sockets are bound through
    `/proc/self/fd`."""
    try:
        return folder / (folder / _SOCKET_FOLDER).read_text() / name
    except FileNotFoundError:
        return folder / name


def _make_socket_folder(folder: Path) -> None:
    if not (folder / _SOCKET_FOLDER).exists():
        write_whole(folder / _SOCKET_FOLDER, f"room-{secrets.token_hex(16)}".encode(), durable=False)
    socket_of(folder, "").mkdir(mode=0o700, exist_ok=True)


def listen_at(folder: Path, name: str, kind: socket.SocketKind) -> socket.socket:
    """Listens at a gateway socket. Replaces the socket of any program that listened there before."""
    _make_socket_folder(folder)
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
            path.unlink(missing_ok=True)  # no inode is free on the disk: deleting the old socket frees one
            with _short_name(new) as short:
                listening.bind(short)
        new.chmod(0o600)
        listening.listen(64)
        new.replace(path)
    listening.setblocking(False)
    return listening


def connect_to(folder: Path, name: str, kind: socket.SocketKind) -> socket.socket | None:
    """Connects to the gateway of a folder, including a gateway of an older version. Returns None if no
    gateway runs."""
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
    """Returns whether the peer of a local connection is a process of Windlass: a process of this user or of
    root that does not belong to a service.

    On a kernel without namespaces, processes of services run as this user, too, but carry a mark (marks.py).
    A peer process that has exited is refused: a marked process may have inherited its connection."""
    process, user = _peer_credentials(connection)
    is_program = process > 0 and (read_mark(process) > 0 or _has_exited(process))
    return user in {0, os.geteuid()} and not is_program


def _has_exited(process: int) -> bool:
    """Returns whether a process is gone. Does not look into /proc, which may hide it (`hidepid`): a server
    belongs to root there, because it allows no memory dumps."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def process_of(connection: socket.socket) -> int:
    """Returns the process id of the peer of a local connection."""
    process, _ = _peer_credentials(connection)
    return process


def _peer_credentials(connection: socket.socket) -> tuple[int, int]:
    size = struct.calcsize("3i")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    process, user, _ = struct.unpack("3i", credentials)
    return process, user
