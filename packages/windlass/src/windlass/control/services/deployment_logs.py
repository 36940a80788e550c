"""The log of an environment's deployment, built from deployment records and build log lines."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Final
from uuid import UUID, uuid5

import msgspec
from msgspec import Struct

from windlass.base.clock import stamp
from windlass.base.errors import Invalid
from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of
from windlass.control.records.reachability import check_log_here
from windlass.control.request.paths import target
from windlass.control.services.deployment_groups import (
    Group,
    PastDeployment,
    group_of,
    groups,
    id_of,
    stage_of,
)
from windlass.control.services.environments import services_of
from windlass.core.declare.document import Document
from windlass.core.deploy.states import (
    ACTIONS_WITH_BUILD,
    OUTPUT_FOLLOWS,
    DeploymentPhase,
    Do,
    State,
    is_failure,
    logged,
)
from windlass.families.deployment_log import DeploymentLogQuery
from windlass.families.environment import EnvironmentShown
from windlass.store import Row

_IDS: Final = UUID("4b1f0a86-6f0a-4f0e-9a64-3a6b5c1f7d02")


class LogEntry(Struct, frozen=True, gc=False):
    """An entry in the log of a deployment."""

    at: str
    id: str
    past: PastDeployment
    state: State
    """The state of the service at that time."""
    step: State
    message: str


class _Line(Struct, gc=False):
    id: str
    created_at: str
    message: str
    pod_name: str = ""
    stage: str = ""


_lines = msgspec.json.Decoder(_Line)


_STARTED_STAGES: Final = frozenset({DeploymentPhase.COMMAND, DeploymentPhase.START})


@reads("environment.deploymentLog")
async def read_lines(ctx: Context, call: Call) -> Reply:
    environment = await target(ctx.store.reads, call)
    group = await _asked_group(ctx, call, environment)
    entries = await _entries(ctx, call, group)
    return Reply(results([encode(_line(ctx, call, group, entry)) for entry in entries]))


@reads("environment.deploymentLogEntries")
async def read_entries(ctx: Context, call: Call) -> Reply:
    environment = await target(ctx.store.reads, call)
    group = await _asked_group(ctx, call, environment)
    entries = await _entries(ctx, call, group)
    return Reply(encode([_entry(ctx, environment, group, entry) for entry in entries]))


async def _asked_group(ctx: Context, call: Call, environment: Row) -> Group:
    source, version = ctx.store.reads, call.asked(DeploymentLogQuery).version
    services = await services_of(ctx, source, environment)
    if not version:
        return await anext(groups(ctx, environment.id, services), None) or []
    row = await source.deployments.get(version)
    if row is None or row.service not in {service.id for service in services}:
        raise Invalid("version: must be the id of a deployment of this environment: none has it")
    return await group_of(source, services, row)


async def _entries(ctx: Context, call: Call, group: Group) -> Sequence[LogEntry]:
    """Returns the last log entries of all deployments in a group. Keeps no more than needed in memory."""
    most = call.asked(DeploymentLogQuery).tail
    entries: list[LogEntry] = []
    for past in group:
        await check_log_here(ctx, past.row)
        lines = await asyncio.to_thread(ctx.logs.tail, past.service.id, most, deployment=past.row.id)
        entries += [*_first_entries(past), *(_of_line(past, line) for line in lines), *_end(past)]
        entries.sort(key=_entry_time)
        del entries[:-most]
    return entries


def _entry_time(entry: LogEntry) -> str:
    return entry.at


def _first_entries(deployment: PastDeployment) -> Iterator[LogEntry]:
    who, what = (
        deployment.details.actor.name,
        f"{deployment.row.action} v{deployment.row.number} of {name_of(deployment.service)}",
    )
    queued = deployment.words.queued
    yield _note(deployment, deployment.row.created, queued, queued, f"{what} was asked for by {who}")
    if deployment.details.began:
        step = _first_step(deployment)
        yield _note(deployment, deployment.details.began, step, step, f"{what} began")


def _end(deployment: PastDeployment) -> Iterator[LogEntry]:
    if deployment.details.ended:
        words, state = deployment.words, deployment.state
        step = State.BUILDING if state is State.BUILD_ERROR else words.under_way
        message = (
            deployment.details.message
            or f"{deployment.row.action} v{deployment.row.number} ended: {deployment.row.status}"
        )
        yield _note(deployment, deployment.details.ended, state, step, message)


def _first_step(deployment: PastDeployment) -> State:
    repeats = deployment.details.of is not None
    return (
        State.BUILDING
        if Do(deployment.row.action) in ACTIONS_WITH_BUILD and not repeats
        else deployment.words.under_way
    )


def _note(deployment: PastDeployment, timestamp: int, state: State, step: State, message: str) -> LogEntry:
    return LogEntry(
        stamp(timestamp), str(uuid5(_IDS, f"{deployment.row.id}/{state}")), deployment, state, step, message
    )


def _of_line(deployment: PastDeployment, encoded: bytes) -> LogEntry:
    line = _lines.decode(encoded)
    starts = line.stage in _STARTED_STAGES
    step = deployment.words.under_way if starts else State.BUILDING
    return LogEntry(line.created_at, line.id, deployment, step, step, line.message)


_KNOWN_SCOPES: Final = frozenset({"APPLICATION", "DATABASE"})


def _line(ctx: Context, call: Call, group: Group, entry: LogEntry) -> Document:
    service = entry.past.service
    kind = ctx.registry[service.family].enum_value
    typed = {} if call.dialect.is_full and kind not in _KNOWN_SCOPES else {"type": kind}
    return {
        "id": entry.id,
        "created_at": entry.at,
        "scope": {**typed, "name": name_of(service), "id": service.id},
        "state": logged(entry.state),
        "message": entry.message,
        "execution_id": id_of(group),
    }


def _entry(ctx: Context, environment: Row, group: Group, entry: LogEntry) -> Document:
    service, has_failed = entry.past.service, is_failure(entry.state)
    reason, stage = entry.message.partition(OUTPUT_FOLLOWS)[0], stage_of(ctx, entry.past)
    return {
        "type": "error" if has_failed else "info",
        "timestamp": entry.at,
        "details": {
            "organization_id": service.org,
            "cluster_id": environment.read(EnvironmentShown).cluster_id,
            "execution_id": id_of(group),
            "transmitter": {
                "id": service.id,
                "name": name_of(service),
                "type": ctx.registry[service.family].enum_value,
            },
            "stage": {"step": entry.step, "id": stage.id or None, "name": stage.name},
        },
        "error": {"tag": entry.state, "user_log_message": reason} if has_failed else None,
        "message": {"safe_message": reason, "full_details": entry.message},
    }
