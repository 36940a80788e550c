"""Decides how the deployment stages of an exported environment are written. Pure.

A new environment has the default stages already, and the provider can name a stage only by its id. So a
default stage is referred to by a service that is placed in it by default, and gets no resource of its own.
All other stages become resources, each placed after the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from windlass.core.deploy.stage_order import DEFAULT_STAGES, Precedence
from windlass.core.words.hcl import Expression, Identifiers

_RENAMED: Final = "{} (exported)"
"""The name of a stage whose own name belongs to a default stage of every new environment."""
_DEFAULT_NAMES: Final = frozenset(stage.name for stage in DEFAULT_STAGES.values())


class PresentStage(NamedTuple):
    """A deployment stage of the environment that is exported."""

    id: str
    name: str
    description: str
    takes: int


class StageMember(NamedTuple):
    """A service, and the address of its resource, such as `qovery_database.orders`."""

    id: str
    stage: str
    precedence: int
    address: str


class StageResource(NamedTuple):
    """A resource for a deployment stage."""

    label: str
    stage: PresentStage
    fields: dict[str, object]


class ExportedStages(NamedTuple):
    resources: list[StageResource]
    stages: dict[str, Expression]
    """The ids of the stages of services, by the ids of the services. Those in the default stage of their kind
    have none."""
    order: list[str]
    """The ids of services, each after those that its stage depends on."""


def export_stages(
    stages: Sequence[PresentStage], services: Sequence[StageMember], type_name: str, environment: Expression
) -> ExportedStages:
    members = {stage.id: [service for service in services if service.stage == stage.id] for stage in stages}
    default = _default_stages(stages, members)
    labels = Identifiers()
    resources: list[StageResource] = []
    ids: dict[str, Expression] = {}
    order: dict[str, None] = {}
    before: Expression | None = None
    for stage in stages:
        taken = default.get(stage.id)
        if taken:
            before = _stage_of(taken)
            order[taken.id] = None
        elif members[stage.id] or stage.name not in _DEFAULT_NAMES:
            place: dict[str, Expression] = {}
            if before:
                place["is_after"] = before
            elif default:
                first = next(iter(default.values()))
                place["is_before"] = _stage_of(first)
                order[first.id] = None
            label = labels.make(stage.name, "stage")
            fields = {"environment_id": environment, **_described(stage), **place}
            resources.append(StageResource(label, stage, fields))
            before = Expression(f"{type_name}.{label}.id")
        for service in members[stage.id]:
            order[service.id] = None
            if before and not (taken and service.precedence == stage.takes):
                ids[service.id] = before
    return ExportedStages(resources, ids, [*order])


def _stage_of(service: StageMember) -> Expression:
    return Expression(f"{service.address}.deployment_stage_id")


def _described(stage: PresentStage) -> dict[str, object]:
    name = _RENAMED.format(stage.name) if stage.name in _DEFAULT_NAMES else stage.name
    return {"name": name, **({"description": stage.description} if stage.description else {})}


def _default_stages(
    stages: Sequence[PresentStage], members: dict[str, list[StageMember]]
) -> dict[str, StageMember]:
    """Returns the stages that a new environment has in this order, each with a service that it takes."""
    found: dict[str, StageMember] = {}
    last = -1
    for stage in stages:
        taken = next((service for service in members[stage.id] if service.precedence == stage.takes), None)
        is_default = stage.takes >= 0 and stage.name == DEFAULT_STAGES[Precedence(stage.takes)].name
        if is_default and taken and stage.takes > last:
            found[stage.id], last = taken, stage.takes
    return found
