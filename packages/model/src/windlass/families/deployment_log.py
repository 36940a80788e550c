"""The log of a deployment of an environment: what became of each service, with the lines of its build."""

from typing import Annotated, Final

from msgspec import Meta

from windlass.core.declare.actions import get
from windlass.core.declare.fields import Id, Maybe, Timestamp, absent, example
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Shown, Spec
from windlass.families.environment import environment


class DeploymentLogQuery(Spec):
    """Selects a deployment of an environment, and the last lines of its log."""

    version: Annotated[
        Maybe[Id],
        Meta(description="Id of an entry of the history of deployments; without it, the newest one"),
    ] = absent
    tail: Annotated[int, Meta(ge=1, le=10_000, description="Number of last lines")] = 1000


class LogScope(Shown):
    """The service that a line is about."""

    type: Annotated[
        Maybe[str],
        Meta(description="Its kind. Under `/compat`, left out for kinds that clients there do not know"),
        example("APPLICATION"),
    ] = absent
    name: Annotated[str, example("web")]
    id: Id


_Execution = Annotated[
    str,
    Meta(description="Id of the entry in the history of deployments"),
    example("db01511f-abe4-5113-a2dc-90c7f2efb14a"),
]


class EnvironmentLogLine(Shown):
    """A line of the log of a deployment."""

    id: Id
    created_at: Timestamp
    scope: LogScope
    state: Annotated[
        str,
        Meta(
            description="State of the service then, such as WAITING, DEPLOYMENT_IN_PROGRESS, DEPLOYED, "
            "DEPLOYMENT_ERROR or CANCELED"
        ),
        example("DEPLOYMENT_IN_PROGRESS"),
    ]
    message: Annotated[str, example("Building 9f2c4e1b7a60")]
    execution_id: _Execution


class LogTransmitter(Shown):
    """The service that an entry is about."""

    id: Id
    name: Annotated[str, example("web")]
    type: Annotated[str, example("APPLICATION")]


class LogStage(Shown):
    """The deployment stage of the service at that time, and the step of the deployment."""

    step: Annotated[
        str, Meta(description="State during the step, such as QUEUED or BUILDING"), example("BUILDING")
    ]
    id: Annotated[Id | None, Meta(description="Null for deployments of earlier versions")]
    name: Annotated[str, example("default-applications")]


class LogDetails(Shown):
    organization_id: Id
    cluster_id: Id
    execution_id: _Execution
    transmitter: LogTransmitter
    stage: LogStage


class EntryMessage(Shown):
    safe_message: Annotated[
        str, Meta(description="The line; of a failure, the reason"), example("Building 9f2c4e1b7a60")
    ]
    full_details: Annotated[
        str, Meta(description="The same; of a failure, with the last lines"), example("Building 9f2c4e1b7a60")
    ]


class LogError(Shown):
    """A failure."""

    tag: Annotated[str, Meta(description="The state, such as BUILD_ERROR"), example("BUILD_ERROR")]
    user_log_message: Annotated[str, example("The build failed: no such package")]


class EnvironmentLogEntry(Shown):
    """An entry of the log of a deployment, with its place in the deployment."""

    type: Annotated[str, Meta(description="info, or error for a failure"), example("info")]
    timestamp: Timestamp
    details: LogDetails
    error: LogError | None
    message: EntryMessage


_LOG_DESCRIPTION: Final = (
    "The deployments that one request has started, oldest line first: for each service when it was queued, "
    "began and ended, with the lines of its build and of its release command. The output of services "
    "that run is in their own logs."
)

of_environments = Actions(
    environment,
    "Deployments",
    (
        get(
            "deploymentLog",
            list[EnvironmentLogLine],
            "Read the log of a deployment",
            _LOG_DESCRIPTION,
            suffix="/log",
            id="getEnvironmentLog",
            query=DeploymentLogQuery,
            paged=False,
        ),
        get(
            "deploymentLogEntries",
            list[EnvironmentLogEntry],
            "Read the log of a deployment, with the step of each line",
            f"{_LOG_DESCRIPTION} The answer is an array, without `results` around it.",
            suffix="/logs",
            id="listEnvironmentLogs",
            query=DeploymentLogQuery,
            paged=False,
            is_array=True,
        ),
    ),
)
