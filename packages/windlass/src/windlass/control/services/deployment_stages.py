"""Deployment stages of environments: their order, and the services in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from windlass.base.clock import stamp
from windlass.base.errors import Conflict, Invalid
from windlass.control.context.call import Call, Reply, encode, reads, results, writes
from windlass.control.context.context import Context
from windlass.control.records.deployments import refuse_in_deletion
from windlass.control.records.recording import record
from windlass.control.request import changing
from windlass.control.request.behaviour import Behaviour, Draft, behaves
from windlass.control.request.paths import parent_of, resource_at, target
from windlass.control.request.permissions import Visibility, absent
from windlass.control.request.reading import page_of, with_fields
from windlass.control.request.stage_placement import give_stages, prepare_stages
from windlass.control.services.actions import action_name
from windlass.core.access import Actor
from windlass.core.declare.document import Document
from windlass.core.deploy.stage_order import moved
from windlass.core.words.events import Event
from windlass.families.deployment_stage import DeploymentStage, StagePlacement, deployment_stage
from windlass.store import PlacedService, Reads, Row, StagedServiceRow, StageRow, Tx

MAX_STAGES: Final = 200
"""Maximum number of deployment stages of an environment."""


@behaves(deployment_stage)
class DeploymentStages(Behaviour[DeploymentStage]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[DeploymentStage]) -> None:
        await refuse_in_deletion(tx, draft.above.id)
        if len(await give_stages(ctx, tx, draft.above)) >= MAX_STAGES:
            raise Conflict(f"Delete a stage first: an environment has at most {MAX_STAGES}")

    async def created(self, ctx: Context, tx: Tx, draft: Draft[DeploymentStage]) -> None:
        stages = await tx.deployment_stages.of_environment(draft.above.id)
        stage = StageRow(draft.id, draft.above.id, len(stages) + 1)
        await tx.deployment_stages.add(stage)
        draft.answer |= _shown_fields(stage, ())

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        stages = await tx.deployment_stages.of_environment(row.parent)
        if await tx.deployment_stages.has_services(row.id):
            raise Invalid("Place its services in other stages first: only an empty stage can be deleted")
        if len(stages) == 1:
            raise Invalid("Create another stage first: new services need a stage of their environment")
        await tx.deployment_stages.arrange(stage for stage in stages if stage.id != row.id)


# Stages as clients see them


async def _shown(ctx: Context, reads: Reads, actor: Actor, environment: str, org: str) -> list[bytes]:
    """Returns the stages of an environment that the actor may read, in their order."""
    rows = {row.id: row for row in await reads.resources.of_parent(environment, deployment_stage.name)}
    visibility = Visibility(reads, actor, org)
    services: defaultdict[str, list[Document]] = defaultdict(list)
    for placed in await reads.deployment_stages.services_of_environment(environment):
        if await visibility.includes(placed.family, placed.row.service, environment):
            services[placed.row.stage].append(_shown_service(ctx, placed))
    return [
        with_fields(rows[stage.id].body, _shown_fields(stage, services[stage.id]))
        for stage in await reads.deployment_stages.of_environment(environment)
        if await visibility.includes(deployment_stage.name, stage.id, environment)
    ]


async def _shown_alone(ctx: Context, reads: Reads, actor: Actor, row: Row, body: bytes = b"") -> bytes:
    """Returns one stage. `body`: its document, if it has just changed."""
    stage = await reads.deployment_stages.get(row.id)
    assert stage is not None
    visibility = Visibility(reads, actor, row.org)
    services = [
        _shown_service(ctx, placed)
        for placed in await reads.deployment_stages.services_of_stage(row.id)
        if await visibility.includes(placed.family, placed.row.service, row.parent)
    ]
    return with_fields(body or row.body, _shown_fields(stage, services))


def _shown_fields(stage: StageRow, services: Sequence[Document]) -> Document:
    """Returns the fields of a stage that are not in its stored document."""
    return {"deployment_order": stage.place, "services": services}


def _shown_service(ctx: Context, placed: PlacedService) -> Document:
    row = placed.row
    return {
        "id": row.service,
        "created_at": stamp(row.created),
        "updated_at": stamp(row.changed),
        "service_id": row.service,
        "service_name": placed.name,
        "service_type": ctx.registry[placed.family].enum_value,
        "is_skipped": bool(row.is_skipped),
    }


@reads("stage.list")
async def list_stages(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    environment = await parent_of(source, call)
    await prepare_stages(ctx, environment)
    return page_of(call, await _shown(ctx, source, call.actor, environment.id, environment.org))


@reads("stage.read")
async def read_stage(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    row = await target(source, call)
    return Reply(await _shown_alone(ctx, source, call.actor, row), row.tag)


@reads("service.stage")
async def read_stage_of_service(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    service = await target(source, call)
    environment = await source.resources.get(service.parent)
    assert environment is not None
    await prepare_stages(ctx, environment)
    placed = await source.deployment_stages.service(service.id)
    row = await source.resources.get(placed.stage) if placed else None
    if row is None:
        raise absent("service")
    return Reply(await _shown_alone(ctx, source, call.actor, row))


# Changes


@writes("stage.update")
async def update(ctx: Context, tx: Tx, call: Call) -> Reply:
    return await _with_services(ctx, tx, call, await changing.update(ctx, tx, call))


@writes("stage.patch")
async def patch(ctx: Context, tx: Tx, call: Call) -> Reply:
    return await _with_services(ctx, tx, call, await changing.patch(ctx, tx, call))


async def _with_services(ctx: Context, tx: Tx, call: Call, reply: Reply) -> Reply:
    row = await target(tx, call)
    return replace(reply, body=await _shown_alone(ctx, tx, call.actor, row, reply.body))


@writes("stage.place")
async def place_service(ctx: Context, tx: Tx, call: Call) -> Reply:
    stage = await target(tx, call)
    service = await resource_at(tx, call, call.operation.ids[-1])
    if service.parent != stage.parent:
        raise Invalid("service_id: choose a service of the environment to which the stage belongs")
    before = await tx.deployment_stages.service(service.id)
    assert before is not None
    is_skipped = int(call.sent(StagePlacement).is_skipped)
    if (stage.id, is_skipped) != (before.stage, before.is_skipped):
        after = replace(before, stage=stage.id, is_skipped=is_skipped, changed=tx.now)
        await tx.deployment_stages.place([after])
        await _record_change(ctx, tx, call, stage, _placement(before), _placement(after))
    return await _all_stages(ctx, tx, call, stage)


def _placement(row: StagedServiceRow) -> Document:
    return {"service_id": row.service, "stage_id": row.stage, "is_skipped": bool(row.is_skipped)}


@writes("stage.moveBefore", "stage.moveAfter")
async def move(ctx: Context, tx: Tx, call: Call) -> Reply:
    stage = await target(tx, call)
    other = await resource_at(tx, call, call.operation.ids[-1])
    if other.parent != stage.parent:
        raise Invalid("other_stage_id: choose another stage of the same environment")
    stages = {row.id: row for row in await tx.deployment_stages.of_environment(stage.parent)}
    order = moved([*stages], stage.id, other.id, is_after=action_name(call) == "moveAfter")
    before, after = stages[stage.id].place, order.index(stage.id) + 1
    if after != before:
        await tx.deployment_stages.arrange(stages[id] for id in order)
        await _record_change(ctx, tx, call, stage, {"deployment_order": before}, {"deployment_order": after})
    return await _all_stages(ctx, tx, call, stage)


async def _record_change(
    ctx: Context, tx: Tx, call: Call, stage: Row, old_document: Document, new_document: Document
) -> None:
    """Writes the event of a change that is not in the stored document of a stage."""
    document = msgspec.json.decode(stage.body)
    await record(
        ctx,
        tx,
        Event.UPDATED,
        stage,
        call.actor,
        call,
        old_body=encode(document | old_document),
        new_body=encode(document | new_document),
    )


async def _all_stages(ctx: Context, tx: Tx, call: Call, stage: Row) -> Reply:
    return Reply(results(await _shown(ctx, tx, call.actor, stage.parent, stage.org)))
