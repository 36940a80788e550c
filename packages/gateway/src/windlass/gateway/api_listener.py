"""Keeps the listening sockets of the API open, so that the API port is never free while no server runs.

Otherwise, a service that shares the network of the machine could bind the API port while the server restarts,
and steal the tokens of API clients.

Only servers accept API requests. Without a server, connections wait in the accept queue; after `WAIT_SECONDS`
seconds, the gateway answers each connection with status 503. The gateway does not read the request: the
kernel discards its bytes. If other servers may answer instead, connections are refused after this time: a
proxy then repeats a change at another server, which it does not after an answer. The port stays bound.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from windlass.base.log import log
from windlass.gateway.channel import Channel
from windlass.gateway.doors import Sockets
from windlass.gateway.files import SOCKETS, is_of_windlass, listen_at, process_of
from windlass.gateway.messages import AskSockets, FromServer, KeepSockets, KeptSockets

_log = log("gateway")
DOOR: Final = "api"
"""Name of the API sockets in the handover to a successor. All other doors (routers of the gateway) are named
after clusters."""
WAIT_SECONDS: Final = 10.0
"""Seconds for which connections wait while a server restarts."""
_ANSWER_SECONDS: Final = 2.0
"""Time limit for a client to send its request, and the same limit again to read the 503 answer."""
_MAX_ANSWERS: Final = 200
_MAX_READ_BYTES: Final = 65536
_UNAVAILABLE_MESSAGE: Final = (
    "Try again when the Windlass server is back: it is not running. Services keep running"
)
_UNAVAILABLE_BODY: Final = json.dumps(
    {
        "status": 503,
        "error": "Service Unavailable",
        "message": _UNAVAILABLE_MESSAGE,
        "detail": _UNAVAILABLE_MESSAGE,
    }
).encode()
_UNAVAILABLE_ANSWER: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 5\r\n"
    b"Cache-Control: no-store\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
    % (len(_UNAVAILABLE_BODY), _UNAVAILABLE_BODY)
)

Places = dict[tuple[str, int], socket.socket]


class ApiListener:
    def __init__(self, folder: Path, inherited_sockets: Places) -> None:
        """`inherited_sockets`: the API sockets inherited from the previous gateway."""
        self._loop = asyncio.get_running_loop()
        self._kept = inherited_sockets
        self._servers: dict[Channel[FromServer], ConnectedServer] = {}
        self._with_others: frozenset[tuple[str, int]] = frozenset()
        """Addresses of a server beside which other servers may answer."""
        self._waiting: asyncio.TimerHandle | None = None
        self._answering: set[socket.socket] = set()
        """Listening sockets whose connections are answered with status 503."""
        self._answers: set[asyncio.Task[None]] = set()
        self._control = listen_at(folder, SOCKETS, socket.SOCK_SEQPACKET)
        self._loop.add_reader(self._control.fileno(), self._accept)
        self._wait_for_servers()

    def sockets(self) -> Sockets:
        return {(DOOR, *at): kept for at, kept in self._kept.items()}

    def close(self) -> None:
        """Closes this process's sockets. A successor has copies."""
        self._stop_refusing()
        if self._waiting is not None:
            self._waiting.cancel()
        if self._control.fileno() >= 0:
            self._loop.remove_reader(self._control.fileno())
            self._control.close()
        for channel in [*self._servers]:
            channel.close()
        for kept in self._kept.values():
            kept.close()
        self._kept.clear()
        for answer in self._answers:
            answer.cancel()

    # Servers

    def _accept(self) -> None:
        with suppress(OSError):
            connection, _ = self._control.accept()
            if not is_of_windlass(connection):
                connection.close()
                return
            connection.setblocking(False)
            ConnectedServer(self, connection)

    def connect(self, server: ConnectedServer) -> None:
        self._servers[server.channel] = server

    def lose(self, server: ConnectedServer) -> None:
        self._servers.pop(server.channel, None)
        if self._control.fileno() >= 0:
            self._wait_for_servers()

    def offer(self, request: AskSockets, files: list[int]) -> KeptSockets:
        """Returns the sockets kept for this address, and adds duplicates of their descriptors to `files`. If
        a connected server already accepts at the address, returns the process id of that server instead."""
        for server in self._servers.values():
            if (request.host, request.port) in server.places:
                return KeptSockets(process=server.process)
        kept = {at: held for at, held in self._kept.items() if at[1] == request.port}
        if (request.host, request.port) not in kept:
            if request.listens and kept.keys().isdisjoint(self._served_places()):
                self._close_unused_ports(kept)
                self._wait_for_servers()
            return KeptSockets()
        files.extend(os.dup(held.fileno()) for held in kept.values())
        return KeptSockets(places=tuple(kept))

    def _close_unused_ports(self, places: Iterable[tuple[str, int]]) -> None:
        if gone := list(places):
            self._stop_refusing()
            _log.info("ports of an earlier server are given up", extra={"places": gone})
        for at in gone:
            self._kept.pop(at).close()

    def keep(self, copies: Places, keeper: ConnectedServer, *, has_others: bool = False) -> None:
        """Stores the sockets that a server has sent. Closes the sockets of earlier servers, unless another
        server is connected: several servers may share a gateway."""
        keeper.places = frozenset(copies)
        self._with_others -= keeper.places
        if has_others:
            self._with_others |= keeper.places
        self._stop_refusing()
        if not any(server.places for server in self._servers.values() if server is not keeper):
            self._close_unused_ports([at for at in self._kept if at not in copies])
        for at, held in copies.items():
            if (before := self._kept.get(at)) is not None:
                before.close()
            self._kept[at] = held
        self._wait_for_servers()

    # Without a server

    def _wait_for_servers(self) -> None:
        if self._waiting is None and self._idle_sockets():
            self._waiting = self._loop.call_later(WAIT_SECONDS, self._refuse)

    def _idle_sockets(self) -> Places:
        places = self._served_places()
        return {at: held for at, held in self._kept.items() if at not in places and _is_listening(held)}

    def _served_places(self) -> set[tuple[str, int]]:
        return {at for server in self._servers.values() for at in server.places}

    def _refuse(self) -> None:
        self._waiting = None
        for at, held in self._idle_sockets().items():
            if at in self._with_others:
                _stop_listening(held)
            else:
                self._answering.add(held)
                self._loop.add_reader(held.fileno(), self._accept_client, held)

    def _stop_refusing(self) -> None:
        for held in self._answering:
            self._loop.remove_reader(held.fileno())
        self._answering.clear()
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _accept_client(self, listening_socket: socket.socket) -> None:
        if len(self._answers) >= _MAX_ANSWERS:
            self._stop_refusing()
            self._waiting = self._loop.call_later(1.0, self._refuse)
            return
        with suppress(OSError):
            connection, _ = listening_socket.accept()
            connection.setblocking(False)
            answer = self._loop.create_task(_answer_unavailable(connection))
            self._answers.add(answer)
            answer.add_done_callback(self._answers.discard)


class ConnectedServer:
    """The connection of a server to this gateway. While connected, the server accepts API requests at
    `places`."""

    def __init__(self, door: ApiListener, connection: socket.socket) -> None:
        self._door = door
        self.process = process_of(connection)
        self.places: frozenset[tuple[str, int]] = frozenset()
        decoder = msgspec.msgpack.Decoder(FromServer)
        self.channel: Channel[FromServer] = Channel(
            connection, decoder, self._handle_message, lambda: door.lose(self)
        )
        door.connect(self)

    def _handle_message(self, message: FromServer, files: Sequence[int]) -> None:
        match message:
            case AskSockets():
                offered: list[int] = []
                self.channel.send(self._door.offer(message, offered), offered)
            case KeepSockets():
                copies = zip(message.places, files, strict=True)
                sockets = {at: socket.socket(fileno=file) for at, file in copies}
                self._door.keep(sockets, self, has_others=message.has_others)


def _is_listening(listener: socket.socket) -> bool:
    """Returns whether a socket listens. A socket that is only bound reserves its port."""
    return bool(listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _stop_listening(listener: socket.socket) -> None:
    """Refuses connections until the next server listens again. Clearing the option keeps other programs from
    binding the port meanwhile."""
    with suppress(OSError):
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)
        listener.shutdown(socket.SHUT_RDWR)


async def _answer_unavailable(connection: socket.socket) -> None:
    with connection, suppress(OSError, TimeoutError):
        async with asyncio.timeout(_ANSWER_SECONDS):
            await _discard_bytes(connection)
        connection.send(_UNAVAILABLE_ANSWER)
        connection.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(_ANSWER_SECONDS):
            while await _discard_bytes(connection):
                pass


async def _discard_bytes(connection: socket.socket) -> int:
    """Waits for bytes of a client, and makes the kernel discard them (MSG_TRUNC, see tcp(7)). Returns the
    number of bytes."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(connection.fileno(), readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(connection.fileno())
    return len(connection.recv(_MAX_READ_BYTES, socket.MSG_TRUNC))
