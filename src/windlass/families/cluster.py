"""A cluster: machines that run services, reached through an engine."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from windlass.core.access import Scope
from windlass.core.declare.fields import Count, Description, Line, Maybe, Name, Positive, absent, example
from windlass.core.declare.resource import Family, Owner, Shown, Spec
from windlass.families.organization import organization

Vendor = Literal["AWS", "SCW", "GCP", "DO", "AZURE", "OVH", "CIVO", "HETZNER", "ORACLE", "IBM", "ON_PREMISE"]


class Cluster(Spec):
    name: Annotated[Name, example("workshop")]
    description: Annotated[Description, example("The machine under the desk")] = ""
    region: Line = "local"
    cloud_provider: Vendor = "ON_PREMISE"
    cloud_provider_credentials: Maybe[dict[str, Any]] = absent
    kubernetes: Literal["MANAGED", "SELF_MANAGED", "PARTIALLY_MANAGED"] = "SELF_MANAGED"
    min_running_nodes: Count = 1
    max_running_nodes: Count = 1
    disk_size: Positive = 40
    disk_iops: Maybe[Annotated[int, Meta(ge=3000, le=16000)]] = absent
    disk_throughput: Maybe[Annotated[int, Meta(ge=125, le=1000)]] = absent
    instance_type: Maybe[Line] = absent
    production: bool = False
    ssh_keys: list[Annotated[str, Meta(max_length=16_384)]] = []
    features: list[dict[str, Any]] = []
    metrics_parameters: Maybe[dict[str, Any]] = absent
    infrastructure_charts_parameters: Maybe[dict[str, Any]] = absent
    keda: Maybe[dict[str, Any]] = absent
    labels_groups: list[dict[str, Any]] = []
    secret_manager_accesses: list[dict[str, Any]] = []


class ClusterShown(Shown):
    organization: Owner
    status: str = "DEPLOYED"
    deployment_status: str = "UP_TO_DATE"
    has_access: bool = True
    is_default: bool = False
    is_demo: bool = False
    version: str = ""


cluster = Family(
    "cluster",
    Cluster,
    parent=organization,
    shown=ClusterShown,
    nested=True,
    write_need=Scope.ADMIN,
)
