"""Declares traits: abilities that many families share. `control` implements them."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

from msgspec import Meta

from windlass.core.access import Scope
from windlass.core.declare.actions import SubAction, Trait, get, post
from windlass.core.declare.fields import (
    WITHOUT_EFFECT,
    Id,
    Maybe,
    Timestamp,
    absent,
    example,
    id_of_subject,
    shaped,
)
from windlass.core.declare.health_trials import HEALTH_TRIAL, HealthTrial, HealthTrialResult
from windlass.core.declare.queries import PastDeploymentsQuery, Removal, ServiceTail
from windlass.core.declare.resource import Shown, Spec
from windlass.core.declare.rollbacks import (
    ROLLBACK,
    SHOW_DIFFERENCE,
    Rollback,
    RollbackDifference,
    RollbackQuery,
)
from windlass.core.declare.service_metrics import METRICS, ServiceMetrics, ServiceMetricsQuery
from windlass.core.declare.spec import Chosen
from windlass.core.deploy.states import DeploymentPhase


class StatusDetails(Shown):
    action: Annotated[str, example("DEPLOY")]
    status: Annotated[str, example("SUCCESS")]
    sub_action: str = "NONE"


Sleeping = Annotated[
    bool,
    Meta(description="Whether it is stopped because it had no requests; the next request starts it again"),
    example(False),
]
InstancesWanted = Annotated[
    int,
    Meta(description="Number of instances of the service that are meant to run; 0 if stopped"),
    example(3),
]
InstancesRunning = Annotated[int, Meta(description="Number of these instances that run"), example(3)]
InstancesReady = Annotated[
    int, Meta(description="Number of these instances that run and pass their readiness probe"), example(2)
]


class ServiceStep(Shown):
    """The time of a step of a deployment."""

    step_name: Annotated[
        str,
        Meta(description="DEPLOYMENT_QUEUEING, BUILD (for an image, fetching it) or DEPLOYMENT"),
        example("BUILD"),
    ]
    status: Annotated[str, Meta(description="SUCCESS, ERROR or CANCEL"), example("SUCCESS")]
    duration_sec: Annotated[int, example(12)]


class ServiceSteps(Shown):
    """The times of the steps of a deployment."""

    total_duration_sec: Annotated[
        int | None, Meta(description="From the request to its end; null before that"), example(15)
    ] = None
    total_computing_duration_sec: Annotated[int, Meta(description="Without waiting"), example(12)] = 0
    details: Annotated[list[ServiceStep], Meta(description="The steps that have ended")] = []


class Status(Shown):
    """The status of a service."""

    id: Annotated[Id, id_of_subject()]
    state: Annotated[
        str, Meta(description="RUNNING, STOPPED, ERROR, or a word for work in progress"), example("RUNNING")
    ]
    deployment_state: Annotated[
        str, Meta(description="The exact state, in the full interface's words"), example("DEPLOYED")
    ]
    sleeping: Sleeping = False
    message: Annotated[str, Meta(description="Reason for the state, if any")] = ""
    service_deployment_status: Annotated[
        str, Meta(description="NEVER_DEPLOYED, OUT_OF_DATE or UP_TO_DATE"), example("UP_TO_DATE")
    ]
    last_deployment_date: Maybe[Timestamp] = absent
    is_part_last_deployment: bool = False
    status_details: StatusDetails
    execution_id: Annotated[str, example("db01511f-abe4-5113-a2dc-90c7f2efb14a")] = ""
    deployment_request_id: Annotated[Id | None, example("db01511f-abe4-5113-a2dc-90c7f2efb14a")] = None
    deployment_requests_count: Annotated[int, example(1)] = 0
    steps: Annotated[
        Maybe[ServiceSteps],
        Meta(description="Only in `statusesWithStages`, and of the last deployment of the whole environment"),
    ] = absent
    instances: InstancesWanted = 0
    running_instances: InstancesRunning = 0
    ready_instances: InstancesReady = 0


class Commit(Shown):
    """A commit of a repository."""

    git_commit_id: Annotated[str, example("9f2c4e1b7a60d3588ec1f0a94b7d62e35c81fa07")]
    created_at: Timestamp
    tag: str = ""
    message: Annotated[str, example("Rope comes in every colour")] = ""
    author_name: Annotated[str, example("Ada Lovelace")] = ""
    author_avatar_url: str = ""
    commit_page_url: str = ""


class RunResult(Shown):
    """The result of a program that runs to completion."""

    started_at: Timestamp
    ended_at: Annotated[Timestamp | None, Meta(description="null while it runs"), example(None)] = None
    exit_code: Annotated[
        int | None,
        Meta(description="128 and its number if a signal ended it; null while it runs, and if it was lost"),
        example(0),
    ] = None
    reason: Annotated[str, Meta(description="The way in which it ended"), example("exited with code 0")] = ""
    output: Annotated[list[str], Meta(description="The last lines that it wrote")] = []


class BuildUsageShown(Shown):
    """Processor time and memory of the steps of a build."""

    cpu_seconds: Annotated[
        float | None,
        Meta(description="Processor time of all steps, in seconds; null if the engine does not measure it"),
        example(41.5),
    ] = None
    peak_memory_bytes: Annotated[
        int | None,
        Meta(
            description="Peak memory of all steps together, in bytes; null if the engine does not measure it"
        ),
        example(734003200),
    ] = None


class Deployment(Shown):
    """One attempt to change the state of a service. Includes the fields of the service's status."""

    id: Id
    action: Annotated[str, Meta(description="DEPLOY, RUN, RESTART, STOP, UNINSTALL or DELETE")] = "DEPLOY"
    status: Annotated[
        str,
        Meta(description="QUEUED, BUILDING, DEPLOYING, SUCCEEDED, FAILED, CANCELED, SUPERSEDED"),
        example("QUEUED"),
    ]
    created_at: Timestamp
    updated_at: Timestamp
    number: Annotated[int, Meta(description="Counts the deployments of the service, from 1"), example(12)] = 0
    application_id: Maybe[Id] = absent
    service_id: Annotated[Id, id_of_subject()]
    git_commit_id: Annotated[
        Annotated[str, Meta(description="The commit that was asked for, or that it was")] | None,
        example("9f2c4e1b7a60d3588ec1f0a94b7d62e35c81fa07"),
    ] = None
    image_tag: Annotated[Maybe[str], Meta(description="The tag of the image, of a container")] = absent
    image_digest: Annotated[Maybe[str], Meta(description="The image that the tag stood for")] = absent
    commit: Commit | None = None
    message: Annotated[str, Meta(description="Why it ended as it did, or why it waits, if known")] = ""
    command: Annotated[Maybe[list[str]], Meta(description="The command, of one that ran once")] = absent
    run: Annotated[Maybe[RunResult], Meta(description="The result of what runs once")] = absent
    release: Annotated[Maybe[RunResult], Meta(description="The result of its release command")] = absent
    build_usage: Annotated[
        Maybe[BuildUsageShown],
        Meta(description="What its build used; left out if nothing was built, or nothing was measured"),
    ] = absent
    triggered_by: Annotated[str, example("Ada Lovelace")] = ""
    origin: str = "API"
    started_at: Annotated[Timestamp | None, example(None)] = None
    finished_at: Annotated[Timestamp | None, example(None)] = None
    repeats: Annotated[
        Id | None, Meta(description="The earlier deployment that it goes back to, or does again")
    ] = None
    purpose: Annotated[
        Maybe[str], Meta(description="Why an earlier deployment is repeated: ROLLBACK or REDEPLOY")
    ] = absent
    serves: Annotated[
        bool, Meta(description="Whether it is the present version, which serves; never true for a command")
    ] = False
    state: Annotated[str, example("QUEUED")]
    deployment_state: Annotated[str, example("QUEUED")]
    service_deployment_status: Annotated[str, example("OUT_OF_DATE")]
    last_deployment_date: Maybe[Timestamp] = absent
    is_part_last_deployment: bool = True
    status_details: StatusDetails
    execution_id: Annotated[str, example("db01511f-abe4-5113-a2dc-90c7f2efb14a")]
    deployment_request_id: Annotated[Id, example("db01511f-abe4-5113-a2dc-90c7f2efb14a")]
    deployment_requests_count: int
    instances: InstancesWanted = 0
    running_instances: InstancesRunning = 0
    ready_instances: InstancesReady = 0


class Link(Shown):
    """An address of a port of a service."""

    service_id: Annotated[Id, id_of_subject()]
    service_type: Annotated[str, example("APPLICATION")]
    url: Annotated[str, example("http://web-production.localhost:8081")]
    internal_port: Annotated[int, example(8080)]
    external_port: Annotated[int, example(8081)]
    is_qovery_domain: bool = False
    is_default: bool
    remark: Annotated[
        str, Meta(description="Why it has no certificate yet, or soon gets none, in words; empty if nothing")
    ] = ""


class CommandInHistory(Shown):
    """A command of a job."""

    arguments: Annotated[list[str], example(["flask", "db", "upgrade"])]
    entrypoint: str = ""


class TimetableInHistory(CommandInHistory):
    """The command of a job, and its timetable."""

    scheduled_at: Annotated[str, example("30 3 * * *")]
    timezone: Annotated[str, example("Europe/Berlin")]


class ScheduleInHistory(Shown):
    """When a job runs, by its present settings."""

    event: Annotated[
        str, Meta(description="ON_START, ON_STOP, ON_DELETE or CRON: the run of the deployment")
    ] = "ON_START"
    schedule_at: Annotated[str | None, Meta(description="Its timetable, in the form of cron")] = None
    on_start: Maybe[CommandInHistory] = absent
    on_stop: Maybe[CommandInHistory] = absent
    on_delete: Maybe[CommandInHistory] = absent
    cron_job: Maybe[TimetableInHistory] = absent
    lifecycle_type: str = "GENERIC"


class DeployedVersion(Shown):
    """The deployed version. The kind of the service determines which fields are present."""

    commit: Maybe[Commit | None] = absent
    image_name: Maybe[str] = absent
    tag: Maybe[str] = absent
    arguments: Maybe[list[str]] = absent
    entrypoint: Maybe[str] = absent
    schedule: Maybe[ScheduleInHistory] = absent
    job_type: Maybe[str] = absent
    build_pod_name: Annotated[Maybe[str | None], Meta(description="Without meaning in Windlass")] = absent


class HistoryEntry(DeployedVersion):
    """A past deployment, as existing clients list it."""

    id: Id
    created_at: Timestamp
    updated_at: Timestamp
    name: Annotated[str, example("web")]
    status: Annotated[
        str,
        Meta(description="Of an application SUCCESS or FAILED, of others the state after the deployment"),
        example("SUCCESS"),
    ]


class CancelRequest(Spec):
    force_cancel: Annotated[bool, WITHOUT_EFFECT] = False


class Nothing(Spec):
    """An empty object."""


CommitId = Annotated[
    str,
    Meta(
        max_length=64,
        pattern=shaped(r"^([0-9a-fA-F]{7,64})?\Z", "must be the id of a commit: 7 to 64 hexadecimal digits"),
        description="A commit of the repository; without it, the head of the branch",
    ),
]


class DeployRequest(Spec):
    git_commit_id: Annotated[Maybe[CommitId], example("9f2c4e1b7a60d3588ec1f0a94b7d62e35c81fa07")] = absent
    upload_id: Annotated[Maybe[Id], Meta(description="A complete upload, instead of a commit")] = absent


class LogLine(Shown):
    id: Id
    created_at: Timestamp
    message: Annotated[str, example("listening on port 8080")]
    pod_name: str = ""
    stage: Annotated[
        Maybe[DeploymentPhase],
        Meta(description="Stage of the deployment; left out of lines of instances"),
    ] = absent
    version: str = ""


class StreamOptions(Spec):
    """Chooses whether a stream continues with future events."""

    follow: Annotated[bool, Meta(description="Go on with what comes; without, end with what is there")] = True


_start = partial(post, need=Scope.DEPLOY)
_LIST_STATUSES: Final = get(
    "listStatuses", list[Status], "List the statuses", suffix="/status", on_collection=True, paged=False
)


DEPLOYABLE_TRAIT: Final = "deployable"
"""The name of the trait of services. Each family with this trait has a kind in `control/kinds`."""


def deployable(
    body: type[Spec] | None = None,
    chosen: type[Chosen] | None = None,
    *,
    runs_once: bool = False,
    sub_actions: tuple[SubAction, ...] = (),
    query: type[Spec] | None = None,
    removal: type[Removal] | None = None,
    uninstall_query: type[Spec] | None = None,
) -> Trait:
    """Returns the trait of resources that can be deployed and have a status.

    `runs_once`: services that run to completion, which cannot be restarted. `sub_actions`: parts of a
    deployment that can be requested separately. `query`: the query of `deploy` and `redeploy`. `removal` and
    `uninstall_query`: the queries of a deletion and of `uninstall`.
    """
    restart = _start("restart-service", Deployment, "Restart without building", _RESTART_DESCRIPTION)
    trial = post(
        "checkHealth",
        HealthTrialResult,
        "Try a health check",
        HEALTH_TRIAL,
        need=Scope.DEPLOY,
        starts=False,
        body=HealthTrial,
        only_reads=True,
        also=(503,),
    )
    return Trait(
        name=DEPLOYABLE_TRAIT,
        runs_once=runs_once,
        sub_actions=sub_actions,
        removal=removal,
        chosen=chosen,
        needs_behaviour=True,
        ends_services=True,
        actions=(
            _start(
                "deploy", Deployment, "Deploy the newest version", _DEPLOY_DESCRIPTION, body=body, query=query
            ),
            _start("redeploy", Deployment, _REDEPLOY_SUMMARY, "With the present settings.", query=query),
            *(() if runs_once else (restart, trial)),
            _start("stop", Deployment, "Stop all instances", "Data, settings and history stay."),
            post(
                "uninstall",
                Deployment,
                _UNINSTALL_SUMMARY,
                "204 if there was nothing.",
                need=Scope.ADMIN,
                starts=True,
                body=Nothing,
                query=uninstall_query,
                also=(204,),
            ),
            _start("rollback", Deployment, "Go back to an earlier deployment", ROLLBACK, body=Rollback),
            get(
                "rollbackDifference",
                RollbackDifference,
                "Show what a rollback would change",
                SHOW_DIFFERENCE,
                query=RollbackQuery,
                also=(409,),
            ),
            _start(
                "cancelDeployment",
                Deployment,
                "Cancel deployments that wait or are under way",
                "The present release keeps serving. 409 if there is nothing to cancel.",
                body=CancelRequest,
            ),
            get("status", Status, "Read the status"),
            _LIST_STATUSES,
            get(
                "metrics",
                ServiceMetrics,
                "Read the metrics of the last hour or longer",
                METRICS,
                query=ServiceMetricsQuery,
            ),
            get(
                "deploymentHistory",
                list[HistoryEntry],
                "List past deployments",
                _HISTORY_DESCRIPTION,
                query=PastDeploymentsQuery,
            ),
        ),
    )


_REDEPLOY_SUMMARY: Final = "Deploy the same version again"
_DEPLOY_DESCRIPTION: Final = (
    "The deployment is stored when the answer arrives. It replaces one that is still waiting, and runs after "
    "one that is under way."
)
_RESTART_DESCRIPTION: Final = "Replaces the instances by new ones, with the settings of their deployment."
_UNINSTALL_SUMMARY: Final = "Remove instances and data, keep the settings"
_HISTORY_DESCRIPTION: Final = "Newest first; deployments that wait or are under way are not included."
_COMMITS_DESCRIPTION: Final = (
    "Asks the repository: 409 with the reason if it cannot be read, or not within 20 "
    "seconds. An answer is kept for some seconds. 503 while many other repositories are being read."
)
_LOG_DESCRIPTION: Final = (
    "Exactly the last `tail` lines among those wanted, oldest first. With `follow=true` the "
    "answer is a stream (text/event-stream): these lines, and then what comes, each as an event "
    "with the line as `data` and its id as `id`. Who comes back with the header `Last-Event-ID` "
    "goes on after that line; an event `gone` says that lines which should come are no longer "
    "kept, and `end` that nothing more comes."
)

holds_services = Trait(name="holds_services", ends_services=True)
"""A resource with this trait is deleted after the last of its services."""

has_deployments = Trait(name="has_deployments")
"""Resources with this trait store their past deployments."""

has_links = Trait(name="has_links", actions=(get("link", list[Link], "List the addresses", paged=False),))

has_domains = Trait(name="has_domains")
"""Services with this trait are reached under domains of users, beside their own names."""

has_commits = Trait(
    name="has_commits",
    actions=(
        get(
            "commit",
            list[Commit],
            "List the newest commits of the branch",
            _COMMITS_DESCRIPTION,
            paged=False,
            also=(409,),
            outside=True,
        ),
    ),
)

has_logs = Trait(
    name="has_logs",
    actions=(
        get(
            "log", list[LogLine], "Read the last log lines", _LOG_DESCRIPTION, query=ServiceTail, paged=False
        ),
    ),
)

has_variables = Trait(name="has_variables")
"""Resources with this trait have variables and secrets, and inherit those of their parents."""
