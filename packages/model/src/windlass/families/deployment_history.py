"""Past and waiting deployments of a service or of a whole environment, as existing clients list them.

A deployment of an environment is what one request has started: stages in their order, each with its services.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from msgspec import Meta

from windlass.core.declare.actions import get
from windlass.core.declare.fields import Id, Maybe, Timestamp, absent, example
from windlass.core.declare.registry import Actions, AnyOf
from windlass.core.declare.resource import Family, ServiceLists, Shown, Spec
from windlass.core.declare.traits import DeployedVersion, Status, StatusDetails, has_deployments
from windlass.families.environment import EnvironmentStatus, StageSteps, environment

service = AnyOf("service", has_deployments, "service")


class HistoryQuery(Spec):
    """Selects a part of a history."""

    startId: Maybe[
        Annotated[Id, Meta(description="Go on after the entry with this id: the last one of the former page")]
    ] = absent
    pageSize: Annotated[int, Meta(ge=1, le=100, description="Most entries of the answer")] = 20


class StagesHistoryQuery(HistoryQuery):
    """Selects a part of the history of an environment, or one deployment."""

    executionId: Maybe[
        Annotated[
            Id,
            Meta(description="Only the deployment with this `execution_id`, or with one of a service in it"),
        ]
    ] = absent


class ServiceInHistory(DeployedVersion):
    """A deployment of a service, as part of a deployment of its environment."""

    id: Id
    created_at: Timestamp
    updated_at: Timestamp
    name: Annotated[str, example("web")]
    status: Annotated[str, Meta(description="The state after it"), example("DEPLOYED")]


class EnvironmentHistoryEntry(Shown):
    """The deployments that one request has started in an environment."""

    id: Annotated[
        Id, Meta(description="The id of the first of its deployments: the `deployment_request_id` of answers")
    ]
    created_at: Timestamp
    updated_at: Timestamp
    status: Annotated[str, Meta(description="Combined state of its services"), example("DEPLOYED")]
    origin: Annotated[str, example("API")]
    triggered_by: Annotated[str, example("Ada Lovelace")]


class AuditingData(Shown):
    created_at: Timestamp
    updated_at: Timestamp
    triggered_by: Annotated[str, example("Ada Lovelace")]
    origin: Annotated[str, example("API")]


class DeployedService(Shown):
    """A reference to a service and one of its deployments."""

    name: Annotated[str, example("web")]
    service_id: Id
    service_type: Annotated[str, example("APPLICATION")]
    execution_id: Annotated[str, example("db01511f-abe4-5113-a2dc-90c7f2efb14a")]


_DURATION_DESCRIPTION: Final = "in the form of ISO 8601; so far, if it is not finished"
_StageStatus = Annotated[
    str,
    Meta(
        description="QUEUED, ONGOING, DONE, ERROR, CANCELED, or SKIPPED if it did not begin because an "
        "earlier stage failed"
    ),
    example("DONE"),
]


class ServiceHistoryEntry(Shown):
    """A deployment of one service."""

    identifier: DeployedService
    status: Annotated[str, Meta(description="The state after it"), example("DEPLOYED")]
    auditing_data: AuditingData
    details: DeployedVersion
    status_details: StatusDetails
    icon_uri: Annotated[str, example("app://windlass/application")]
    total_duration: Annotated[
        str,
        Meta(description=f"Seconds from its beginning to its end, without waiting, {_DURATION_DESCRIPTION}"),
        example("PT12S"),
    ]
    message: Annotated[str, Meta(description="Why it ended as it did, or why it waits, if known")] = ""
    number: Annotated[int, Meta(description="Counts the deployments of the service, from 1"), example(12)] = 0
    stage_status: _StageStatus = "DONE"


class HistoryStage(Shown):
    """A stage of a deployment, as it was at that time."""

    name: Annotated[str, example("default-applications")]
    deployment_order: Annotated[int, Meta(description="Its place among all stages, from 1"), example(3)] = 1
    status: _StageStatus
    duration: Annotated[
        str,
        Meta(description=f"Seconds from the first beginning to the last end in it, {_DURATION_DESCRIPTION}"),
        example("PT12S"),
    ]
    services: list[ServiceHistoryEntry]


class DeployedEnvironment(Shown):
    execution_id: Annotated[str, example("db01511f-abe4-5113-a2dc-90c7f2efb14a")]
    environment_id: Id


class EnvironmentStagesEntry(Shown):
    """The deployments that one request has started in an environment, by stage."""

    identifier: DeployedEnvironment
    auditing_data: AuditingData
    status: Annotated[str, Meta(description="Combined state of its services"), example("DEPLOYED")]
    trigger_action: Annotated[
        str,
        Meta(
            description="DEPLOY, RESTART, STOP, UNINSTALL or DELETE; of Terraform services alone, also "
            "DEPLOY_DRY_RUN for a plan, TERRAFORM_FORCE_UNLOCK and TERRAFORM_MIGRATE_STATE"
        ),
        example("DEPLOY"),
    ]
    total_duration: Annotated[
        str,
        Meta(description=f"Seconds from the request to the last end, {_DURATION_DESCRIPTION}"),
        example("PT12S"),
    ]
    stages: Annotated[list[HistoryStage], Meta(description="In their order at that time, without empty ones")]
    action_status: Annotated[
        str, Meta(description="QUEUED, ONGOING, SUCCESS, ERROR, CANCELING or CANCELED"), example("SUCCESS")
    ]


class QueuedService(Shown):
    """A reference to a service and one of its deployments that is not finished."""

    deployment_request_id: Id
    service_id: Id
    service_type: Annotated[str, example("APPLICATION")]
    name: Annotated[str, example("web")]


class QueuedDeployment(Shown):
    """A deployment of one service that waits or is in progress."""

    identifier: QueuedService
    auditing_data: AuditingData
    status_details: StatusDetails
    icon_uri: Annotated[str, example("app://windlass/application")]


class QueuedInEnvironment(Shown):
    deployment_request_id: Id
    environment_id: Id


class QueuedStageService(Shown):
    identifier: DeployedService
    status: Annotated[str, Meta(description="QUEUED or ONGOING"), example("QUEUED")]
    icon_uri: Annotated[str, example("app://windlass/application")]
    details: Annotated[Maybe[DeployedVersion], Meta(description="Version and type; jobs alone have it")] = (
        absent
    )


class QueuedStage(Shown):
    name: Annotated[str, example("default-applications")]
    status: Annotated[str, Meta(description="QUEUED or ONGOING"), example("QUEUED")]
    services: list[QueuedStageService]


class QueuedEnvironment(Shown):
    """The deployments of one request that wait or are in progress, by stage."""

    identifier: QueuedInEnvironment
    auditing_data: AuditingData
    trigger_action: Annotated[str, example("DEPLOY")]
    stages: list[QueuedStage]


class StageShown(Shown):
    """A stage of an environment."""

    id: Id
    name: Annotated[str, example("default-applications")]
    description: Annotated[str, example("New applications and containers are placed here")] = ""
    deployment_order: Annotated[int, Meta(description="Its place among the stages, from 1"), example(3)] = 1
    status: Annotated[
        str,
        Meta(
            description="QUEUED, ONGOING, DONE, ERROR, CANCELED, or SKIPPED if none of its services was ever "
            "deployed, or the last deployment did not begin in it, because an earlier stage failed"
        ),
        example("DONE"),
    ]
    steps: Annotated[
        Maybe[StageSteps], Meta(description="Only if the last deployment of the environment had this stage")
    ] = absent


class StageStatuses(Shown):
    """The statuses of the services of one stage."""

    stage: StageShown


class EnvironmentStageStatuses(Shown):
    """The statuses of an environment and of its services, by stage."""

    environment: EnvironmentStatus
    stages: list[StageStatuses] = []


def _list_of_deployments(family: Family) -> tuple[str, Any]:
    return f"{family.name}s", list[ServiceInHistory]


def _list_of_statuses(family: Family) -> tuple[str, Any]:
    return f"{family.name}s", list[Status]


history = ServiceLists(EnvironmentHistoryEntry, _list_of_deployments)
stages = ServiceLists(
    EnvironmentStageStatuses, inside=("stages", ServiceLists(StageStatuses, _list_of_statuses))
)

_GROUPS_DESCRIPTION: Final = (
    "Newest first. Deployments that one request has started together are one entry. Those of services that "
    "were deleted are not kept."
)
_BY_STAGE_DESCRIPTION: Final = (
    "Stages are shown with the name and the order that they had at that time; services with their present "
    "name."
)

of_environments = Actions(
    environment,
    "Deployments",
    (
        get(
            "statusesWithStages",
            EnvironmentStageStatuses,
            "Read the status of each service, by stage",
            "The present deployment stages, in their order, with the time that each took in the last "
            "deployment of the environment.",
            id="getEnvironmentStatusesWithStages",
        ),
        get(
            "deploymentHistory",
            list[EnvironmentHistoryEntry],
            "List past deployments",
            _GROUPS_DESCRIPTION,
            id="listEnvironmentDeploymentHistory",
            query=HistoryQuery,
            paged=False,
        ),
        get(
            "deploymentHistoryV2",
            list[EnvironmentStagesEntry],
            "List past deployments, by stage",
            f"{_GROUPS_DESCRIPTION} {_BY_STAGE_DESCRIPTION}",
            id="listEnvironmentDeploymentHistoryV2",
            query=StagesHistoryQuery,
            paged=False,
        ),
        get(
            "deploymentQueue",
            list[QueuedEnvironment],
            "List deployments that wait or are under way",
            "One entry for each request, the oldest first, with the services that are left of it.",
            id="listEnvironmentDeploymentQueue",
            paged=False,
        ),
    ),
)

of_each_kind = Actions(
    has_deployments,
    "Deployments",
    (
        get(
            "deploymentHistoryV2",
            list[ServiceHistoryEntry],
            "List past deployments, with their versions",
            "Newest first, with those that wait or are under way.",
            query=HistoryQuery,
            paged=False,
        ),
    ),
)

of_services = Actions(
    service,
    "Deployments",
    (
        get(
            "deploymentQueue",
            list[QueuedDeployment],
            "List deployments that wait or are under way",
            id="listServiceDeploymentQueue",
            paged=False,
        ),
    ),
)
