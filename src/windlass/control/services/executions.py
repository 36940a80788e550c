"""Commands in instances of services: found, opened and audited. `api.executions` connects them to clients."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Final

from windlass.base import ids
from windlass.base.errors import Conflict, Unavailable
from windlass.control.context.call import Call
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of, status_of
from windlass.control.records.reachability import check_here
from windlass.control.records.recording import about_itself, emit
from windlass.control.records.sealed_workload import workload_of
from windlass.control.request.paths import target
from windlass.core.declare.executions import ExecRequest
from windlass.core.deploy.workload import Instance, Phase, Workload
from windlass.core.words.events import Event
from windlass.engines.engine import (
    EngineAway,
    EngineError,
    Execution,
    ExecutionRequest,
    TerminalSize,
)
from windlass.store import DeploymentRow, Row, Tx

SHELL: Final = ("sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash; exec sh")
"""The command where none is given."""
_LONGEST_SHOWN: Final = 2000
"""Characters of a command in the audit."""


class ExecutionSession:
    """A command that runs for a caller, from its event in the audit to that of its end."""

    def __init__(self, ctx: Context, call: Call, service: Row, instance: Instance, command: str) -> None:
        self._ctx, self._call, self._service = ctx, call, service
        self._instance, self._command = instance, command
        self._id = ids.new_id()
        self._has_begun = False
        self.execution: Execution | None = None

    @property
    def org(self) -> str:
        return self._service.org

    async def open(self, request: ExecutionRequest) -> None:
        """Starts the command, after its beginning is in the audit."""
        await self._record(Event.COMMAND_BEGUN, {})
        self._has_begun = True
        place = await self._ctx.places.of(self._service.id)
        try:
            self.execution = await place.engine.open_execution(self._instance, request)
        except EngineAway as away:
            await self.end(str(away))
            raise Unavailable(str(away)) from away
        except EngineError as error:
            await self.end(str(error))
            raise Conflict(str(error)) from error

    async def end(self, reason: str, exit_code: int | None = None) -> None:
        """Ends the command and everything that it has started. Does nothing when repeated."""
        execution, self.execution = self.execution, None
        if execution is not None:
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
    """Returns the service of a command, if the caller may run one there and this server can."""
    service = await target(ctx.store.reads, call)
    await check_here(ctx, service.id)
    return service


async def open_session(ctx: Context, call: Call, service: Row) -> ExecutionSession:
    """Starts the command that the query of a call asks for."""
    asked = call.asked(ExecRequest)
    status = await status_of(ctx.store.reads, service)
    serving = await ctx.store.reads.deployments.get(status.serving) if status.serving else None
    instance = await _find_instance(ctx, service, serving, asked.instance)
    command = tuple(asked.command) or SHELL
    terminal = TerminalSize(asked.columns, asked.rows) if asked.tty else None
    shown = " ".join(asked.command)[:_LONGEST_SHOWN] or "a shell"
    if serving is not None:
        shown = ctx.logs.masks.text(serving.id, shown)
    session = ExecutionSession(ctx, call, service, instance, shown)
    await session.open(ExecutionRequest(command, terminal))
    return session


async def _find_instance(ctx: Context, service: Row, serving: DeploymentRow | None, named: str) -> Instance:
    place, name = await ctx.places.of(service.id), name_of(service)
    try:
        observed = await place.engine.observe(service.id)
    except EngineAway as away:
        raise Unavailable(str(away)) from away
    running = [instance for instance in observed.instances if instance.phase is Phase.RUNNING]
    current = [copy for copy in running if serving and copy.generation == serving.number] or running
    if not named:
        if current:
            return min(current, key=lambda copy: (not copy.is_ready, copy.index))
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


def _names_of(name: str, running: Sequence[Instance]) -> str:
    return ", ".join(f"{name}-{copy.generation}-{copy.index}" for copy in running) or "none does now"
