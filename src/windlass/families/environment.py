"""An environment: a set of services that run together on one cluster."""

from typing import Annotated, Literal

from msgspec import Meta

from windlass.core.access import Scope
from windlass.core.fields import Id, Maybe, Name, Timestamp, absent, fixed, refers
from windlass.core.resource import Action, Family, Owner, Shown, Spec, clash
from windlass.core.traits import CancelRequest, CommitId, Link, Onward, Status, StatusDetails, has_variables
from windlass.families.project import project


class Environment(Spec):
    name: Name
    mode: Literal["DEVELOPMENT", "STAGING", "PRODUCTION"] = "DEVELOPMENT"
    cluster_id: Maybe[Annotated[Id, refers("cluster"), fixed()]] = absent
    cluster: Maybe[Annotated[Id, refers("cluster"), fixed()]] = absent


class CloudProvider(Shown):
    provider: str
    cluster: Id


class EnvironmentShown(Shown):
    mode: Literal["DEVELOPMENT", "STAGING", "PRODUCTION", "PREVIEW"]
    organization: Owner
    project: Owner
    cluster_id: Id
    cluster: Maybe[Id] = absent
    cluster_name: str
    cloud_provider: CloudProvider
    last_updated_by: Maybe[Id] = absent
    expires_at: Timestamp | None = None


class EnvironmentStatus(Shown):
    """How an environment is: worked out of its services."""

    id: Id
    state: Annotated[str, Meta(description="What its services are, the loudest word first")]
    deployment_state: Annotated[str, Meta(description="The exact state, in the full interface's words")]
    last_deployment_state: str
    last_deployment_date: Timestamp | None = None
    last_deployment_id: str | None = None
    deployment_request_id: Id | None = None
    total_deployment_duration_in_seconds: int | None = None
    origin: str = "API"
    triggered_by: str | None = None
    deployment_status: Annotated[str, Meta(description="NEVER_DEPLOYED, OUT_OF_DATE or UP_TO_DATE")]
    # With the rest, it is a `Status` as well: as such, existing clients read the answer to a deploy.
    service_deployment_status: Annotated[str, Meta(description="The same as `deployment_status`")]
    is_part_last_deployment: bool = False
    status_details: StatusDetails
    execution_id: str = ""
    deployment_requests_count: int = 0


class EnvironmentStatuses(Shown):
    environment: EnvironmentStatus
    applications: list[Status] = []
    containers: list[Status] = []
    jobs: list[Status] = []
    databases: list[Status] = []
    helms: list[Status] = []
    terraforms: list[Status] = []


class EnvironmentChanges(EnvironmentStatuses):
    """The environment and those of its services whose status is another than was told before."""

    complete: Annotated[bool, Meta(description="Whether this is everything, and not only what changed")]
    removed: Annotated[list[Id], Meta(description="Services that are no more")] = []


class ChosenApplication(Spec):
    application_id: Id
    git_commit_id: Maybe[CommitId] = absent


class ChosenToDeploy(Spec):
    applications: list[ChosenApplication] = []
    databases: list[Id] = []


class ChosenServices(Spec):
    application_ids: list[Id] = []
    database_ids: list[Id] = []


def _all(name: str, summary: str, description: str, body: type[Spec] | None = None) -> Action:
    return Action(
        name=name,
        method="POST",
        suffix=f"/{name}",
        need=Scope.DEPLOY,
        summary=summary,
        body=body,
        answer=EnvironmentStatus,
        status=202,
        description=description,
    )


def _some(name: str, body: type[Spec], summary: str, need: Scope = Scope.DEPLOY) -> Action:
    """With chosen services of the environment."""
    return Action(
        name=f"service/{name}",
        id=f"{name.split('-')[0]}ChosenServices",
        method="POST",
        suffix=f"/service/{name}",
        need=need,
        summary=summary,
        body=body,
        answer=EnvironmentStatus if name in {"deploy", "restart-service"} else None,
        status=202 if name in {"deploy", "restart-service"} else 200,
        description="Nothing is done unless all of them are services of this environment.",
    )


ACTIONS = (
    _all("deploy", "Deploy all services", "Databases first: the others wait for them."),
    _all("redeploy", "Deploy all services again, the same versions", "With the settings as they are now."),
    _all("stop", "Stop all services", "Data, settings and history stay."),
    _all("uninstall", "Remove what runs and its data, keep the settings", "For all services."),
    _all(
        "cancelDeployment",
        "Cancel what waits or is under way",
        "409 if there is nothing to cancel.",
        CancelRequest,
    ),
    Action(
        name="status",
        method="GET",
        suffix="/status",
        need=Scope.READ,
        summary="Read the status of all services together",
        answer=EnvironmentStatus,
    ),
    Action(
        name="statuses",
        method="GET",
        suffix="/statuses",
        need=Scope.READ,
        summary="Read the status of each service",
        answer=EnvironmentStatuses,
    ),
    Action(
        name="status/stream",
        id="followEnvironmentStatus",
        method="GET",
        suffix="/status/stream",
        need=Scope.READ,
        summary="Follow the status of each service",
        query=Onward,
        answer=EnvironmentChanges,
        streams=True,
        description=(
            "A stream of server-sent events: first all statuses as they are now, then on each change the "
            "environment and the services that have changed. It always begins with all, also with a "
            "`Last-Event-ID`: nobody has to know what he missed. `end` says that the environment was deleted."
        ),
    ),
    Action(
        name="link",
        method="GET",
        suffix="/link",
        need=Scope.READ,
        summary="List the addresses of all services",
        answer=Link,
        listing=True,
        paged=False,
    ),
    _some("deploy", ChosenToDeploy, "Deploy chosen services"),
    _some("restart-service", ChosenServices, "Restart chosen services"),
    _some("stop", ChosenServices, "Stop chosen services"),
    _some("uninstall", ChosenServices, "Uninstall chosen services"),
    _some("delete", ChosenServices, "Delete chosen services", Scope.ADMIN),
)


def settle(spec: Environment) -> None:
    """`cluster` is the full interface's word for `cluster_id`: either will do, both must agree."""
    if spec.cluster_id and spec.cluster and spec.cluster_id != spec.cluster:
        raise clash("cluster", "differs from cluster_id: send one of them")
    spec.cluster_id = spec.cluster_id or spec.cluster
    spec.cluster = absent


environment = Family(
    "environment",
    Environment,
    parent=project,
    shown=EnvironmentShown,
    title="Environment",
    group="Environments",
    param="env_id",
    counted_as="associated_environments_count",
    settle=settle,
    traits=(has_variables,),
    actions=ACTIONS,
    about="Without `cluster_id` it runs on the organization's first cluster.",
)
