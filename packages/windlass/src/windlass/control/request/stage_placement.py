"""Gives environments their deployment stages, and places new services in them.

A new environment gets the default stages, or copies of those of the environment that it is a copy of. An
environment of an earlier version gets them when they are needed first. From then on, each of its services is
in exactly one stage.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from windlass.base import ids
from windlass.control.context.context import Context
from windlass.control.request.behaviour import Draft
from windlass.control.request.creating import store_draft
from windlass.core.access import Actor
from windlass.core.declare.resource import Spec
from windlass.core.deploy.stage_order import DEFAULT_STAGES, stage_for
from windlass.families.deployment_stage import DeploymentStage, deployment_stage
from windlass.store import Row, StagedServiceRow, StageRow, Tx


class _NewStage(NamedTuple):
    spec: DeploymentStage
    takes: int


_DEFAULTS = [
    _NewStage(DeploymentStage(name=stage.name, description=stage.description), precedence)
    for precedence, stage in DEFAULT_STAGES.items()
]


_NOBODY = Actor(id="", name="", subject="", permits={})
"""The actor of default stages, which have no events of their own."""


async def give_stages(ctx: Context, tx: Tx, environment: Row, like: Row | None = None) -> list[StageRow]:
    """Gives an environment its stages unless it has some, and places its services in them. Returns the stages
    in their order.

    `like`: the environment from which the stages are copied. Without one, or if it has none, the default
    stages are created.
    """
    if present := await tx.deployment_stages.of_environment(environment.id):
        return present
    copied = await _copies(tx, like) if like else []
    stages = [
        await _add(ctx, tx, environment, place, new) for place, new in enumerate(copied or _DEFAULTS, 1)
    ]
    placed = [
        _placed(ctx, tx, stages, family, service.id, environment.id)
        for family in ctx.kinds
        for service in await tx.resources.of_parent(environment.id, family)
    ]
    await tx.deployment_stages.place(placed)
    return stages


async def _copies(tx: Tx, environment: Row) -> list[_NewStage]:
    rows = {row.id: row for row in await tx.resources.of_parent(environment.id, deployment_stage.name)}
    return [
        _NewStage(rows[stage.id].read(DeploymentStage), stage.takes)
        for stage in await tx.deployment_stages.of_environment(environment.id)
    ]


async def _add(ctx: Context, tx: Tx, environment: Row, position: int, new_stage: _NewStage) -> StageRow:
    draft: Draft[Spec] = Draft(
        deployment_stage, ids.new_id(), environment.org, environment, new_stage.spec, _NOBODY, {}, {}
    )
    await store_draft(ctx, tx, draft)
    stage = StageRow(draft.id, environment.id, position, new_stage.takes)
    await tx.deployment_stages.add(stage)
    return stage


def _placed(
    ctx: Context, tx: Tx, stages: Iterable[StageRow], family: str, service: str, environment: str
) -> StagedServiceRow:
    """Returns the placement of a service in the stage of its kind."""
    precedence = ctx.kinds[family].precedence
    stage = stage_for([(stage.id, stage.takes) for stage in stages], precedence)
    return StagedServiceRow(service, environment, stage, 0, tx.now, tx.now)


async def place_new(ctx: Context, tx: Tx, draft: Draft[Spec]) -> None:
    """Places a new service. A copy is placed in the stage of the original, or in the one of this name in
    another environment, if there is such a stage."""
    precedence = ctx.kinds[draft.family.name].precedence
    if not draft.copy_of and await tx.deployment_stages.place_by_default(
        draft.id, draft.above.id, precedence
    ):
        return
    stages = await give_stages(ctx, tx, draft.above)
    row = _placed(ctx, tx, stages, draft.family.name, draft.id, draft.above.id)
    if draft.copy_of:
        row = await _like_original(tx, row, draft.copy_of)
    await tx.deployment_stages.place([row])


async def _like_original(tx: Tx, row: StagedServiceRow, original_row: Row) -> StagedServiceRow:
    placed = await tx.deployment_stages.service(original_row.id)
    stage = await tx.resources.get(placed.stage) if placed else None
    if placed is None or stage is None or stage.name is None:
        return row
    if original_row.parent != row.environment:
        stage = await tx.resources.named(row.environment, deployment_stage.name, stage.name)
    if stage is None:
        return row
    return StagedServiceRow(
        row.service, row.environment, stage.id, placed.is_skipped, row.created, row.changed
    )


async def prepare_stages(ctx: Context, environment: Row) -> None:
    """Gives an environment of an earlier version its stages before they are read."""
    if not await ctx.store.reads.deployment_stages.of_environment(environment.id):

        async def give(tx: Tx) -> None:
            if await tx.resources.get(environment.id):
                await give_stages(ctx, tx, environment)

        await ctx.store.write(give)


async def place_of(ctx: Context, tx: Tx, service: Row) -> int:
    """Returns the place of a service's stage in its environment, from 1; 0 if the service was deleted."""
    place = await tx.deployment_stages.place_of(service.id)
    if place is None and await tx.resources.get(service.id):
        environment = await tx.resources.get(service.parent)
        if environment:
            await give_stages(ctx, tx, environment)
            place = await tx.deployment_stages.place_of(service.id)
    return place or 0
