"""The listening sockets of a server's API. The gateway keeps copies of the sockets for the next server."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from windlass.base.held_ports import hold_other_family
from windlass.base.received_files import receive_files
from windlass.gateway.channel import Channel
from windlass.gateway.files import SOCKETS, connect_to
from windlass.gateway.messages import AskSockets, KeepSockets, KeptSockets, encode

_ANSWER_TIMEOUT: Final = 3.0
"""Time limit for an answer of the gateway, in seconds."""
_CONNECT_PAUSE: Final = 0.05
"""Seconds between two attempts to connect to a gateway."""
_MAX_MESSAGE_BYTES: Final = 4096
_MAX_FILES: Final = 8
_OTHER_FAMILY: Final = "other family"
"""Pseudo-address of the socket that reserves the port in the other address family (IPv4 or IPv6)."""


class PortInUse(Exception):
    """Raised if another server of this data directory accepts at the address."""

    def __init__(self, process: int) -> None:
        super().__init__(f"the server with process id {process} accepts there")
        self.process = process


def take_sockets(
    folder: Path, host: str, port: int, *, listens: bool = True
) -> dict[tuple[str, int], socket.socket]:
    """Returns the sockets that the gateway has kept for a server at this address, if any.

    If the caller `listens`, the gateway closes kept sockets with the same port at other addresses. Raises
    PortInUse if another server accepts at the address."""
    connection = connect_to(folder, SOCKETS, socket.SOCK_SEQPACKET)
    if connection is None:
        return {}
    with connection:
        connection.settimeout(_ANSWER_TIMEOUT)
        try:
            connection.send(encode(AskSockets(host, port, listens)))
            body, files = receive_files(connection, _MAX_MESSAGE_BYTES, _MAX_FILES)
        except OSError:  # the gateway is exiting, or hangs: the caller binds the port itself
            return {}
    if not body:
        return {}
    kept = msgspec.msgpack.decode(body, type=KeptSockets)
    if kept.process:
        raise PortInUse(kept.process)
    return {at: socket.socket(fileno=file) for at, file in zip(kept.places, files, strict=True)}


class ApiSockets:
    """The listening socket of this server, and a socket that reserves the same port in the other address
    family."""

    def __init__(
        self,
        folder: Path,
        host: str,
        sockets: Mapping[tuple[str, int], socket.socket],
        *,
        were_kept: bool = False,
        has_others: bool = False,
    ) -> None:
        """`sockets`: the listening socket, and the reserving socket of the other address family if the
        gateway kept one. `has_others`: see `KeepSockets`."""
        self._folder = folder
        self._has_others = has_others
        self.were_kept = were_kept
        port = next(iter(sockets))[1]
        self.listening = sockets[host, port]
        self.listening.setblocking(False)
        _listen_again(self.listening)
        held = sockets.get((_OTHER_FAMILY, port)) or hold_other_family(host, port)
        # uvicorn closes the socket at which it accepts. The gateway may need it again after that.
        self._places = {(host, port): self.listening.dup()}
        if held is not None:
            self._places[_OTHER_FAMILY, port] = held

    def close(self) -> None:
        for held in self._places.values():
            held.close()
        self.listening.close()

    async def keep(self) -> None:
        """Sends copies of the sockets to the gateway, and again to each gateway that replaces it."""
        while True:
            if (connection := connect_to(self._folder, SOCKETS, socket.SOCK_SEQPACKET)) is not None:
                await self._send_sockets(connection)
            await asyncio.sleep(_CONNECT_PAUSE)

    async def _send_sockets(self, connection: socket.socket) -> None:
        lost = asyncio.Event()
        decoder = msgspec.msgpack.Decoder(KeptSockets)
        channel = Channel(connection, decoder, lambda *_: None, lost.set)
        files = [os.dup(held.fileno()) for held in self._places.values()]
        try:
            channel.send(KeepSockets(tuple(self._places), self._has_others), files)
            await lost.wait()
        finally:
            with suppress(OSError):
                channel.close()


def _listen_again(listener: socket.socket) -> None:
    """Makes a socket listen that the gateway has stopped.

    The gateway clears SO_REUSEADDR with it. Without the option, no socket can listen as long as the kernel
    remembers connections of the former server (TIME_WAIT). With it, another program could bind the port until
    this socket listens, so the option is set before that only if it is needed.
    """
    if listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return
    try:
        listener.listen()
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.listen()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
