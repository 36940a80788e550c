"""Websockets that run a command in an instance. Binary frames carry its output and its input.

A text frame is JSON: from the client, a new terminal size or the end of the input; from the server, the exit
code before the websocket is closed. The command ends when the websocket closes, and within a second after the
caller has lost its permission.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from enum import Enum
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from windlass.api.answers import HttpAnswer
from windlass.api.body import parse_query
from windlass.api.callers import Callers
from windlass.api.quota import StreamQuota
from windlass.api.requests import Request
from windlass.api.router import RouteTree
from windlass.api.sockets import Receive, Send, check_origin
from windlass.api.streaming import Allowed, Streams, first_of
from windlass.base.errors import Forbidden, Invalid, Missing, Unavailable
from windlass.control.context.call import Call
from windlass.control.context.context import Context
from windlass.control.reporting.logs import lies_in
from windlass.control.request.permissions import forbidden, is_visible
from windlass.control.services.executions import ExecutionSession, find_service, open_session
from windlass.core.access import Actor, may_somewhere
from windlass.core.declare.executions import ExecRequest, InstanceName, Word
from windlass.core.declare.fields import Id
from windlass.core.declare.registry import Operation
from windlass.core.declare.spec import Spec
from windlass.engines.engine import EngineError, Execution, TerminalSize

SHELL_PATH: Final = "/shell/exec"
"""The path at which existing command line clients open a shell."""
MAX_COMMANDS: Final = 64
"""Number of commands at a time, over all organizations. `StreamQuota` divides it between them."""
MAX_MESSAGE_BYTES: Final = 64 * 1024
"""Largest message from the client, in bytes."""
CHECK_INTERVAL: Final = 0.3
"""Seconds between two checks of the caller's permission."""
UNCHECKED_TIMEOUT: Final = 5.0
"""Seconds for which a command keeps running while the caller's permission cannot be checked."""
IDLE_TIMEOUT: Final = 30 * 60.0
"""Seconds without input and output after which a command is stopped."""
_LAST_WORDS: Final = 2.0
_MAX_REASON_LENGTH: Final = 120


class SocketEnd(Enum):
    """The reason for the end of a websocket: its close code and its message."""

    OVER = 1000, "The command has ended"
    LEFT = 1000, "The client has left"
    REFUSED = 1008, "This caller may not run commands here any more"
    UNCHECKED = 1013, "The server cannot read its database, and so cannot check the rights of this caller"
    IDLE = 1008, "Nothing was sent for 30 minutes"
    STOPPED = 1012, "This server is stopping: connect again"
    WRONG = 1007, 'Send {"columns": 80, "rows": 24} or {"end_of_input": true} as text, and input as bytes'
    FAILED = 1011, "The engine of the service does not answer"


class ShellRequest(Spec):
    """The query of a shell at the path of existing command line clients. The other ids must match the
    service's parents."""

    service: Id = ""
    environment: str = ""
    project: str = ""
    organization: str = ""
    cluster: str = ""
    pod_name: InstanceName = ""
    command: list[Word] = []
    tty_width: Annotated[int, Meta(ge=0, le=1000)] = 80
    tty_height: Annotated[int, Meta(ge=0, le=1000)] = 24

    @property
    def within(self) -> set[str]:
        return {self.environment, self.project, self.organization, self.cluster} - {""}

    @property
    def as_exec(self) -> ExecRequest:
        return ExecRequest(
            command=self.command,
            tty=True,
            columns=self.tty_width or 80,
            rows=self.tty_height or 24,
            instance=self.pod_name,
        )


class ControlMessage(Struct, forbid_unknown_fields=True):
    """A text frame from the client."""

    columns: Annotated[int, Meta(ge=1, le=1000)] | None = None
    rows: Annotated[int, Meta(ge=1, le=1000)] | None = None
    end_of_input: bool = False


_control_of = msgspec.json.Decoder(ControlMessage).decode
_encode = msgspec.json.Encoder().encode


class ExecutionSockets:
    """Opens websockets that run commands."""

    def __init__(self, ctx: Context, callers: Callers, streams: Streams) -> None:
        self._ctx, self._callers, self._streams = ctx, callers, streams
        sockets = [operation for operation in ctx.registry.raw if not operation.writes]
        self._routes = RouteTree(sockets)
        self._by_handler = {operation.handler: operation for operation in sockets}
        self._quota = StreamQuota(MAX_COMMANDS)

    def has(self, path: str) -> bool:
        return path == SHELL_PATH or self._routes.find(path) is not None

    async def open(self, request: Request, actor: Actor) -> HttpAnswer:
        """Starts the command of a request. Errors are sent as HTTP responses, before the websocket opens."""
        check_origin(request, self._ctx.settings.url, self._ctx.settings.cors_origins)
        call = await self._call_of(request, actor)
        request.operation = call.operation.id
        try:
            return await self._start(call, tells=request.path != SHELL_PATH)
        except Forbidden as refusal:
            operation, ids = call.operation, call.ids
            self._callers.security.record_refused(
                actor, operation, request.path, ids, refusal.message, request.source
            )
            raise

    async def _start(self, call: Call, *, tells: bool) -> HttpAnswer:
        if not may_somewhere(call.actor, call.operation.need):
            raise forbidden(call.operation)
        service = await find_service(self._ctx, call)
        place = self._quota.take(service.org, call.actor.subject)
        try:
            session = await open_session(self._ctx, call, service)
        except BaseException:  # a failed opening frees the quota slot, whatever the reason
            with place:
                raise
        socket = ExecutionSocket(session, self._streams, tells=tells)
        return HttpAnswer(101, b"", session=socket, place=place)

    async def _call_of(self, request: Request, actor: Actor) -> Call:
        raw = request.scope["query_string"]
        if request.path == SHELL_PATH:
            shell, _ = parse_query(raw, ShellRequest)
            assert isinstance(shell, ShellRequest)
            operation = await self._operation_of(shell, actor)
            ids: tuple[str, ...] = (shell.service,)
            query: Spec = shell.as_exec
        else:
            operation, ids = self._operation_at(request.path)
            parsed, _ = parse_query(raw, operation.query or ExecRequest)
            assert parsed is not None
            query = parsed
        return Call(
            operation=operation,
            actor=actor,
            ids=ids,
            dialect=request.dialect,
            query=query,
            origin=request.source,
            find_trace=lambda: request.trace,
        )

    async def _operation_of(self, shell: ShellRequest, actor: Actor) -> Operation:
        if not shell.service:
            raise Invalid("service: must be the id of a service")
        reads = self._ctx.store.reads
        row = await reads.resources.get(shell.service)
        operation = self._by_handler.get(f"{row.family}.exec") if row else None
        is_there = (
            row is not None
            and await is_visible(reads, actor, row)
            and await lies_in(self._ctx, row, shell.within)
        )
        # The same response in all cases, so that it reveals nothing about other organizations' resources
        if operation is None or not is_there:
            raise Missing("No service with this id was found there: check the ids of the request")
        return operation

    def _operation_at(self, path: str) -> tuple[Operation, tuple[str, ...]]:
        if (route := self._routes.find(path)) is None:
            raise Missing(
                "Look at the page on the API for the paths of websockets: there is none at this path"
            )
        methods, ids = route
        return methods["GET"], ids


class ExecutionSocket:
    """The session of a websocket that runs a command."""

    longest = MAX_MESSAGE_BYTES

    def __init__(
        self, session: ExecutionSession, streams: Streams, *, tells: bool = True, idle: float = IDLE_TIMEOUT
    ) -> None:
        """`tells`: sends the exit code as a text frame, which clients at the path `SHELL_PATH` do not
        understand."""
        self._session, self._streams = session, streams
        self._tells, self._idle = tells, idle
        self._active_at = 0.0

    async def run(self, receive: Receive, send: Send, allowed: Allowed) -> None:
        execution = self._session.execution
        assert execution is not None
        end, code = SocketEnd.FAILED, None
        try:
            end = await self._until_end(execution, receive, send, allowed)
            if end is SocketEnd.OVER:
                code = await execution.wait()  # it has ended
        except EngineError:
            end = SocketEnd.FAILED
        finally:
            try:
                await self._session.end(end.value[1], code)
            finally:  # the client receives the reason even if the audit event cannot be stored
                await self._send_end(send, end, code)

    async def close(self) -> None:
        await self._session.end(SocketEnd.LEFT.value[1])

    async def _send_end(self, send: Send, end: SocketEnd, code: int | None) -> None:
        with suppress(TimeoutError, OSError):  # the client does not read, or has already closed
            async with asyncio.timeout(_LAST_WORDS):
                if code is not None and self._tells:
                    await send({"type": "websocket.send", "text": _encode({"exit_code": code}).decode()})
                number, reason = end.value
                await send({"type": "websocket.close", "code": number, "reason": reason[:_MAX_REASON_LENGTH]})

    async def _until_end(
        self, execution: Execution, receive: Receive, send: Send, allowed: Allowed
    ) -> SocketEnd:
        self._note_activity()
        with self._streams.opened() as stopping:
            stop = asyncio.ensure_future(stopping.wait())
            watch = asyncio.ensure_future(self._watch(allowed))
            output = asyncio.ensure_future(self._pass_output(execution, send))
            input = asyncio.ensure_future(self._pass_input(execution, receive))
            await first_of(stop, watch, output, input)
        if not stop.cancelled():
            return SocketEnd.STOPPED
        return next(task.result() for task in (watch, output, input) if not task.cancelled())

    async def _pass_output(self, execution: Execution, send: Send) -> SocketEnd:
        """Sends output to the client. Stops reading output while the client does not read."""
        try:
            while data := await execution.read():
                await send({"type": "websocket.send", "bytes": data})
                self._note_activity()
                # Without this pause, a command with constant output would starve other tasks, and the
                # connection could not notice that the client does not read.
                await asyncio.sleep(0)
        except OSError:  # ASGI's message for a disconnected client
            return SocketEnd.LEFT
        # A command may close its output and keep running. Its caller can still lose the permission or
        # disconnect.
        await execution.wait()
        return SocketEnd.OVER

    async def _pass_input(self, execution: Execution, receive: Receive) -> SocketEnd:
        """Passes input to the command. Stops reading from the client while the command does not read."""
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                return SocketEnd.LEFT
            self._note_activity()
            if (data := message.get("bytes")) is not None:
                await execution.write(data)
            elif not self._tells:
                await execution.write(str(message.get("text", "")).encode())
            elif not await _handle_control(execution, str(message.get("text", ""))):
                return SocketEnd.WRONG

    async def _watch(self, allowed: Allowed) -> SocketEnd:
        loop = asyncio.get_running_loop()
        checked = loop.time()
        while True:
            await asyncio.sleep(CHECK_INTERVAL)
            try:
                if not await allowed():
                    return SocketEnd.REFUSED
                checked = loop.time()
            except Unavailable:
                if loop.time() - checked > UNCHECKED_TIMEOUT:
                    return SocketEnd.UNCHECKED
            if loop.time() - self._active_at > self._idle:
                return SocketEnd.IDLE

    def _note_activity(self) -> None:
        self._active_at = asyncio.get_running_loop().time()


async def _handle_control(execution: Execution, text: str) -> bool:
    """Handles a control message. Returns whether the text was a valid control message."""
    try:
        control = _control_of(text)
    except msgspec.MsgspecError:
        return False
    if control.columns and control.rows:
        await execution.resize(TerminalSize(control.columns, control.rows))
    if control.end_of_input:
        await execution.end_input()
    return True
