"""The connection of a server to its gateway. Starts a gateway if none runs, and reconnects after a restart of
the gateway.

A message has a length of four bytes, followed by msgpack data.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final

import msgspec

from windlass.base.log import log
from windlass.base.private import private_folder
from windlass.gateway.files import CONTROL, LOG, build, connect_to, process_of
from windlass.gateway.messages import (
    Ask,
    Call,
    DrainEndpoints,
    GatewayReply,
    GatewayRequest,
    GatewayState,
    Open,
    encode,
    refuse_another_place,
)
from windlass.gateway.starting import has_ended, start_gateway
from windlass.routers.router import RouteError

_MESSAGE_LENGTH: Final = struct.Struct(">I")
MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
"""Maximum size of a message, in bytes."""


def frame(body: bytes) -> bytes:
    return _MESSAGE_LENGTH.pack(len(body)) + body


async def read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """Returns the next message. Returns None at the end of the stream, or if the message is too large."""
    try:
        (length,) = _MESSAGE_LENGTH.unpack(await reader.readexactly(_MESSAGE_LENGTH.size))
        return None if length > MAX_MESSAGE_BYTES else await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def frames(content: bytes) -> list[bytes]:
    """Splits the content of a file into messages. Drops an incomplete last message."""
    messages, at = [], 0
    while at + _MESSAGE_LENGTH.size <= len(content):
        (length,) = _MESSAGE_LENGTH.unpack_from(content, at)
        begin, at = at + _MESSAGE_LENGTH.size, at + _MESSAGE_LENGTH.size + length
        if at <= len(content):
            messages.append(content[begin:at])
    return messages


_log = log("gateway")
_ANSWER_TIMEOUT: Final = 15.0
"""Time limit for connecting to a gateway, and for each of its answers, in seconds."""
_RETRY_PAUSE, _MAX_RETRY_PAUSE = 0.02, 1.0
_RESEND_SECONDS: Final = 5.0
"""Seconds until changes that a gateway could not apply are sent again."""

_LIVENESS_INTERVAL: Final = 15.0
"""Seconds between two checks whether the gateway answers."""
_MAX_SILENT_CHECKS: Final = 3
"""Number of consecutive unanswered checks after which a gateway counts as hung. Each takes as long as an
answer may take, so a gateway that is only slow is not ended."""

AskGateway = Callable[[Call], Awaitable[GatewayState]]
HearWakes = Callable[[Sequence[str]], None]


class GatewayLink:
    def __init__(self, folder: Path, gateway_pid: int = 0) -> None:
        """`gateway_pid`: process id of a gateway that this server has already started in this folder, or
        0."""
        self._folder = folder
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[GatewayReply]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._is_ready = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._greetings: list[Callable[[AskGateway], Awaitable[None]]] = []
        self._children = {gateway_pid} if gateway_pid else set()
        self._users = 0
        self._process = 0
        self.hear_wakes: HearWakes = lambda services: None
        """Called with sleeping services that have requests, again and again while these wait."""

    def forget_greeting(self, greeting: Callable[[AskGateway], Awaitable[None]]) -> None:
        self._greetings.remove(greeting)

    def greet_with(self, greeting: Callable[[AskGateway], Awaitable[None]]) -> None:
        """Registers a callback that runs first on each new connection, because the gateway may have been
        replaced."""
        self._greetings.append(greeting)

    async def start(self, request: Open) -> None:
        """Connects to the gateway. Replaces a gateway that runs other code. Raises RouteError if another
        server has the same door open at another address."""
        self._users += 1
        if self._keeping is not None:
            return
        private_folder(self._folder)
        self._keeping = asyncio.create_task(self._stay_connected())
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.stop)
            await self._check_build(request)
            undo.pop_all()

    async def _check_build(self, request: Open) -> None:
        state = await self.call(Ask())
        if state.build != build():
            refuse_another_place(state.held.get(request.door), request)
            _log.info("the gateway is replaced", extra={"pid": state.process})
            self._launch()
            try:
                async with asyncio.timeout(_ANSWER_TIMEOUT):
                    await self._wait_for_successor(state.process)
            except TimeoutError as error:
                reason = (
                    f"Read {self._folder / LOG}: a new gateway was started and did not take over from the "
                    "old one"
                )
                raise RouteError(reason) from error

    async def _wait_for_successor(self, process: int) -> None:
        """Waits until a gateway in another process answers."""
        while (await self.call(Ask())).process == process:  # noqa: ASYNC110 (another program decides)
            await asyncio.sleep(_RETRY_PAUSE)

    async def stop(self) -> None:
        """Closes the connection when its last user stops. The gateway keeps running."""
        self._users -= 1
        if self._users > 0 or self._keeping is None:
            return
        self._keeping.cancel()
        await asyncio.gather(self._keeping, return_exceptions=True)
        self._keeping = None

    async def call(self, call: Call) -> GatewayState:
        """Sends a request. Sends the request again after a lost connection, because requests are idempotent.
        Raises RouteError, at once if the link was not started."""
        if self._keeping is None:
            raise RouteError("start the server first: it is not connected with its gateway")
        while True:
            try:
                async with asyncio.timeout(_ANSWER_TIMEOUT):
                    await self._is_ready.wait()
            except TimeoutError as error:
                log_file = self._folder / LOG
                raise RouteError(f"the gateway does not answer; its log shows why: {log_file}") from error
            with suppress(ConnectionError):
                return await self._send_request(call)

    async def _send_request(self, call: Call) -> GatewayState:
        if self._writer is None or self._writer.is_closing():
            # An immediate retry would starve the task that reads the end of the stream.
            self._is_ready.clear()
            raise ConnectionResetError("the gateway has gone")
        number = next(self._numbers)
        reply = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._writer.write(frame(encode(GatewayRequest(number, call))))
            async with asyncio.timeout(
                _ANSWER_TIMEOUT + (call.patience if isinstance(call, DrainEndpoints) else 0)
            ):
                answer: GatewayReply = await reply
        except TimeoutError as error:
            raise RouteError(
                f"end the gateway with `kill -9 {self._process}`: it does not answer. A server starts it "
                "again, with its routes"
            ) from error
        finally:
            self._waiting.pop(number, None)
        if answer.state is None:
            raise RouteError(answer.error)
        return answer.state

    # The connection

    async def _stay_connected(self) -> None:
        """Keeps the connection open: reconnects each time it ends."""
        try:
            while True:
                connection = await self._connect()
                self._process = process_of(connection)
                reader, self._writer = await asyncio.open_unix_connection(sock=connection)
                tasks = [
                    asyncio.create_task(self._send_missed_changes()),
                    asyncio.create_task(self._end_hung_gateway(self._process)),
                ]
                try:
                    await self._read(reader)
                except (msgspec.DecodeError, OSError) as error:
                    _log.warning("the link to the gateway is made again", extra={"reason": str(error)})
                    await asyncio.sleep(_MAX_RETRY_PAUSE)
                finally:
                    for task in tasks:
                        task.cancel()
                    self._wake_callers()
        finally:
            for child in self._children:
                has_ended(child)

    async def _connect(self) -> socket.socket:
        """Connects to the gateway. Starts a gateway if none runs."""
        pause = _RETRY_PAUSE
        while (connection := connect_to(self._folder, CONTROL, socket.SOCK_STREAM)) is None:
            self._children = {child for child in self._children if not has_ended(child)}
            if not self._children:
                if self._process and pause == _RETRY_PAUSE:
                    _log.warning(
                        "the gateway has ended, another one is started", extra={"pid": self._process}
                    )
                self._launch()
            await asyncio.sleep(pause)
            pause = min(_MAX_RETRY_PAUSE, pause * 1.1)
        return connection

    def _launch(self) -> None:
        try:
            self._children.add(start_gateway(self._folder))
        except OSError as error:  # Its folder may be missing for a moment, or a process limit is reached.
            _log.error("the gateway cannot be started, and is tried again", extra={"reason": str(error)})

    async def _send_missed_changes(self) -> None:
        """Calls the registered callbacks, which send the changes that a gateway may have lost. Retries failed
        callbacks until they succeed: a port may be in use for a long time."""
        greetings = list(self._greetings)
        reasons: set[str] = set()
        with suppress(ConnectionError):
            while True:
                failures = {greeting: why for greeting in greetings if (why := await self._try_to(greeting))}
                self._is_ready.set()
                if not failures:
                    if reasons:
                        _log.warning("services are reached again: the gateway does what it did")
                    return
                for reason in {*failures.values()} - reasons:
                    _log.error(
                        "services are not reached: the gateway cannot do what it did",
                        extra={"reason": reason},
                    )
                reasons |= {*failures.values()}
                await asyncio.sleep(_RESEND_SECONDS)
                greetings = [greeting for greeting in failures if greeting in self._greetings]

    async def _end_hung_gateway(self, process: int) -> None:
        """Kills the gateway if it runs and does not answer for a long time: no visitor reaches a service
        then. Another one is started when the connection ends."""
        silent = 0
        with suppress(ConnectionError, ProcessLookupError):
            while silent < _MAX_SILENT_CHECKS:
                await asyncio.sleep(_LIVENESS_INTERVAL)
                try:
                    await self._send_request(Ask())
                    silent = 0
                except RouteError:
                    silent += 1
            _log.error("the gateway hangs, and is replaced", extra={"pid": process})
            os.kill(process, signal.SIGKILL)

    async def _try_to(self, greet: Callable[[AskGateway], Awaitable[None]]) -> str:
        """Runs one callback. Returns the reason of its failure; empty if it has succeeded."""
        try:
            await greet(self._send_request)
        except RouteError as error:
            return str(error)
        return ""

    async def _read(self, reader: asyncio.StreamReader) -> None:
        decoder = msgspec.msgpack.Decoder(GatewayReply)
        while (body := await read_frame(reader)) is not None:
            reply = decoder.decode(body)
            if reply.wakes:
                self.hear_wakes(reply.wakes)
            if (waiting := self._waiting.get(reply.number)) and not waiting.done():
                waiting.set_result(reply)

    def _wake_callers(self) -> None:
        """Fails all pending requests, so that their callers send them again on the next connection."""
        self._is_ready.clear()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionResetError("the gateway has gone"))
