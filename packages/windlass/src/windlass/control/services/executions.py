"""Commands in instances of services, and connections to their ports, with audit events.

`api.executions` connects them to clients.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from shlex import quote
from typing import Final

from windlass.base import ids
from windlass.base.errors import Conflict, Unavailable
from windlass.base.isolation.instance_connections import open_connection
from windlass.control.context.call import Call
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of, status_of
from windlass.control.records.reachability import check_here
from windlass.control.records.recording import about_itself, emit
from windlass.control.records.sealed_workload import workload_of
from windlass.control.request.paths import target
from windlass.core.declare.executions import ConnectRequest, ExecRequest
from windlass.core.words.events import Event
from windlass.engines.engine import (
    Engine,
    EngineError,
    EngineUnavailable,
    Execution,
    ExecutionRequest,
    TerminalSize,
)
from windlass.engines.workload import Instance, Phase, Workload
from windlass.store import DeploymentRow, Row, Tx

SHELL_COMMAND: Final = ("sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash; exec sh")
"""The default command: bash if it is installed, otherwise sh."""
_CHUNK_BYTES: Final = 64 * 1024
_CONNECT_TIMEOUT: Final = 10.0
"""Seconds after which connecting to a port fails."""
_CLOSE_TIMEOUT: Final = 2.0
"""Seconds in which a program can take the last bytes of a connection whose client has left."""
_MAX_SHOWN_LENGTH: Final = 2000
"""Maximum length of a command in the audit, in characters."""


class ExecutionSession:
    """A command or connection of a caller. Its beginning and its end are recorded in the audit."""

    def __init__(self, ctx: Context, call: Call, service: Row, instance: Instance, command: str) -> None:
        self._ctx, self._call, self._service = ctx, call, service
        self._instance, self._command = instance, command
        self._id = ids.new_id()
        self._has_begun = False
        self.execution: Execution | None = None

    @property
    def org(self) -> str:
        return self._service.org

    async def open(self, begin: Callable[[Engine], Awaitable[Execution]]) -> None:
        """Starts the command or connection, after the audit event was stored."""
        await self._record(Event.COMMAND_BEGUN, {})
        self._has_begun = True
        place = await self._ctx.places.of(self._service.id)
        try:
            self.execution = await begin(place.engine)
        except EngineUnavailable as away:
            await self.end(str(away))
            raise Unavailable(str(away)) from away
        except EngineError as error:
            await self.end(str(error))
            raise Conflict(str(error)) from error
        self._ctx.routing.sessions[self._service.id] += 1

    async def end(self, reason: str, exit_code: int | None = None) -> None:
        """Ends the command with all its processes. Idempotent."""
        execution, self.execution = self.execution, None
        if execution is not None:
            self._ctx.routing.sessions[self._service.id] -= 1
            await execution.close()
        if self._has_begun:
            self._has_begun = False
            await self._record(Event.COMMAND_ENDED, {"message": reason, "exit_code": exit_code})

    async def _record(self, kind: Event, further: dict[str, object]) -> None:
        call = self._call

        async def write(tx: Tx) -> None:
            data = {
                "name": name_of(self._service),
                "execution_id": self._id,
                "instance": self._instance.id,
                "command": self._command,
                **further,
            }
            about = await about_itself(tx, self._service)
            emit(tx, kind, self._service.org, about, call.actor.id, call.actor.name, call.origin, data)

        await self._ctx.store.write(write)


async def find_service(ctx: Context, call: Call) -> Row:
    """Returns the service for a command. Raises if the caller lacks the permission, or if this server does
    not run the service."""
    service = await target(ctx.store.reads, call)
    await check_here(ctx, service.id)
    return service


async def open_session(ctx: Context, call: Call, service: Row) -> ExecutionSession:
    """Starts the command or connection that a call requests."""
    status = await status_of(ctx.store.reads, service)
    serving = await ctx.store.reads.deployments.get(status.serving) if status.serving else None
    if isinstance(call.query, ConnectRequest):
        return await _open_connection(ctx, call, service, serving)
    asked = call.asked(ExecRequest)
    instance = await _find_instance(ctx, service, serving, asked.instance)
    command = tuple(asked.command) or SHELL_COMMAND
    terminal = TerminalSize(asked.columns, asked.rows) if asked.tty else None
    shown = " ".join(asked.command)[:_MAX_SHOWN_LENGTH] or "a shell"
    if serving is not None:
        shown = ctx.logs.masks.text(serving.id, shown)
    session = ExecutionSession(ctx, call, service, instance, shown)
    request = ExecutionRequest(command, terminal)
    await session.open(lambda engine: engine.open_execution(instance, request))
    return session


async def _open_connection(
    ctx: Context, call: Call, service: Row, serving: DeploymentRow | None
) -> ExecutionSession:
    asked = call.asked(ConnectRequest)
    instance = await _find_instance(ctx, service, serving, asked.instance)
    if not instance.ports:
        raise Conflict(
            f"Wait until {name_of(service)} runs, or give it a port: it does not listen on a port now"
        )
    internal = asked.port or min(instance.ports)
    number = instance.ports.get(internal)
    if number is None:
        ports = ", ".join(map(str, sorted(instance.ports)))
        raise Conflict(f"port: choose a port on which {name_of(service)} listens: {ports}")
    session = ExecutionSession(ctx, call, service, instance, f"a connection to port {internal}")
    await session.open(lambda _: _connect(instance, number))
    return session


async def _connect(instance: Instance, port: int) -> Execution:
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT):
            return PortConnection(*await open_connection(instance.network, instance.address, port))
    except (OSError, TimeoutError) as error:
        raise EngineError(
            f"Try again once it is ready: the program does not take connections ({str(error) or 'no answer'})"
        ) from error


class PortConnection:
    """A connection to a port of an instance, with the interface of a command."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        try:
            return await self._reader.read(_CHUNK_BYTES)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        with suppress(OSError):
            self._writer.write(data)
            await self._writer.drain()

    async def end_input(self) -> None:
        with suppress(OSError):
            self._writer.write_eof()

    async def resize(self, size: TerminalSize) -> None:
        """Does nothing, because a connection has no terminal."""

    async def wait(self) -> int:
        return 0

    async def close(self) -> None:
        self._writer.close()
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT):
                await self._writer.wait_closed()
        except TimeoutError:  # a program that does not read would keep the connection for ever
            self._writer.transport.abort()
        except OSError:
            return


async def _find_instance(ctx: Context, service: Row, serving: DeploymentRow | None, named: str) -> Instance:
    place, name = await ctx.places.of(service.id), name_of(service)
    try:
        observed = await place.engine.observe(service.id)
    except EngineUnavailable as away:
        raise Unavailable(str(away)) from away
    running = [instance for instance in observed.instances if instance.phase is Phase.RUNNING]
    current = [copy for copy in running if serving and copy.generation == serving.number] or running
    if not named:
        if current:
            return min(current, key=lambda copy: (not copy.is_ready, copy.index))
        if (await status_of(ctx.store.reads, service)).sleep:
            raise Conflict(
                f"Send a request to {name}, or run `windlass {service.family} redeploy {quote(name)}`, and "
                "try again: it sleeps, because it had no requests"
            )
        workload = await workload_of(ctx, serving.id) if serving else None
        raise Conflict(_why_no_instance(name, workload))
    for copy in [*current, *running]:
        if named in {str(copy.index), copy.id, f"{name}-{copy.generation}-{copy.index}"}:
            return copy
    raise Conflict(f"instance: choose one that runs: {_names_of(name, running)}")


def _why_no_instance(name: str, workload: Workload | None) -> str:
    if workload is None:
        return f"Deploy {name} first, or look at its status: no instance of it runs"
    if workload.artifact.static is not None:
        return f"Choose another service: {name} is a static site, which has no instance to run a command in"
    return (
        f"Give {name} an instance, with min_running_instances or `windlass scale {quote(name)}=1`, or look "
        "at its status: none runs"
    )


def _names_of(name: str, running_instances: Sequence[Instance]) -> str:
    return (
        ", ".join(f"{name}-{copy.generation}-{copy.index}" for copy in running_instances) or "none does now"
    )
