"""An environment: a set of services that run together on one cluster."""

from typing import Annotated, Literal

from windlass.core.fields import Id, Maybe, Name, Timestamp, absent, fixed, refers
from windlass.core.resource import Family, Owner, Shown, Spec, clash
from windlass.core.traits import has_variables
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
    about="Without `cluster_id` it runs on the organization's first cluster.",
)
