"""Forwards a Unix socket to a TCP port of this machine, for programs in other network namespaces."""

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

from windlass.base import kernel

_MAX_CONNECTIONS, _MAX_CONNECTIONS_OF_CELL = 512, 8
"""The maximum numbers of connections: in total, and of one cell. A further connection is closed at once."""
_FREE_CONNECTIONS_DIVISOR: Final = 32
"""The maximum of a cell: the connections that other cells leave free, divided by this number."""
_PEER: Final = Struct("3i")
_CHUNK_BYTES: Final = 64 * 1024
_SOURCE_ADDRESS: Final = "127.198.19.1"
"""The address from which programs behind the socket reach an IPv4 address. From 127.0.0.1, the server might
take them for a trusted proxy of this machine, and believe the client address that they name."""
_CONNECT_TIMEOUT: Final = 10.0


class UnixForwarder:
    """Forwards connections. Any program that sees the socket may connect, so the server behind the port must
    authenticate clients."""

    def __init__(self, path: Path, host: str, port: int) -> None:
        self._path, self._to = path, (host, port)
        self._server: asyncio.Server | None = None
        self._open: Counter[tuple[int, int]] = Counter()
        """The number of open connections by cell: its user and its pid namespace. If Windlass runs as an
        ordinary user, all cells have the same user. Without pid namespaces, all cells have the same one."""
        self._inode = 0

    async def open(self) -> None:
        """Starts listening. Replaces a socket that an earlier server has left behind."""
        self._path.parent.mkdir(mode=0o711, exist_ok=True)
        self._path.parent.chmod(0o711)
        self._path.unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with short_path(self._path) as address:
            listening.bind(address)
        self._path.chmod(0o666)
        self._inode = self._path.stat().st_ino
        self._server = await asyncio.start_unix_server(self._forward, sock=listening)

    async def close(self) -> None:
        if self._server is None:
            return
        self._server.close()
        with suppress(FileNotFoundError):
            if self._path.stat().st_ino == self._inode:  # keeps the socket of a later server
                self._path.unlink()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        cell, total = _identify_client(writer), self._open.total()
        left_by_others = _MAX_CONNECTIONS - total + self._open[cell]
        most = min(max(left_by_others // _FREE_CONNECTIONS_DIVISOR, 1), _MAX_CONNECTIONS_OF_CELL)
        if total >= _MAX_CONNECTIONS or self._open[cell] >= most:
            writer.close()
            return
        self._open[cell] += 1
        try:
            await self._connect(reader, writer)
        finally:
            writer.close()
            self._open[cell] -= 1
            self._open = +self._open  # removes cells without connections

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT):
                source = None if ":" in self._to[0] else (_SOURCE_ADDRESS, 0)
                further, onward = await asyncio.open_connection(*self._to, local_addr=source)
        except (OSError, TimeoutError):
            return
        try:
            await asyncio.gather(_copy_stream(reader, onward), _copy_stream(further, writer))
        finally:
            onward.close()


def _identify_client(writer: asyncio.StreamWriter) -> tuple[int, int]:
    """Returns the user and the pid namespace of the client; the namespace is 0 if the client has ended."""
    peer = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    process, user, _ = _PEER.unpack(peer)
    return user, kernel.process_namespace(process)


async def _copy_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        writer.write_eof()


@contextmanager
def short_path(path: Path) -> Iterator[str]:
    """Yields another path of a socket, which is short enough for a socket address."""
    folder = os.open(path.parent, os.O_PATH | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
