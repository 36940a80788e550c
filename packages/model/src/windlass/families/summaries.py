"""Lists of the statuses of services, and of the numbers of services in environments and projects."""

from typing import Annotated, Literal

from msgspec import Meta

from windlass.core.declare.actions import get
from windlass.core.declare.fields import Id, Timestamp, example
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Owner, Shown
from windlass.families.cluster import cluster
from windlass.families.environment import EnvironmentStatus, environment
from windlass.families.organization import organization
from windlass.families.project import project


class EnvironmentStats(Shown):
    id: Id
    service_total_number: Annotated[int, example(4)]


class ProjectStats(Shown):
    id: Id
    service_total_number: Annotated[int, example(4)]
    environment_total_number: Annotated[int, example(2)]


class ClusterOverview(Shown):
    id: Id
    name: Annotated[str, example("local")]
    cloud_provider: Annotated[str, example("ON_PREMISE")]
    is_demo: bool = False


class ServicesOverview(Shown):
    service_count: Annotated[int, example(4)]
    managed_by: Annotated[str, Meta(description="Always Windlass itself"), example("WINDLASS")]


class EnvironmentOverview(Shown):
    """An environment with its cluster and its status."""

    id: Id
    created_at: Timestamp
    updated_at: Timestamp
    name: Annotated[str, example("production")]
    mode: Annotated[Literal["DEVELOPMENT", "STAGING", "PRODUCTION", "PREVIEW"], example("PRODUCTION")]
    cluster: ClusterOverview
    services_overview: ServicesOverview
    deployment_status: EnvironmentStatus


class OrganizationEnvironment(Shown):
    """An environment, with the ids of its organization, project and cluster."""

    id: Id
    created_at: Timestamp
    updated_at: Timestamp
    name: Annotated[str, example("production")]
    mode: Annotated[Literal["DEVELOPMENT", "STAGING", "PRODUCTION", "PREVIEW"], example("PRODUCTION")]
    organization: Owner
    project: Owner
    cluster_id: Id


class ClusterService(Shown):
    """A service of an environment on a cluster."""

    id: Id
    name: Annotated[str, example("web")]
    type: Annotated[str, example("APPLICATION")]


class ClusterEnvironment(Shown):
    """An environment on a cluster."""

    environment_id: Id
    environment_name: Annotated[str, example("production")]
    project_id: Id
    project_name: Annotated[str, example("shop")]
    services: list[ClusterService]


class ServiceOfAnyKind(Shown):
    """A service, with additional fields that depend on its kind."""

    id: Id
    created_at: Timestamp
    updated_at: Timestamp
    name: Annotated[str, example("web")]
    service_type: Annotated[str, example("APPLICATION")]
    environment: Owner


of_environments = Actions(
    environment,
    "Environments",
    (
        get(
            "listStatus",
            list[EnvironmentStatus],
            "Read the status of each",
            suffix="/status",
            id="listEnvironmentStatuses",
            on_collection=True,
        ),
        get(
            "stats",
            list[EnvironmentStats],
            "Count the services of each",
            id="listEnvironmentStats",
            on_collection=True,
        ),
        get(
            "services",
            list[ServiceOfAnyKind],
            "List the services of all kinds, each as its kind answers it",
            id="listEnvironmentServices",
        ),
        get(
            "overview",
            list[EnvironmentOverview],
            "Read the cluster and the status of each",
            id="listEnvironmentOverviews",
            on_collection=True,
        ),
    ),
)
of_clusters = Actions(
    cluster,
    "Clusters",
    (
        get(
            "environments",
            list[ClusterEnvironment],
            "List the environments of a cluster, with their services",
            id="listClusterEnvironments",
            unnested=True,
            paged=False,
        ),
    ),
)
of_projects = Actions(
    project,
    "Projects",
    (
        get(
            "stats",
            list[ProjectStats],
            "Count the environments and services of each",
            id="listProjectStats",
            on_collection=True,
        ),
    ),
)
of_organizations = Actions(
    organization,
    "Environments",
    (
        get(
            "environments",
            list[OrganizationEnvironment],
            "List the environments of all projects",
            id="listOrganizationEnvironments",
        ),
    ),
)
