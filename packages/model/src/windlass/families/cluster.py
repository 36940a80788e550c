"""A cluster: machines that run services, reached through an engine.

A cluster without an engine is only a record: services cannot be deployed on it.
"""

from collections.abc import Collection, Mapping
from ipaddress import ip_address, ip_network
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlsplit

from msgspec import Meta

from windlass.core.access import Scope
from windlass.core.declare.actions import get
from windlass.core.declare.fields import (
    WITHOUT_EFFECT,
    ChangedSettings,
    Count,
    Description,
    Id,
    Line,
    Maybe,
    Name,
    Port,
    Positive,
    Timestamp,
    absent,
    example,
    hidden,
    kept,
    refers,
    several_lines,
    shaped,
)
from windlass.core.declare.resource import Family, Owner, Shown, Spec, clash
from windlass.core.settings.cluster_settings import OF_CLUSTERS
from windlass.core.settings.operations import default_advanced_settings, has_advanced_settings
from windlass.core.words.naming import PLACE_NAME
from windlass.families.organization import organization

Vendor = Literal["AWS", "SCW", "GCP", "DO", "AZURE", "OVH", "CIVO", "HETZNER", "ORACLE", "IBM", "ON_PREMISE"]


PlaceName = Annotated[
    str,
    Meta(
        pattern=shaped(
            PLACE_NAME,
            "must be a name of up to 40 lower-case letters, digits and dashes, such as second",
        ),
        description="The server on whose machine services run: its setting `place`. Left out: `local`",
    ),
]
RegistryPath = Annotated[
    str,
    Meta(
        max_length=150,
        pattern=shaped(
            r"^[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*\Z",
            "must be the beginning of names of images in the registry, such as acme/builds",
        ),
        description="Beginning of the names of these images in the registry, before the id of the service",
    ),
]
Source = Annotated[
    str,
    Meta(
        max_length=63,
        pattern=shaped(
            r"^([a-z0-9]([a-z0-9-]*[a-z0-9])?|[0-9a-fA-F.:]+/[0-9]{1,3})\Z",
            "must be a namespace, such as ingress-nginx, or a network, such as 10.0.0.5/32",
        ),
    ),
]
EngineWord = Literal["LOCAL", "DOCKER", "KUBERNETES"]
THIS_MACHINE: Final[EngineWord] = "LOCAL"
_CONFIGURED_ENGINES: Final[tuple[EngineWord, ...]] = ("KUBERNETES",)
"""Engines whose address and credentials are one text."""
_ADDRESSED_ENGINES: Final[tuple[EngineWord, ...]] = ("DOCKER",)
"""Engines that have fields for their address and credentials."""
_REMOTE_ENGINES: Final = (*_ADDRESSED_ENGINES, *_CONFIGURED_ENGINES)
Pem = Annotated[
    str,
    Meta(
        max_length=32_768,
        pattern=shaped(r"^(|-----BEGIN [A-Z0-9 ]+-----[ -~\r\n]+)\Z", "must be in PEM form: -----BEGIN …"),
    ),
    several_lines(),
]
EngineAddress = Annotated[
    str,
    Meta(
        max_length=150,
        pattern=shaped(
            r"^tcp://([0-9.]{7,15}|\[[0-9A-Fa-f:.]{2,45}\])(:[0-9]{1,5})?\Z",
            "must be like tcp://10.0.0.5:2376, with the host in numbers, because "
            "containers publish their ports at exactly that address",
        ),
        description="Address at which the Docker engine takes TLS, with the host in numbers: tcp://10.0.0.5:2376",
    ),
]
_SENT_TO: Final = ("engine", "engine_address", "engine_ca_certificate")


class Cluster(Spec):
    name: Annotated[Name, example("workshop")]
    description: Annotated[Description, example("The machine under the desk")] = ""
    region: Annotated[Line, WITHOUT_EFFECT] = "local"
    cloud_provider: Annotated[Vendor, WITHOUT_EFFECT] = "ON_PREMISE"
    cloud_provider_credentials: Annotated[Maybe[dict[str, Any]], WITHOUT_EFFECT] = absent
    kubernetes: Annotated[Literal["MANAGED", "SELF_MANAGED", "PARTIALLY_MANAGED"], WITHOUT_EFFECT] = (
        "SELF_MANAGED"
    )
    min_running_nodes: Annotated[Count, WITHOUT_EFFECT] = 1
    max_running_nodes: Annotated[Count, WITHOUT_EFFECT] = 1
    disk_size: Annotated[Positive, WITHOUT_EFFECT] = 40
    disk_iops: Maybe[Annotated[int, Meta(ge=3000, le=16000), WITHOUT_EFFECT]] = absent
    disk_throughput: Maybe[Annotated[int, Meta(ge=125, le=1000), WITHOUT_EFFECT]] = absent
    instance_type: Annotated[Maybe[Line], WITHOUT_EFFECT] = absent
    production: Annotated[bool, WITHOUT_EFFECT] = False
    ssh_keys: Annotated[list[Annotated[str, Meta(max_length=16_384), several_lines()]], WITHOUT_EFFECT] = []
    features: Annotated[list[dict[str, Any]], WITHOUT_EFFECT] = []
    metrics_parameters: Annotated[Maybe[dict[str, Any]], WITHOUT_EFFECT] = absent
    infrastructure_charts_parameters: Annotated[Maybe[dict[str, Any]], WITHOUT_EFFECT] = absent
    keda: Annotated[Maybe[dict[str, Any]], WITHOUT_EFFECT] = absent
    labels_groups: Annotated[list[dict[str, Any]], WITHOUT_EFFECT] = []
    secret_manager_accesses: Annotated[list[dict[str, Any]], WITHOUT_EFFECT] = []
    engine: Maybe[
        Annotated[
            EngineWord,
            Meta(
                description="LOCAL: the engine of the machine that Windlass runs on, or that `place` names. "
                "DOCKER: the Docker engine at `engine_address`. KUBERNETES, experimental: the cluster of "
                "`kubeconfig`. Without it nothing is deployed on the cluster"
            ),
            kept(),
            example("LOCAL"),
        ]
    ] = absent
    place: Maybe[Annotated[PlaceName, kept()]] = absent
    engine_address: Maybe[Annotated[EngineAddress, kept()]] = absent
    engine_ca_certificate: Maybe[
        Annotated[
            Pem,
            Meta(description="Authority that signed the certificate of the engine: ca.pem"),
            kept(),
        ]
    ] = absent
    engine_certificate: Maybe[
        Annotated[Pem, Meta(description="Shown to the engine as a TLS client: cert.pem"), kept()]
    ] = absent
    engine_key: Annotated[
        Pem,
        Meta(description="Private key of `engine_certificate` (key.pem). Never answered"),
        hidden("has_engine_key", sent_to=_SENT_TO),
    ] = ""
    kubeconfig: Annotated[
        str,
        Meta(
            max_length=262_144,
            description="Kubeconfig of a Kubernetes cluster that contains all certificates and a token or a "
            "client certificate, as `kubectl config view --flatten --minify` writes it. Never answered",
        ),
        several_lines(),
        hidden("has_kubeconfig", sent_to=("engine",)),
    ] = ""
    engine_id: Maybe[
        Annotated[
            Line,
            Meta(
                description="Id of the Docker engine, as `docker info` shows it, or of the Kubernetes "
                "cluster. Another engine at the address counts as away. Left out: the engine that answers "
                "when its credentials are sent"
            ),
            kept(),
        ]
    ] = absent
    registry_id: Maybe[
        Annotated[
            Id,
            refers("containerRegistry"),
            Meta(
                description="Registry to which Windlass pushes the images that it builds for a Kubernetes "
                "cluster, and from which the cluster pulls them. Without it, nothing is built for such a "
                "cluster; other engines do not use it"
            ),
            kept(),
        ]
    ] = absent
    registry_path: Annotated[RegistryPath, kept()] = "windlass"
    registry_pull_id: Maybe[
        Annotated[
            Id,
            refers("containerRegistry"),
            Meta(
                description="Registry of the same host whose login may only pull: the nodes get this login. "
                "Left out: they get that of `registry_id`, which pushes, and which charts of the cluster can "
                "read"
            ),
            kept(),
        ]
    ] = absent
    allow_from: Annotated[
        list[Source],
        Meta(
            max_length=50,
            description="Namespaces and networks outside of an environment from which its services on a "
            "Kubernetes cluster accept connections: the address of Windlass, whose gateway connects to Pods, "
            "and the namespace of an Ingress controller or of monitoring",
        ),
        kept(),
    ] = []
    router_port: Maybe[
        Annotated[
            Port,
            Meta(
                description="Port of this server at which services of the cluster are reached by host name. "
                "Left out: the gateway port, as for services of this machine"
            ),
            kept(),
        ]
    ] = absent

    @property
    def is_elsewhere(self) -> bool:
        """Returns whether the cluster's services run on an engine at another address."""
        return self.engine in _REMOTE_ENGINES

    @property
    def pulls_builds(self) -> bool:
        """Returns whether the cluster pulls the images that are built for it from a registry."""
        return self.engine in _CONFIGURED_ENGINES and bool(self.registry_id)


class ClusterLock(Shown):
    """The lock of a cluster."""

    cluster_id: Id
    reason: Annotated[str, example("The disk is being replaced")]
    ttl_in_days: Maybe[Annotated[int, example(1)]] = absent
    locked_at: Timestamp
    ends_at: Annotated[Maybe[Timestamp], Meta(description="Left out: the lock holds until it is removed")] = (
        absent
    )
    owner_name: Annotated[str, Meta(description="Who locked the cluster"), example("Ada")]


class ClusterShown(Shown):
    organization: Owner
    status: str = "DEPLOYED"
    deployment_status: str = "UP_TO_DATE"
    has_access: bool = True
    is_default: bool = False
    is_demo: bool = False
    version: str = ""
    cluster_lock: Maybe[ClusterLock] = absent
    advanced_settings: ChangedSettings = absent


class ClusterStatus(Shown):
    """The status of a cluster: whether services can be deployed on it."""

    cluster_id: Id
    status: Annotated[
        str,
        Meta(
            description="DEPLOYED: its engine answers. DEPLOYMENT_ERROR: it does not, and `message` says "
            "why. READY: the cluster names no engine"
        ),
        example("DEPLOYED"),
    ]
    is_deployed: Annotated[bool, Meta(description="True if its engine answers")]
    is_connected: Annotated[bool, Meta(description="True if the cluster names an engine")]
    runs_images: Annotated[
        bool, Meta(description="True if its engine runs container images; services from git run on every one")
    ]
    message: Annotated[str, Meta(description="The problem, and the way out")] = ""
    next_k8s_available_version: str | None = None
    last_execution_id: str | None = None
    cluster_lock: Maybe[ClusterLock] = absent
    last_deployment_date: Timestamp | None = None
    reason: Literal["UNSPECIFIED", "MAINTENANCE"] = "UNSPECIFIED"


class ClusterReadinessStatus(Shown):
    """Whether services can be deployed on a cluster."""

    is_ready: Annotated[bool, Meta(description="True if its engine answers and the cluster is not locked")]


Bytes = Annotated[int, Meta(ge=0)] | None


class Machine(Shown):
    """The machine of a cluster: what it has, and what is free."""

    cluster_id: Id
    message: Annotated[str, Meta(description="Why nothing is known; empty if the rest is")] = ""
    version: Annotated[str, Meta(description="The Windlass of its server"), example("0.1.0")] = ""
    engine: Annotated[str, example("process")] = ""
    system: Annotated[str, Meta(description="The operating system and its kernel")] = ""
    cores: Annotated[int, Meta(ge=1)] | None = None
    load: Annotated[
        float | None,
        Meta(description="Programs that used or wanted a processor in the last minute, on average"),
    ] = None
    memory_bytes: Bytes = None
    memory_available_bytes: Bytes = None
    disk_bytes: Annotated[Bytes, Meta(description="Size of the disk with the data directory")] = None
    disk_free_bytes: Bytes = None
    disk_reserve_bytes: Annotated[
        Bytes, Meta(description="With less free than this, nothing is built (setting disk_reserve_bytes)")
    ] = None


def normalise(spec: Cluster) -> None:
    """Raises Invalid for the first missing or superfluous field of the engine."""
    values = {
        "engine_address": spec.engine_address,
        "engine_ca_certificate": spec.engine_ca_certificate,
        "engine_certificate": spec.engine_certificate,
        "engine_key": spec.engine_key,
        "kubeconfig": spec.kubeconfig,
        "allow_from": spec.allow_from,
        "router_port": spec.router_port,
    }
    if not spec.is_elsewhere:
        spec.engine_id = absent
    if spec.place and spec.engine != THIS_MACHINE:
        raise clash("place", f"leave it out: it is for a cluster whose engine is {THIS_MACHINE}")
    if spec.engine_address:
        _check_address(spec.engine_address)
    for source in spec.allow_from:
        _check_source(source)
    needed = _needed_fields(spec)
    for name, value in values.items():
        if value and name not in needed:
            raise clash(
                name,
                f"leave it out: it is for a cluster whose engine is {_joined_engines(_engines_with(name))}",
            )
        if not value and needed.get(name):
            raise clash(name, f"is required where engine is {spec.engine}")


def _engines_with(field: str) -> Collection[EngineWord]:
    match field:
        case "kubeconfig" | "allow_from":
            return _CONFIGURED_ENGINES
        case "router_port":
            return _REMOTE_ENGINES
    return _ADDRESSED_ENGINES


def _joined_engines(engines: Collection[EngineWord]) -> str:
    return " or ".join(engines)


def _check_address(address: str) -> None:
    parts = urlsplit(address)
    try:
        ip_address(parts.hostname or "")
        is_port = parts.port is None or parts.port > 0
    except ValueError:
        is_port = False
    if not is_port:
        raise clash("engine_address", f"{address} has no valid host or port, as tcp://10.0.0.5:2376 has")


def _check_source(source: str) -> None:
    try:
        if "/" in source:
            ip_network(source)
    except ValueError:
        raise clash(
            "allow_from", f"{source} is no network: write the first address of a network, as 10.0.0.0/24"
        ) from None


def _needed_fields(spec: Cluster) -> Mapping[str, bool]:
    """Returns the fields that the engine uses, and whether each field is required."""
    if not spec.is_elsewhere:
        return {}
    if spec.engine in _CONFIGURED_ENGINES:
        return {"kubeconfig": True, "allow_from": False, "router_port": False}
    required = ("engine_address", "engine_ca_certificate", "engine_certificate", "engine_key")
    return dict.fromkeys(required, True) | {"router_port": False}


_NETWORK_TYPES = {"aws_vpc_eks_id": "AWS_USER_PROVIDED_NETWORK", "vpc_name": "GCP_USER_PROVIDED_NETWORK"}
"""The type of a vendor's network in the full interface, by the field that identifies the network."""


def _value_object(feature: dict[str, Any]) -> dict[str, Any]:
    """Returns a feature with its value in the form that clients of the full interface expect."""
    sent = feature.get("value_object") or {}
    value = feature.get("value", sent.get("value") if isinstance(sent, dict) else None)
    if value is None:
        return feature
    return {
        **feature,
        "value_object": {"type": _feature_value_type(str(feature.get("id", "")), value), "value": value},
    }


def _feature_value_type(id: str, value: object) -> str:
    if isinstance(value, bool):
        return "BOOLEAN"
    if not isinstance(value, dict):
        return "STRING"
    network = next(
        (word for field, word in _NETWORK_TYPES.items() if field in value), "AWS_USER_PROVIDED_NETWORK"
    )
    return {"KARPENTER": "KARPENTER", "NAT_GATEWAY": "NAT_GATEWAY"}.get(id, network)


def in_full(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "features": [_value_object(feature) for feature in document["features"]]}


cluster = Family(
    "cluster",
    Cluster,
    parent=organization,
    shown=ClusterShown,
    nested=True,
    write_need=Scope.ADMIN,
    normalise=normalise,
    in_full=in_full,
    traits=(has_advanced_settings(OF_CLUSTERS, required_scope=Scope.ADMIN),),
    actions=(
        get("status", ClusterStatus, "Read whether the engine of a cluster answers", outside=True),
        get(
            "listStatus",
            list[ClusterStatus],
            "Read whether the engine of each cluster answers",
            suffix="/status",
            id="listClusterStatuses",
            on_collection=True,
            paged=False,
            outside=True,
        ),
        get(
            "isReady",
            ClusterReadinessStatus,
            "Read whether services can be deployed on a cluster",
            id="getClusterReadiness",
            outside=True,
        ),
        get(
            "machine",
            Machine,
            "Read what the machine of a cluster has, and what is free",
            need=Scope.ADMIN,
        ),
    ),
)

defaults = default_advanced_settings(OF_CLUSTERS, "Clusters")
