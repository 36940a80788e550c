"""The gateway process. Takes over from a running gateway, and serves until a successor takes over or the
gateway is not needed.

The gateway exits by itself if no server is connected and no service has an instance, or if its folder is
deleted.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from windlass.base.filelock import open_lock_file, release, wait_for
from windlass.base.log import log
from windlass.base.sighup import handle_hang_ups
from windlass.gateway import api_listener
from windlass.gateway.api_listener import ApiListener
from windlass.gateway.doors import Doors, Sockets
from windlass.gateway.files import (
    CONTROL,
    HANDOVER,
    JOURNAL,
    LOCK,
    LOG,
    build,
    is_of_windlass,
    listen_at,
    socket_of,
)
from windlass.gateway.handover import Predecessor, Succession, find_predecessor
from windlass.gateway.journal import Journal
from windlass.gateway.link import frame, read_frame
from windlass.gateway.messages import (
    Ask,
    AskCertificates,
    AskTraffic,
    Call,
    DrainEndpoints,
    DropCertificate,
    DropChallenge,
    GatewayReply,
    GatewayRequest,
    GatewayState,
    Keep,
    Open,
    PutCertificate,
    PutChallenge,
    encode,
    refuse_another_place,
)
from windlass.gateway.starting import LogFile
from windlass.routers.router import Endpoint, RouteError

_log = log("gateway")
_CHECK_INTERVAL: Final = 0.2
_UNNEEDED_CHECKS: Final = 5
"""Number of consecutive checks without a connected server, and without routes to instances or sites, after
which the gateway exits."""
_LOST_CHECKS: Final = 10
"""Number of consecutive checks without its own socket file after which the gateway exits. A successor
replaces the file, but takes over in less time."""
_DRAIN_SECONDS: Final = 15.0
"""Seconds for which a gateway continues to serve connected servers after a signal."""
_WAKE_INTERVAL: Final = 1.0
"""Seconds after which servers are asked again for services that requests still wait for."""
_WAKES_AT_ONCE: Final = 1000
"""Maximum number of services in one message."""
_MAX_UNREAD_BYTES: Final = 64 * 1024
"""The most that waits for a server that does not read."""
_LAST_CONNECTION_SECONDS: Final = 12 * 3600.0
"""Seconds for which a gateway waits for its last connections after a successor has taken over."""


class Relieved(Exception):
    """Raised because a successor has taken over. The server repeats unanswered requests at the successor."""


class GatewayProgram:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._journal = Journal(folder / JOURNAL)
        self._doors = Doors(self._journal, folder, self._ask_wake)
        self._predecessor: Predecessor | None = None
        self._relieved = asyncio.Event()
        self._ended = asyncio.Event()
        self._asked = asyncio.Event()
        """Set by SIGINT or SIGTERM."""
        self._links: dict[asyncio.Task[None], dict[str, Open]] = {}
        """Connected servers (the tasks that serve them), each with the doors that it has opened."""
        self._writers: set[asyncio.StreamWriter] = set()
        """The connections of these servers."""
        self._started_at = time.monotonic()
        self._changing = asyncio.Lock()

    async def run(self) -> None:
        """Serves until it is stopped, replaced by a successor, or no longer needed."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._asked.set)
        handle_hang_ups()
        control, succession, api = await self._take_over()
        watching = [
            loop.create_task(watch)
            for watch in (
                self._watch(),
                self._end_after_servers(),
                self._keep_log(),
                self._repeat_wakes(),
            )
        ]
        try:
            await _wait_for_first(self._relieved, self._ended)
            control.close()
            api.close()
            for link in list(self._links):
                link.cancel()  # servers repeat unanswered requests at the successor
            if not self._ended.is_set():
                await self._wait_for_last()
        finally:
            for task in (*watching, *self._links):
                task.cancel()
            await asyncio.gather(*watching, *self._links, return_exceptions=True)
            succession.close()
            api.close()
            await self._doors.stop()
            self._journal.close()

    async def _take_over(self) -> tuple[asyncio.Server, Succession, ApiListener]:
        """Takes over from a running gateway. The lock serializes gateways that start at the same time."""
        lock = open_lock_file(self._folder / LOCK)
        try:
            wait_for(lock)
            self._predecessor = find_predecessor(self._folder)
            inherited = await self._predecessor.sockets() if self._predecessor else {}
            self._journal.open()
            kept = {at[1:]: inherited.pop(at) for at in list(inherited) if at[0] == api_listener.DOOR}
            await self._doors.restore(inherited)
            api = ApiListener(self._folder, kept)

            def sockets() -> Sockets:
                return self._doors.sockets() | api.sockets()

            succession = Succession(
                listen_at(self._folder, HANDOVER, socket.SOCK_SEQPACKET),
                self._doors,
                sockets,
                self._changing,
                self._drain_predecessor,
                self._relieved.set,
                self._services_in_use,
            )
            listening = listen_at(self._folder, CONTROL, socket.SOCK_STREAM)
            server = await asyncio.start_unix_server(self._serve_link, sock=listening)
            if self._predecessor:
                self._predecessor.relieve(self._doors)
        finally:
            release(lock)
        _log.info("the gateway serves", extra={"pid": os.getpid(), "build": build()})
        return server, succession, api

    # Requests of servers

    async def _serve_link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handles the requests of one server until it disconnects."""
        task = asyncio.current_task()
        assert task is not None
        opened = self._links[task] = {}
        answering: set[asyncio.Task[None]] = set()
        try:
            if not is_of_windlass(writer.get_extra_info("socket")):
                return
            self._writers.add(writer)
            decoder = msgspec.msgpack.Decoder(GatewayRequest)
            while (body := await read_frame(reader)) is not None:
                answer = asyncio.create_task(self._answer(decoder.decode(body), writer, opened))
                answering.add(answer)
                answer.add_done_callback(answering.discard)
        except asyncio.CancelledError:
            pass  # Cancelled because the gateway exits; asyncio would log this as an error.
        except msgspec.DecodeError as error:
            _log.warning("a server sent what this gateway does not know", extra={"reason": str(error)})
        finally:
            for answer in answering:
                answer.cancel()
            self._writers.discard(writer)
            del self._links[task]
            writer.close()

    async def _answer(
        self, request: GatewayRequest, writer: asyncio.StreamWriter, open_requests: dict[str, Open]
    ) -> None:
        try:
            reply = GatewayReply(request.number, state=await self._handle_call(request.call, open_requests))
        except Relieved:
            return
        except (RouteError, OSError, OverflowError, ValueError) as error:
            reply = GatewayReply(request.number, error=str(error) or type(error).__name__)
        writer.write(frame(encode(reply)))
        with suppress(ConnectionError):
            await writer.drain()

    async def _handle_call(self, call: Call, open_requests: dict[str, Open]) -> GatewayState:
        match call:
            case Ask() | AskTraffic() | AskCertificates():
                pass
            case PutCertificate() | DropCertificate() | PutChallenge() | DropChallenge():
                async with self._changing:
                    if self._relieved.is_set():
                        raise Relieved
                    await self._doors.change_sealed(call)
            case DrainEndpoints():
                await asyncio.gather(
                    self._doors.drain(call.endpoints, call.patience),
                    self._drain_predecessor(call.endpoints, call.patience),
                )
            case _:
                async with self._changing:
                    if self._relieved.is_set():
                        raise Relieved
                    if isinstance(call, Keep) and not call.stays and len(self._links) > 1:
                        call = Keep(stays=True)  # other servers are connected and may need it
                    if isinstance(call, Open):
                        refuse_another_place(self._held_by_others(open_requests).get(call.door), call)
                    await self._doors.change(call)
                    if isinstance(call, Open):
                        open_requests[call.door] = replace(call, port=self._doors.port(call.door))
        door = call.door if isinstance(call, Open) else ""
        asked = call.door if isinstance(call, AskCertificates) else ""
        return GatewayState(
            build=build(),
            process=os.getpid(),
            connections=self._doors.connections,
            port=self._doors.port(door) if door else 0,
            services=self._doors.services(door) if door else frozenset(),
            doors=frozenset(self._journal.told.doors),
            held=self._held_by_others(open_requests) if isinstance(call, Ask) else {},
            traffic=tuple(self._doors.traffic()) if isinstance(call, AskTraffic) else (),
            age=time.monotonic() - self._started_at,
            of_elders=self._uses_of_elders() if isinstance(call, AskTraffic) else frozenset(),
            dropped_lines=self._doors.dropped_lines,
            certificates=await self._doors.certificates(asked) if asked else {},
            challenges=await self._doors.challenges(asked) if asked else {},
        )

    def _held_by_others(self, own_requests: dict[str, Open]) -> dict[str, Open]:
        """Returns the doors that other connected servers have opened. A door has one address."""
        others = [opened for opened in self._links.values() if opened is not own_requests]
        return {door: held for opened in others for door, held in opened.items()}

    async def _drain_predecessor(self, endpoints: Sequence[Endpoint], timeout: float) -> None:
        if self._predecessor:
            await self._predecessor.drain(endpoints, timeout)

    def _uses_of_elders(self) -> frozenset[str]:
        return self._predecessor.uses if self._predecessor else frozenset()

    def _services_in_use(self) -> frozenset[str]:
        """Returns the services with requests or connections here, or at gateways before this one."""
        own = frozenset(row.service for row in self._doors.traffic() if row.active)
        return own | self._uses_of_elders()

    # Sleeping services

    def _ask_wake(self, service: str) -> bool:
        """Asks all connected servers to wake a service. Returns whether there are any."""
        self._ask_wakes([service])
        return bool(self._writers)

    def _ask_wakes(self, services: Sequence[str]) -> None:
        for first in range(0, len(services), _WAKES_AT_ONCE):
            message = frame(encode(GatewayReply(0, wakes=tuple(services[first : first + _WAKES_AT_ONCE]))))
            for writer in self._writers:
                # A server that hangs takes none, and gets those that are still awaited later.
                if writer.transport.get_write_buffer_size() < _MAX_UNREAD_BYTES:
                    writer.write(message)

    async def _repeat_wakes(self) -> None:
        """Asks again for services that are still awaited: a server may have been started meanwhile, or may
        have lost what it was asked."""
        while True:
            await asyncio.sleep(_WAKE_INTERVAL)
            self._ask_wakes(self._doors.awaited())

    # The end

    async def _watch(self) -> None:
        """Ends the program if its folder is deleted, or if no server or route has needed it for a while."""
        mark, useless, lost = _inode(socket_of(self._folder, CONTROL)), 0, 0
        while not self._relieved.is_set():
            await asyncio.sleep(_CHECK_INTERVAL)
            useless = useless + 1 if self._journal.told.is_empty and not self._links else 0
            lost = lost + 1 if _inode(socket_of(self._folder, CONTROL)) != mark else 0
            if useless > _UNNEEDED_CHECKS or lost > _LOST_CHECKS:
                self._ended.set()

    async def _keep_log(self) -> None:
        log_file = LogFile(self._folder / LOG)
        while True:
            log_file.look()
            await asyncio.sleep(_CHECK_INTERVAL)

    async def _end_after_servers(self) -> None:
        """Ends the program after a signal, as soon as no server is connected. A connected server would start
        another gateway, even during its own shutdown."""
        await self._asked.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                while self._links:  # noqa: ASYNC110 (the end of a link is no event)
                    await asyncio.sleep(_CHECK_INTERVAL)
        self._ended.set()

    async def _wait_for_last(self) -> None:
        """Waits until the last connection has ended or was handed over, and all earlier gateways have
        exited."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_CONNECTION_SECONDS):
                while not self._ended.is_set():
                    if not self._doors.connections and (
                        self._predecessor is None or self._predecessor.has_ended
                    ):
                        return
                    await asyncio.sleep(_CHECK_INTERVAL)


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


async def _wait_for_first(*events: asyncio.Event) -> None:
    waiting = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in waiting:
            task.cancel()
