"""Hands over a gateway's work to its successor: all listening sockets at once, client connections one by one.

The predecessor accepts connections until the successor does, so that no connection is refused. An HTTP
connection is handed over when its current answer is complete. The predecessor exits after its last tunnel or
download has ended.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from pathlib import Path
from typing import Final

import msgspec

from windlass.base.log import log
from windlass.gateway.channel import MAX_FILES, Channel
from windlass.gateway.doors import Doors, Sockets
from windlass.gateway.files import HANDOVER, connect_to, is_of_windlass
from windlass.gateway.messages import (
    ClientFile,
    DrainEnd,
    ElderDrain,
    ElderUses,
    FromElder,
    FromSuccessor,
    ListeningSockets,
    SocketsEnd,
    SuccessorServes,
)
from windlass.routers.builtin.shared_state import ClientWait
from windlass.routers.router import Endpoint

_log = log("gateway")
_ACCEPT_PAUSE: Final = 1.0
"""Seconds until the next attempt to accept a successor, after accepting has failed."""
_SOCKETS_TIMEOUT: Final = 10.0
"""Time limit for a predecessor to send its sockets, in seconds."""
_MAX_ENDPOINTS: Final = 400
"""Maximum number of endpoints in one message. A message of this many endpoints with the longest names is
within the size limit."""
_USES_INTERVAL: Final = 2.0
"""Seconds between two messages about the services that are still in use."""
_MAX_USES: Final = 2000
"""Maximum number of services in such a message, so that it is within the size limit."""
_SUCCESSOR_TIMEOUT: Final = 20.0
"""Time limit for a successor to begin serving, in seconds. Route changes wait meanwhile."""


class Predecessor:
    """The previous gateway, as seen by its successor."""

    def __init__(self, connection: socket.socket) -> None:
        self._channel = Channel(
            connection, msgspec.msgpack.Decoder(FromElder), self._handle_message, self._handle_end
        )
        self._loop = asyncio.get_running_loop()
        self._sockets: Sockets = {}
        self._sent: asyncio.Future[None] = self._loop.create_future()
        self._numbers = itertools.count()
        self._drains: dict[int, asyncio.Future[None]] = {}
        self._doors: Doors | None = None
        self.has_ended = False
        self.uses: frozenset[str] = frozenset()
        """Services with requests or connections that have stayed with it, or with gateways before it."""

    async def sockets(self) -> Sockets:
        """Returns the listening sockets of the predecessor. Returns only a part of them if the predecessor
        exits while sending."""
        async with asyncio.timeout(_SOCKETS_TIMEOUT):
            await self._sent
        return self._sockets

    def relieve(self, doors: Doors) -> None:
        """Tells the predecessor to stop accepting connections and to hand over its open connections."""
        self._doors = doors
        self._channel.send(SuccessorServes())

    async def drain(self, endpoints: Sequence[Endpoint], timeout: float) -> None:
        """Waits until the predecessor has no requests or connections to these endpoints in progress."""
        parts = (endpoints[at : at + _MAX_ENDPOINTS] for at in range(0, len(endpoints), _MAX_ENDPOINTS))
        await asyncio.gather(*(self._drain(part, timeout) for part in parts))

    async def _drain(self, endpoints: Sequence[Endpoint], timeout: float) -> None:
        if self.has_ended:
            return
        number = next(self._numbers)
        done = self._drains[number] = self._loop.create_future()
        self._channel.send(ElderDrain(number, tuple(endpoints), timeout))
        await done

    def _handle_message(self, message: FromElder, files: Sequence[int]) -> None:
        match message:
            case ListeningSockets():
                for at, file in zip(message.places, files, strict=True):
                    self._sockets[at] = socket.socket(fileno=file)
            case SocketsEnd():
                self._sent.set_result(None)
            case ClientFile():
                assert self._doors is not None
                self._doors.adopt(message, socket.socket(fileno=files[0]))
            case ElderUses():
                self.uses = frozenset(message.services)
            case DrainEnd():
                self._drains.pop(message.number).set_result(None)

    def _handle_end(self) -> None:
        self.has_ended = True
        self.uses = frozenset()
        for done in (self._sent, *self._drains.values()):
            if not done.done():
                done.set_result(None)


def find_predecessor(folder: Path) -> Predecessor | None:
    """Connects to the running gateway. Returns None if no gateway runs."""
    connection = connect_to(folder, HANDOVER, socket.SOCK_SEQPACKET)
    return Predecessor(connection) if connection else None


class Succession:
    """Waits for a successor, and hands over sockets and connections to it."""

    def __init__(
        self,
        listening_socket: socket.socket,
        doors: Doors,
        sockets: Callable[[], Sockets],
        changing: asyncio.Lock,
        elders: Callable[[Sequence[Endpoint], float], Awaitable[None]],
        relieved: Callable[[], None],
        uses: Callable[[], Collection[str]] = frozenset,
    ) -> None:
        """`sockets` returns the listening sockets to hand over. The lock `changing` prevents changes of the
        doors during a handover. `elders` drains the gateways before this one. `relieved` is called when the
        successor begins to serve. `uses` returns the services that are in use at this gateway and at those
        before it."""
        self._uses = uses
        self._listening = listening_socket
        self._doors, self._sockets, self._changing = doors, sockets, changing
        self._elders, self._relieved = elders, relieved
        self._loop = asyncio.get_running_loop()
        self._decided = asyncio.Event()
        """Set when the successor has begun to serve or has disconnected."""
        self._channel: Channel[FromSuccessor] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._wait()

    def close(self) -> None:
        self._loop.remove_reader(self._listening.fileno())
        self._listening.close()
        if self._channel is not None:
            self._channel.close()

    def _wait(self) -> None:
        if self._listening.fileno() >= 0:
            self._loop.add_reader(self._listening.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            connection, _ = self._listening.accept()
        except OSError as error:  # for example, the limit of file descriptors is reached
            _log.warning("no successor can connect", extra={"reason": str(error)})
            self._loop.remove_reader(self._listening.fileno())
            self._loop.call_later(_ACCEPT_PAUSE, self._wait)
            return
        if self._channel is not None or not is_of_windlass(connection):
            connection.close()
            return
        connection.setblocking(False)
        decoder = msgspec.msgpack.Decoder(FromSuccessor)
        self._decided.clear()
        self._channel = Channel(connection, decoder, self._handle_message, self._handle_loss)
        self._start_task(self._hand_over(self._channel))

    async def _hand_over(self, channel: Channel[FromSuccessor]) -> None:
        async with self._changing:
            try:
                self._send_sockets(channel)
                async with asyncio.timeout(_SUCCESSOR_TIMEOUT):
                    await self._decided.wait()
            except (OSError, TimeoutError) as error:
                _log.error("a successor did not take over", extra={"reason": str(error) or "no answer"})
                channel.close()

    def _start_task(self, action: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(action)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _send_sockets(self, channel: Channel[FromSuccessor]) -> None:
        sockets = list(self._sockets().items())
        for begin in range(0, len(sockets), MAX_FILES):
            some = sockets[begin : begin + MAX_FILES]
            files = [os.dup(listening.fileno()) for _, listening in some]
            channel.send(ListeningSockets(tuple(at for at, _ in some)), files)
        channel.send(SocketsEnd())

    def _handle_message(self, message: FromSuccessor, _: Sequence[int]) -> None:
        match message:
            case SuccessorServes():
                self._doors.leave(self._pass_on_client)
                self._relieved()
                self._decided.set()
                self._start_task(self._tell_uses())
            case ElderDrain():
                self._start_task(self._drain(message))

    async def _tell_uses(self) -> None:
        """Tells the successor, again and again, which services are still in use here."""
        while self._channel is not None:
            self._channel.send(ElderUses(tuple(sorted(self._uses())[:_MAX_USES])))
            await asyncio.sleep(_USES_INTERVAL)

    async def _drain(self, drain: ElderDrain) -> None:
        await self._doors.drain(drain.endpoints, drain.patience)
        await self._elders(drain.endpoints, drain.patience)
        if self._channel is not None:
            self._channel.send(DrainEnd(drain.number))

    def _pass_on_client(self, listener_key: str, port: int, file: int, client_wait: ClientWait) -> None:
        if self._channel is None:  # the successor has exited: the client connection is lost
            os.close(file)
        else:
            self._channel.send(ClientFile(listener_key, port, client_wait), [file])

    def _handle_loss(self) -> None:
        self._channel = None
        self._decided.set()
