"""A deployment stage: a place in the order in which the services of an environment are deployed."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType

from windlass.core.declare.actions import Itself, get, put
from windlass.core.declare.exported import ExportedResource, same
from windlass.core.declare.fields import Description, Id, Name, Timestamp, example, id_of_subject
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Family, Owner, Shown, Spec
from windlass.core.words.audit import AuditWords
from windlass.families.deployment_history import service
from windlass.families.environment import environment


class DeploymentStage(Spec):
    name: Annotated[Name, example("migrations")]
    description: Annotated[Description | None, example("Before anything else uses the new tables")] = ""


class StagedService(Shown):
    """A service in its deployment stage."""

    id: Annotated[Id, id_of_subject(), Meta(description="The same as `service_id`")]
    created_at: Timestamp
    updated_at: Annotated[Timestamp, Meta(description="When it was placed in this stage, or left out of it")]
    service_id: Annotated[Id, id_of_subject()]
    service_name: Annotated[str, example("web")]
    service_type: Annotated[str, example("APPLICATION")]
    is_skipped: Annotated[
        bool, Meta(description="Whether deployments of the whole environment leave it out")
    ] = False


class DeploymentStageShown(Shown):
    description: Annotated[str, example("Before anything else uses the new tables")] = ""
    environment: Owner
    deployment_order: Annotated[
        int | UnsetType, Meta(description="The place among the stages of the environment, from 1"), example(2)
    ] = UNSET
    services: Annotated[
        list[StagedService] | UnsetType,
        Meta(description="The services in it, the oldest first"),
        example([]),
    ] = UNSET


class StagePlacement(Spec):
    """How a service is placed in a stage."""

    is_skipped: Annotated[
        bool, Meta(description="Whether deployments of the whole environment leave the service out")
    ] = False


def normalise(spec: DeploymentStage) -> None:
    """Stores an empty description instead of null, because existing clients expect a text."""
    spec.description = spec.description or ""


_OPERATION_GROUP: Final = "Deployment Stages"
_PLACE_DESCRIPTION: Final = (
    "Takes the service out of its present stage: a service is in exactly one stage of its environment. "
    "Answers all stages of the environment in their order."
)
_MOVE_DESCRIPTION: Final = "Answers all stages of the environment in their new order."

deployment_stage = Family(
    "stage",
    DeploymentStage,
    parent=environment,
    segment="deploymentStage",
    title="DeploymentStage",
    shown=DeploymentStageShown,
    group=_OPERATION_GROUP,
    created_status=200,
    normalise=normalise,
    audit=AuditWords(sub_target="DEPLOYMENT_STAGE", is_part=True),
    actions=(
        put(
            "moveBefore",
            list[Itself],
            "Move it before another stage",
            _MOVE_DESCRIPTION,
            suffix="/moveBefore/{other_stage_id}",
            ids={"other_stage_id": "stage"},
            paged=False,
        ),
        put(
            "moveAfter",
            list[Itself],
            "Move it after another stage",
            _MOVE_DESCRIPTION,
            suffix="/moveAfter/{other_stage_id}",
            ids={"other_stage_id": "stage"},
            paged=False,
        ),
    ),
    exported=ExportedResource(
        "qovery_deployment_stage", same("name description"), unread=frozenset({"is_after", "is_before"})
    ),
    about="It comes last in the order. An environment begins with a stage for databases, one for jobs and "
    "one for applications; new services are placed in the stage of their kind.",
)

of_stages = Actions(
    deployment_stage,
    _OPERATION_GROUP,
    (
        put(
            "place",
            list[Itself],
            "Place a service in it",
            _PLACE_DESCRIPTION,
            id="attachServiceToDeploymentStage",
            suffix="/service/{service_id}",
            ids={"service_id": service.name},
            body=StagePlacement,
            paged=False,
        ),
    ),
)
of_services = Actions(
    service,
    _OPERATION_GROUP,
    (
        get(
            "stage",
            deployment_stage.view,
            "Read the deployment stage in which it is",
            id="getServiceDeploymentStage",
            suffix="/deploymentStage",
        ),
    ),
)
