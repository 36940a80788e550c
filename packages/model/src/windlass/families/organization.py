"""An organization: the tenant. Everything else belongs to exactly one."""

from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from windlass.core.access import ROLE_IDS, SCOPE_MEANINGS, Scope
from windlass.core.declare.actions import get, post
from windlass.core.declare.audit_query import OrganizationEvent, events, targets
from windlass.core.declare.fields import (
    WITHOUT_EFFECT,
    Description,
    Id,
    Line,
    Maybe,
    Name,
    Timestamp,
    absent,
    example,
    kept,
    shown_once,
)
from windlass.core.declare.registry import Paging
from windlass.core.declare.resource import Family, Shown, Spec
from windlass.core.declare.shapes import GitRepositoryRequest
from windlass.core.declare.traits import (
    InstancesReady,
    InstancesRunning,
    InstancesWanted,
    Sleeping,
    StreamOptions,
)
from windlass.detect.recipe import Recipe

Plan = Literal[
    "FREE", "TEAM", "TEAM_YEARLY", "ENTERPRISE", "ENTERPRISE_YEARLY", "PROFESSIONAL", "BUSINESS",
    "USER_2025", "TEAM_2025", "BUSINESS_2025", "ENTERPRISE_2025",
]  # fmt: skip


class Organization(Spec):
    name: Annotated[Name, example("Acme")]
    description: Annotated[Maybe[Description], example("Makers of rope")] = absent
    # Kept if it is omitted, because existing clients cannot send it when they replace an organization.
    plan: Annotated[Plan, kept(), WITHOUT_EFFECT] = "FREE"
    website_url: Annotated[Maybe[Line], WITHOUT_EFFECT] = absent
    repository: Annotated[Maybe[Line], WITHOUT_EFFECT] = absent
    logo_url: Annotated[Maybe[Line], WITHOUT_EFFECT] = absent
    icon_url: Annotated[Maybe[Line], WITHOUT_EFFECT] = absent
    admin_emails: Annotated[Maybe[list[Line]], WITHOUT_EFFECT] = absent


class OrganizationShown(Shown):
    owner: Maybe[Id] = absent
    billing_deployment_restriction: None = None
    organization_plan: dict[str, Any] = {}
    admin_token: Annotated[
        str,
        Meta(description="An Admin token of the new organization, shown only in this answer"),
        shown_once(),
        example("wdl_EXAMPLE-of-a-token-that-is-shown-only-once"),
    ]


class Role(Shown):
    id: Annotated[Id, example(ROLE_IDS[Scope.DEPLOY])]
    name: Annotated[str, example(Scope.DEPLOY.word)]
    description: Annotated[str, example(SCOPE_MEANINGS[Scope.DEPLOY])] = ""


_FOLLOW_DESCRIPTION: Final = (
    "A stream of server-sent events that begins with the present: each entry of the audit as `data`, with "
    "its `number` as `id`. With the header `Last-Event-ID` it continues after that entry; 0 begins with "
    "the oldest. An event `gone` says that entries may be missing because they are no longer kept; the "
    "oldest kept ones follow. A limited token gets the events of its resources."
)

available_role = get(
    "availableRole", list[Role], "List the roles that can be given", id="listOrganizationAvailableRole"
)

events_stream = get(
    "events/stream",
    OrganizationEvent,
    "Follow the events",
    _FOLLOW_DESCRIPTION,
    id="followOrganizationEvents",
    query=StreamOptions,
    streams=True,
)


class ServicesQuery(Paging):
    project_id: Maybe[Annotated[Id, Meta(description="Only of this project")]] = absent
    environment_id: Maybe[Annotated[Id, Meta(description="Only of this environment")]] = absent
    cluster_id: Maybe[Annotated[Id, Meta(description="Only on this cluster")]] = absent


class ServiceInBrief(Shown):
    """A service of any kind: its type, place and status."""

    id: Id
    name: Annotated[str, example("web")]
    state: Annotated[str, Meta(description="As in its status"), example("RUNNING")]
    sleeping: Sleeping = False
    url: Annotated[str, Meta(description="Its first public address; empty before the first deployment")] = ""
    message: Annotated[str, Meta(description="Reason for the state, if any")] = ""
    version: Annotated[str, Meta(description="The deployment that serves"), example("v3")] = ""
    instances: InstancesWanted = 0
    running_instances: InstancesRunning = 0
    ready_instances: InstancesReady = 0
    lacks_port: Annotated[
        bool,
        Meta(description="Whether a version runs and Windlass has found no port for it: nothing reaches it"),
    ] = False
    only_planned: Annotated[
        bool, Meta(description="Whether it was planned, and nothing of it was applied yet")
    ] = False
    error_share: Annotated[
        float | None,
        Meta(
            description="Share of its requests of the last five minutes that were answered with a status of "
            "5xx. Null if there were none, or if another server measures them"
        ),
        example(0.02),
    ] = None
    environment_name: Annotated[str, example("production")]
    project_name: Annotated[str, example("shop")]
    last_deployment_date: Maybe[Timestamp] = absent
    service_type: Annotated[str, example("APPLICATION")]
    job_type: Annotated[Maybe[str], Meta(description="CRON or LIFECYCLE, of a job")] = absent
    description: Annotated[str, example("Where people buy rope")] = ""
    icon_uri: str = ""
    environment_id: Id
    project_id: Id
    cluster_id: Id


services = get(
    "services",
    list[ServiceInBrief],
    "List all services, with state and address",
    "Kinds that others wait for come first, as when an environment is deployed.",
    id="listOrganizationServices",
    query=ServicesQuery,
)


class RepositoryToDetect(Spec):
    git_repository: GitRepositoryRequest


detect = post(
    "detect",
    Recipe,
    "Find out how a repository is built and started",
    "Reads the files of the newest commit and runs nothing. Each value has its reason. What was not found is "
    "empty, and `problems` say what is missing.",
    id="detectRepository",
    body=RepositoryToDetect,
    only_reads=True,
    outside=True,
    also=(409,),
)


class RepositoryBranch(Shown):
    name: Annotated[str, example("main")]


branches = post(
    "branches",
    list[RepositoryBranch],
    "List the branches of a repository",
    "The default branch comes first; at most 1000.",
    id="listRepositoryBranches",
    body=RepositoryToDetect,
    only_reads=True,
    outside=True,
    paged=False,
    also=(409,),
)


organization = Family(
    "organization",
    Organization,
    parent=None,
    shown=OrganizationShown,
    param="org_id",
    write_need=Scope.ADMIN,
    actions=(available_role, services, events, targets, events_stream, detect, branches),
    about="Only Admins of the first organization create others. The answer contains `admin_token`, an Admin "
    "token of the new organization, which is not shown again.",
)
