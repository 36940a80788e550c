"""A deployment rule of a project: how a new environment begins whose name matches."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, field

from windlass.core.declare.actions import put
from windlass.core.declare.deployment_rules import (
    ALL_DAYS,
    START,
    STOP,
    AutoStop,
    StartTime,
    StopTime,
    Weekday,
    Zone,
    check_hours,
)
from windlass.core.declare.fields import Description, Id, Maybe, Name, absent, example, refers
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Family, Shown, Spec
from windlass.families.project import project

_OPERATION_GROUP = "Deployment Rules"


class ProjectDeploymentRule(Spec):
    name: Annotated[Name, example("Short-lived")]
    description: Annotated[Description | None, example("Stopped at night")] = ""
    wildcard: Annotated[
        str,
        Meta(
            max_length=255,
            description="Names of environments, compared without regard to case; * stands for any letters, "
            "? for one. An empty one matches none",
        ),
        example("test-*"),
    ] = ""
    mode: Annotated[
        Literal["DEVELOPMENT", "STAGING", "PRODUCTION"],
        example("DEVELOPMENT"),
        Meta(description="The mode of a new environment that names none but DEVELOPMENT"),
    ]
    cluster_id: Maybe[
        Annotated[
            Id,
            refers("cluster"),
            Meta(
                description="The cluster of a new environment that names none. Left out: the first of the "
                "organization"
            ),
        ]
    ] = absent
    auto_stop: AutoStop = False
    timezone: Zone = "UTC"
    start_time: StartTime = START
    stop_time: StopTime = STOP
    weekdays: Annotated[list[Weekday], Meta(max_length=7, description="Days on which it is started")] = field(
        default_factory=lambda: [*ALL_DAYS]
    )


class ProjectDeploymentRuleShown(Shown):
    description: Annotated[str, example("Stopped at night")] = ""
    cluster_id: Id
    priority_index: Annotated[
        int, Meta(description="The rule with the lowest one applies, of those that match"), example(0)
    ] = 0


class RulesInOrder(Spec):
    """The order of the rules of a project."""

    project_deployment_rule_ids_in_order: Annotated[
        list[Id], Meta(max_length=1000, description="All rules of the project, the first one first")
    ]


def normalise(spec: ProjectDeploymentRule) -> None:
    spec.description = spec.description or ""
    check_hours(spec)


def with_former_fields(document: dict[str, Any]) -> dict[str, Any]:
    """Returns a rule with the fields that clients of 2022 require, which no longer exist."""
    return {**document, "auto_deploy": True, "auto_delete": False}


project_deployment_rule = Family(
    "projectDeploymentRule",
    ProjectDeploymentRule,
    parent=project,
    segment="deploymentRule",
    title="ProjectDeploymentRule",
    shown=ProjectDeploymentRuleShown,
    group=_OPERATION_GROUP,
    nested=True,
    param="rule_id",
    normalise=normalise,
    in_full=with_former_fields,
    about="It changes no environment that exists. A new rule comes last in the order.",
)

of_projects = Actions(
    project,
    _OPERATION_GROUP,
    (
        put(
            "orderRules",
            None,
            "Change the order of deployment rules",
            id="updateDeploymentRulesPriorityOrder",
            suffix="/deploymentRule/order",
            body=RulesInOrder,
            also=(409,),
        ),
    ),
)
