"""What many families can do alike. A trait declares; `control` handles."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.core.access import Scope
from windlass.core.fields import Id, Maybe, Timestamp, absent
from windlass.core.resource import Action, Shown, Spec, Trait


class StatusDetails(Shown):
    action: str
    status: str
    sub_action: str = "NONE"


class Status(Shown):
    """How a service is."""

    id: Id
    state: Annotated[str, Meta(description="RUNNING, STOPPED, ERROR, or a word for work in progress")]
    deployment_state: Annotated[str, Meta(description="The exact state, in the full interface's words")]
    message: Annotated[str, Meta(description="Why it is in this state, where there is something to say")] = ""
    service_deployment_status: Annotated[str, Meta(description="NEVER_DEPLOYED, OUT_OF_DATE or UP_TO_DATE")]
    last_deployment_date: Maybe[Timestamp] = absent
    is_part_last_deployment: bool = False
    status_details: StatusDetails
    execution_id: str = ""
    deployment_request_id: Id | None = None
    deployment_requests_count: int = 0


class Deployment(Shown):
    """One attempt to bring a service up, with the service's status keys beside its own."""

    id: Id
    status: Annotated[
        str, Meta(description="QUEUED, BUILDING, DEPLOYING, SUCCEEDED, FAILED, CANCELED, SUPERSEDED")
    ]
    created_at: Timestamp
    application_id: Maybe[Id] = absent
    service_id: Id
    git_commit_id: Maybe[str] = absent
    message: str = ""
    state: str
    deployment_state: str
    service_deployment_status: str
    last_deployment_date: Maybe[Timestamp] = absent
    is_part_last_deployment: bool = True
    status_details: StatusDetails
    execution_id: str
    deployment_request_id: Id
    deployment_requests_count: int


class DeployRequest(Spec):
    git_commit_id: Maybe[
        Annotated[
            str,
            Meta(
                max_length=64,
                pattern=r"^([0-9a-fA-F]{4,64})?\Z",
                description="A commit of the repository; without it, the head of the branch",
            ),
        ]
    ] = absent


class LogLine(Shown):
    id: Id
    created_at: Timestamp
    message: str
    pod_name: str = ""
    version: str = ""


class Tail(Spec):
    tail: Annotated[int, Meta(ge=1, le=10_000, description="How many of the last lines")] = 1000


def deployable(body: type[Spec] | None = None) -> Trait:
    """Can be deployed, and says how it is."""
    return Trait(
        name="deployable",
        actions=(
            Action(
                name="deploy",
                method="POST",
                suffix="/deploy",
                need=Scope.DEPLOY,
                summary="Deploy",
                body=body,
                answer=Deployment,
                status=202,
                description="Durable when answered; it supersedes an earlier one that still waits.",
            ),
            Action(
                name="status",
                method="GET",
                suffix="/status",
                need=Scope.READ,
                summary="Read the status",
                answer=Status,
            ),
        ),
    )


has_logs = Trait(
    name="has_logs",
    actions=(
        Action(
            name="log",
            method="GET",
            suffix="/log",
            need=Scope.READ,
            summary="Read the last log lines",
            query=Tail,
            answer=LogLine,
            listing=True,
            paged=False,
            description="Exactly the last `tail` lines, oldest first.",
        ),
    ),
)

has_variables = Trait(name="has_variables")
"""Carries environment variables and secrets of its own, and inherits those from above."""
