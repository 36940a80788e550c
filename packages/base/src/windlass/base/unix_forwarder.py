"""A socket in the file system that leads to a TCP port of this machine, for programs in other networks."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct
from typing import Final

_MOST, _MOST_OF_USER = 512, 8
"""Connections at a time, in all and of one user. A further one is closed at once. Each service has a user
where Windlass is root."""
_PEER: Final = Struct("3i")
_PIECE: Final = 64 * 1024
_PATIENCE: Final = 10.0


class UnixForwarder:
    """Every program that sees the socket may connect: the service behind it has to authenticate its
    clients."""

    def __init__(self, path: Path, host: str, port: int) -> None:
        self._path, self._to = path, (host, port)
        self._server: asyncio.Server | None = None
        self._open: Counter[int] = Counter()
        """Connections by user."""
        self._inode = 0

    async def open(self) -> None:
        """Replaces what another server has left there."""
        self._path.parent.mkdir(mode=0o711, exist_ok=True)
        self._path.parent.chmod(0o711)
        self._path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with short(self._path) as address:
            listening.bind(address)
        self._path.chmod(0o666)
        self._inode = self._path.stat().st_ino
        self._server = await asyncio.start_unix_server(self._forward, sock=listening)

    async def close(self) -> None:
        if self._server is None:
            return
        self._server.close()
        with suppress(FileNotFoundError):
            if self._path.stat().st_ino == self._inode:  # and not one that a later server has made
                self._path.unlink()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        user = _user_at(writer)
        if self._open[user] >= _MOST_OF_USER or self._open.total() >= _MOST:
            writer.close()
            return
        self._open[user] += 1
        try:
            async with asyncio.timeout(_PATIENCE):
                further, onward = await asyncio.open_connection(*self._to)
        except (OSError, TimeoutError):
            writer.close()
            self._open[user] -= 1
            return
        try:
            await asyncio.gather(_pass(reader, onward), _pass(further, writer))
        finally:
            self._open[user] -= 1
            for each in (writer, onward):
                each.close()


def _user_at(writer: asyncio.StreamWriter) -> int:
    """Returns the user who has connected."""
    peer = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    user: int = _PEER.unpack(peer)[1]
    return user


async def _pass(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(_PIECE):
            to.write(data)
            await to.drain()
    with suppress(OSError):
        to.write_eof()


@contextmanager
def short(path: Path) -> Iterator[str]:
    """Yields an alternative path of a socket that is short enough for its address."""
    folder = os.open(path.parent, os.O_PATH | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
