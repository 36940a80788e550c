"""An environment: a set of services that run together on one cluster."""

from functools import partial
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, field

from windlass.core.access import Scope
from windlass.core.declare.actions import Itself, get, post
from windlass.core.declare.clone_previews import SHOW_CLONE, ClonePreview
from windlass.core.declare.deployment_rules import DeploymentRule
from windlass.core.declare.exported import ALL_VARIABLES, Attribute, ExportedResource, same
from windlass.core.declare.fields import (
    WITHOUT_EFFECT,
    Id,
    Maybe,
    Name,
    Timestamp,
    absent,
    always_refused,
    example,
    fixed,
    id_of_subject,
    refers,
    shown_in_examples,
    takes_names,
)
from windlass.core.declare.queries import Removal
from windlass.core.declare.resource import Family, Owner, ServiceLists, Shown, Spec, clash
from windlass.core.declare.rollbacks import (
    ROLLBACK_OF_ENVIRONMENT,
    SHOW_ENVIRONMENT_DIFFERENCE,
    EnvironmentRollback,
    EnvironmentRollbackDifference,
    EnvironmentRollbackQuery,
)
from windlass.core.declare.traits import (
    CancelRequest,
    Link,
    Status,
    StatusDetails,
    StreamOptions,
    has_variables,
    holds_services,
)
from windlass.families.project import project


class Environment(Spec):
    name: Annotated[Name, example("production")]
    mode: Annotated[
        Literal["DEVELOPMENT", "STAGING", "PRODUCTION"],
        example("PRODUCTION"),
        Meta(description="Webhooks can be limited to environments of a mode"),
    ] = "DEVELOPMENT"
    cluster_id: Maybe[Annotated[Id, refers("cluster"), fixed()]] = absent
    cluster: Maybe[Annotated[Id, refers("cluster"), fixed()]] = absent


class CloudProvider(Shown):
    provider: Annotated[str, example("ON_PREMISE")]
    cluster: Id


class PreviewOfEnvironment(Shown):
    """The pull request or branch that an environment is the preview of."""

    id: Id
    environment_id: Annotated[Id, Meta(description="The environment of which it is a copy")]
    pull_request: Annotated[Maybe[int], example(12)] = absent
    url: Annotated[
        str, Meta(description="Address of the pull request"), example("https://github.com/acme/shop/pull/12")
    ] = ""
    without_secrets: Annotated[
        bool, Meta(description="True for a fork: its services get no secrets from above the environment")
    ] = False


class EnvironmentShown(Shown):
    mode: Annotated[Literal["DEVELOPMENT", "STAGING", "PRODUCTION", "PREVIEW"], example("PRODUCTION")]
    organization: Owner
    project: Owner
    cluster_id: Id
    cluster: Annotated[Maybe[Id], shown_in_examples()] = absent
    cluster_name: Annotated[str, example("local")]
    cloud_provider: CloudProvider
    last_updated_by: Maybe[Id] = absent
    expires_at: Annotated[Timestamp | None, example(None)] = None
    preview: Annotated[Maybe[PreviewOfEnvironment], Meta(description="Only of a preview: what it shows")] = (
        absent
    )
    deployment_rule: Annotated[
        Maybe[DeploymentRule], Meta(description="Whether pull requests get previews, once that was set")
    ] = absent


class StageStep(Shown):
    """The time of a part of a deployment stage."""

    stage_id: Id
    step_name: Annotated[
        str,
        Meta(description="QUEUEING: from the request to the beginning of the stage; TOTAL: with the rest"),
        example("TOTAL"),
    ]
    status: Annotated[
        Maybe[str], Meta(description="SUCCESS, ERROR, CANCEL or SKIP, once it has ended"), example("SUCCESS")
    ] = absent
    duration_sec: Annotated[int, example(12)]


class StageSteps(Shown):
    """The times of a deployment stage in the last deployment of its environment."""

    stage_id: Id
    total_duration_sec: Annotated[
        int | None, Meta(description="From the first beginning to the last end in it"), example(12)
    ] = None
    details: list[StageStep] = []


class EnvironmentStatus(Shown):
    """The status of an environment, computed from its services."""

    id: Annotated[Id, id_of_subject()]
    state: Annotated[str, Meta(description="Combined state of its services"), example("RUNNING")]
    deployment_state: Annotated[
        str, Meta(description="The exact state, in the full interface's words"), example("DEPLOYED")
    ]
    last_deployment_state: Annotated[str, example("DEPLOYED")]
    last_deployment_date: Timestamp | None = None
    last_deployment_id: Annotated[str | None, example("db01511f-abe4-5113-a2dc-90c7f2efb14a")] = None
    deployment_request_id: Id | None = None
    total_deployment_duration_in_seconds: Annotated[
        int | None,
        Meta(description="Of the last deployment of the whole environment, from the request to its end"),
    ] = None
    origin: Annotated[str, Meta(description="Where that was asked for")] = "API"
    triggered_by: Annotated[str | None, Meta(description="Who asked for it"), example("Ada Lovelace")] = None
    metrics: Annotated[
        Maybe[list[StageSteps]], Meta(description="The times of its stages, in `statusesWithStages`")
    ] = absent
    deployment_status: Annotated[
        str, Meta(description="NEVER_DEPLOYED, OUT_OF_DATE or UP_TO_DATE"), example("UP_TO_DATE")
    ]
    # Existing clients read the response to a deployment as a `Status`, so the fields of `Status` are
    # included.
    service_deployment_status: Annotated[
        str, Meta(description="The same as `deployment_status`"), example("UP_TO_DATE")
    ]
    is_part_last_deployment: bool = False
    status_details: StatusDetails
    execution_id: Annotated[str, example("db01511f-abe4-5113-a2dc-90c7f2efb14a")] = ""
    deployment_requests_count: int = 0


class EnvironmentStatuses(Shown):
    environment: EnvironmentStatus


class EnvironmentChanges(EnvironmentStatuses):
    """The status of an environment, and of its services that have changed since the last message."""

    complete: Annotated[bool, Meta(description="True if all services are listed, not only changed ones")]
    removed: Annotated[list[Id], Meta(description="Ids of deleted services")] = []


class ChosenToDeploy(Spec):
    """Services to deploy, each with a version if its kind has versions."""


class ChosenServices(Spec):
    """Services by their ids."""


_DEPLOYED_DESCRIPTION: Final = "Services to deploy, each by its id and once"


def _list_of_statuses(family: Family) -> tuple[str, Any]:
    return f"{family.name}s", list[Status]


def _chosen_to_deploy(family: Family) -> tuple[str, Any]:
    chosen = next((trait.chosen for trait in family.traits if trait.chosen), Id)
    return f"{family.name}s", Annotated[
        list[chosen], Meta(description=_DEPLOYED_DESCRIPTION), shown_in_examples()  # type: ignore[valid-type]
    ]


def _chosen_ids(family: Family) -> tuple[str, Any]:
    return f"{family.name}_ids", Annotated[
        list[Annotated[Id, takes_names(family.name)]],
        Meta(description=f"Ids of each {family.name} that is chosen"),
        example(["de91e45f-0247-51fc-b13b-c226b8a6d12c"]),
    ]


statuses = ServiceLists(EnvironmentStatuses, _list_of_statuses)
changes = ServiceLists(EnvironmentChanges, _list_of_statuses)
to_deploy = ServiceLists(ChosenToDeploy, _chosen_to_deploy)
chosen = ServiceLists(ChosenServices, _chosen_ids)


class TerraformExportQuery(Spec):
    """The query of an export."""

    export_secrets: Annotated[
        bool,
        always_refused("values of secrets are never answered; the files have a variable for each secret"),
    ] = field(name="exportSecrets", default=False)


class JobsToClean(Spec):
    job_ids: Annotated[
        list[Annotated[Id, takes_names("job")]],
        Meta(description="Ids of jobs of this environment; empty for all"),
        example(["de91e45f-0247-51fc-b13b-c226b8a6d12c"]),
    ] = []


class CleanedJobs(Shown):
    clean_job_ids: Annotated[
        list[Id], Meta(description="Jobs of which failed runs were deleted"), example([])
    ] = []
    clean_kubernetes_jobs: Annotated[
        list[str], Meta(description="Ids of the runs that were deleted"), example([])
    ] = []


class EnvironmentCloneRequest(Spec):
    name: Annotated[Name, example("staging")]
    cluster_id: Annotated[
        Maybe[Annotated[Id, refers("cluster")]], Meta(description="Without it, that of the environment")
    ] = absent
    mode: Annotated[
        Maybe[Literal["DEVELOPMENT", "STAGING", "PRODUCTION"]],
        Meta(description="Without it, that of the environment"),
    ] = absent
    project_id: Annotated[
        Maybe[Annotated[Id, refers("project")]], Meta(description="Without it, that of the environment")
    ] = absent
    apply_deployment_rule: Annotated[bool, WITHOUT_EFFECT] = False


_CLONE_DESCRIPTION: Final = (
    "Copies the environment with all its services, their settings, variables and secrets: all or nothing. "
    "Data is not copied, and nothing is deployed. Aliases and overrides refer to the copies; those of "
    "variables that the copy does not see, because it is in another project, are left out."
)
_EXPORT: Final = (
    "A ZIP archive with the configuration of the project, the environment, its stages and its services, for "
    "the Terraform provider of the full interface. It has what the caller may read. Values of secrets are "
    "not in it: each is an input variable."
)
_MANIFESTS: Final = (
    "A file of YAML with the services as plain manifests of Kubernetes, which run without Windlass in any "
    "namespace. It has what the caller may read. Values of secrets are not in it: each is a placeholder. The "
    "file begins with a list of the placeholders, and of what it does not contain."
)
_FOLLOW_DESCRIPTION: Final = (
    "A stream of server-sent events: first all present statuses, then after each change the environment "
    "and the services that have changed. It always begins with all, also with a `Last-Event-ID`, so a "
    "client cannot miss a change. `end` says that the environment was deleted."
)
_CHOSEN_DESCRIPTION: Final = "Does nothing unless all of them are services of this environment."
_start = partial(post, need=Scope.DEPLOY)

ENVIRONMENT_ACTIONS = (
    _start(
        "deploy",
        EnvironmentStatus,
        "Deploy all services",
        "In the order of the deployment stages of the environment: by default, databases come first, then "
        "jobs and the like, then programs. Each service waits for those of earlier stages. A service that "
        "is skipped there is left out.",
    ),
    _start(
        "redeploy",
        EnvironmentStatus,
        "Deploy all services again, the same versions",
        "With the present settings. A service that is skipped in its deployment stage is left out.",
    ),
    _start(
        "rollback",
        EnvironmentStatus,
        "Go back to an earlier deployment of the environment",
        ROLLBACK_OF_ENVIRONMENT,
        body=EnvironmentRollback,
        also=(409,),
    ),
    get(
        "rollbackDifference",
        EnvironmentRollbackDifference,
        "Show what a rollback would change",
        SHOW_ENVIRONMENT_DIFFERENCE,
        query=EnvironmentRollbackQuery,
    ),
    _start("stop", EnvironmentStatus, "Stop all services", "Data, settings and history stay."),
    post(
        "uninstall",
        EnvironmentStatus,
        "Remove instances and data, keep the settings",
        "For all services.",
        need=Scope.ADMIN,
        starts=True,
    ),
    post(
        "clone",
        Itself,
        "Copy it with all its services",
        _CLONE_DESCRIPTION,
        body=EnvironmentCloneRequest,
        status=202,
        also=(409,),
    ),
    post(
        "clonePreview",
        ClonePreview,
        "Show what a copy would have",
        SHOW_CLONE,
        body=EnvironmentCloneRequest,
        only_reads=True,
        also=(409,),
    ),
    _start(
        "cancelDeployment",
        EnvironmentStatus,
        "Cancel deployments that wait or are under way",
        "409 if there is nothing to cancel.",
        body=CancelRequest,
    ),
    get(
        "terraformExport",
        None,
        "Export it as Terraform files",
        _EXPORT,
        id="exportEnvironmentAsTerraform",
        query=TerraformExportQuery,
        media_type="application/octet-stream",
        also=(409,),
    ),
    get(
        "manifestExport",
        None,
        "Export it as manifests of Kubernetes",
        _MANIFESTS,
        id="exportEnvironmentAsManifests",
        media_type="application/yaml",
        also=(409,),
    ),
    get("status", EnvironmentStatus, "Read the status of all services together"),
    get("statuses", EnvironmentStatuses, "Read the status of each service"),
    get(
        "status/stream",
        EnvironmentChanges,
        "Follow the status of each service",
        _FOLLOW_DESCRIPTION,
        id="followEnvironmentStatus",
        query=StreamOptions,
        streams=True,
    ),
    get("link", list[Link], "List the addresses of all services", paged=False),
    _start(
        "service/deploy",
        EnvironmentStatus,
        "Deploy chosen services",
        _CHOSEN_DESCRIPTION,
        id="deployChosenServices",
        body=ChosenToDeploy,
    ),
    _start(
        "service/restart-service",
        EnvironmentStatus,
        "Restart chosen services",
        _CHOSEN_DESCRIPTION,
        id="restartChosenServices",
        body=ChosenServices,
    ),
    _start(
        "service/stop",
        None,
        "Stop chosen services",
        _CHOSEN_DESCRIPTION,
        id="stopChosenServices",
        body=ChosenServices,
    ),
    post(
        "service/uninstall",
        None,
        "Uninstall chosen services",
        _CHOSEN_DESCRIPTION,
        id="uninstallChosenServices",
        need=Scope.ADMIN,
        starts=True,
        body=ChosenServices,
    ),
    post(
        "cleanFailedJobs",
        CleanedJobs,
        "Delete failed runs of jobs from their lists",
        "Of all jobs, unless some are chosen.",
        id="cleanFailedJobs",
        need=Scope.DEPLOY,
        status=200,
        body=JobsToClean,
    ),
    post(
        "service/delete",
        None,
        "Delete chosen services",
        _CHOSEN_DESCRIPTION,
        id="deleteChosenServices",
        body=ChosenServices,
        query=Removal,
        need=Scope.ADMIN,
    ),
)


def normalise(spec: Environment) -> None:
    """Accepts `cluster`, the full interface's name of `cluster_id`. Raises Invalid if both are sent and
    differ."""
    if spec.cluster_id and spec.cluster and spec.cluster_id != spec.cluster:
        raise clash("cluster", "differs from cluster_id: send one of them")
    spec.cluster_id = spec.cluster_id or spec.cluster
    spec.cluster = absent


environment = Family(
    "environment",
    Environment,
    parent=project,
    shown=EnvironmentShown,
    param="env_id",
    normalise=normalise,
    traits=(has_variables, holds_services),
    actions=ENVIRONMENT_ACTIONS,
    about="Without `cluster_id` it runs on the organization's first cluster.",
    exported=ExportedResource(
        "qovery_environment",
        (*same("name mode"), Attribute("cluster_id", refers="cluster")),
        repeated=frozenset({"cluster"}),
        lists=ALL_VARIABLES,
    ),
)
