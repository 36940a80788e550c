"""Shapes that several families share: probes, ports, storage, git repositories, groups, scaling."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, field

from windlass.core.declare.fields import (
    BLANKS,
    CONTROLS,
    LONGEST_LINE,
    Count,
    Description,
    Gibibytes,
    Id,
    Line,
    Maybe,
    Mebibytes,
    Millicores,
    Name,
    Port,
    Positive,
    Timestamp,
    absent,
    example,
    follows,
    refers,
    shaped,
)
from windlass.core.declare.resource import Base, Owner, Shown, Spec, clash

ABSOLUTE: Final = shaped(r"^/[^\x00-\x1f]*\Z", "must be a path that begins with /, such as /data")


class Tcp(Spec):
    port: Maybe[Port] = absent
    host: Maybe[Line] = absent


class Http(Spec):
    path: Maybe[Line] = absent
    scheme: Maybe[Line] = absent
    port: Maybe[Port] = absent


class Exec(Spec):
    command: Annotated[list[Line], Meta(min_length=1)]


class Grpc(Spec):
    service: Maybe[Line] = absent
    port: Maybe[Port] = absent


class ProbeType(Spec):
    """One of them is set; null is the same as absent."""

    tcp: Maybe[Tcp] = absent
    http: Maybe[Http] = absent
    exec: Maybe[Exec] = absent
    grpc: Maybe[Grpc] = absent


class Probe(Spec):
    type: Maybe[ProbeType] = absent
    initial_delay_seconds: Count = 30
    period_seconds: Positive = 10
    timeout_seconds: Positive = 5
    success_threshold: Positive = 1
    failure_threshold: Positive = 9


class Healthcheck(Spec):
    readiness_probe: Maybe[Probe] = absent
    liveness_probe: Maybe[Probe] = absent


Protocol = Literal["HTTP", "GRPC", "TCP", "UDP"]


class PortRequest(Spec):
    internal_port: Port
    external_port: Maybe[Port] = absent
    protocol: Protocol = "HTTP"
    publicly_accessible: bool = False
    id: Maybe[Id] = absent
    name: Maybe[Name] = absent
    is_default: Maybe[bool] = absent
    public_path: Maybe[Line] = absent
    public_path_rewrite: Maybe[Line] = absent


class ServicePort(Shown):
    id: Id
    internal_port: Port
    external_port: Maybe[Port] = absent
    protocol: Annotated[Protocol, example("HTTP")]
    publicly_accessible: bool
    name: Annotated[Name, example("p8080")]
    is_default: Annotated[bool, example(True)]
    public_path: Maybe[Line] = absent
    public_path_rewrite: Maybe[Line] = absent


class Listener(Shown):
    """The part of a service with its ports."""

    name: str
    ports: list[ServicePort] = []


class StorageRequest(Spec):
    size: Gibibytes
    mount_point: Annotated[str, Meta(max_length=1024, pattern=ABSOLUTE)]
    type: Literal["FAST_SSD"] = "FAST_SSD"
    id: Maybe[Id] = absent


class Storage(Shown):
    id: Id
    type: Literal["FAST_SSD"]
    size: Gibibytes
    mount_point: str


class GroupRef(Spec):
    id: Id


GitProvider = Literal["BITBUCKET", "GITHUB", "GITLAB"]
GitUrl = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=2048,
        pattern=shaped(
            rf"^((https?|ssh|git|file)://|[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:)[^{CONTROLS}{BLANKS}]+\Z",
            "must be an address such as https://host/owner/repository.git",
        ),
        description="Address of the repository",
        examples=["https://github.com/acme/shop.git"],
    ),
]
# Git's rules for refs, and no blanks of any kind.
_NOT_IN_REFS = rf"{CONTROLS}{BLANKS}~^:?*\[\\"
Branch = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=255,
        pattern=shaped(
            rf"^([^{_NOT_IN_REFS}-][^{_NOT_IN_REFS}]*)\Z", "must be a branch or tag of git, such as main"
        ),
    ),
]
RelativePath = Annotated[
    str, Meta(max_length=1024, pattern=shaped(r"^[^\x00-\x1f]*\Z", "must have no control characters"))
]


class GitRepositoryRequest(Spec):
    url: Annotated[GitUrl, example("https://github.com/acme/shop.git")]
    branch: Maybe[Branch] = absent
    root_path: RelativePath = "/"
    git_token_id: Maybe[Annotated[Id, refers("gitToken", opens="url")]] = absent
    provider: Maybe[Annotated[GitProvider, follows("url")]] = absent
    owner: Maybe[Annotated[Line, follows("url"), example("acme")]] = absent
    name: Maybe[Annotated[Line, follows("url"), example("shop")]] = absent


class GitRepository(Shown):
    has_access: bool = True
    provider: GitProvider
    owner: Annotated[str, example("acme")]
    url: Annotated[str, example("https://github.com/acme/shop.git")]
    name: Annotated[str, example("shop")]
    branch: Maybe[str] = absent
    root_path: str = "/"
    deployed_commit_id: Annotated[str, example("9f2c4e1b7a60d3588ec1f0a94b7d62e35c81fa07")] = ""
    deployed_commit_date: Maybe[Timestamp] = absent
    deployed_commit_contributor: Annotated[str, example("Ada Lovelace")] = ""
    deployed_commit_tag: str = ""
    git_token_id: Maybe[Id] = absent
    git_token_name: Maybe[str] = absent


class Group(Shown):
    id: Id


class TriggerAuthentication(Spec):
    name: Line
    config_yaml: Maybe[str] = absent


class Scaler(Spec):
    scaler_type: Line
    role: Literal["PRIMARY", "SAFETY"]
    enabled: bool = True
    config_json: Maybe[dict[str, Any]] = absent
    config_yaml: Maybe[str] = absent
    trigger_authentication: Maybe[TriggerAuthentication] = absent


class Autoscaling(Spec):
    mode: Literal["KEDA"]
    scalers: Annotated[list[Scaler], Meta(min_length=1)]
    polling_interval_seconds: Positive | None = 30
    cooldown_period_seconds: Positive | None = 300


class TriggerAuthenticationShown(Base):
    organization_id: Id
    name: str
    config_yaml: Maybe[str] = absent


class ScalerShown(Base):
    scaler_type: str
    role: str
    enabled: bool
    config_json: Maybe[dict[str, Any]] = absent
    config_yaml: Maybe[str] = absent
    trigger_authentication: Maybe[TriggerAuthenticationShown] = absent


class AutoscalingShown(Base):
    service_id: Id
    mode: str
    polling_interval_seconds: int
    cooldown_period_seconds: int
    scalers: list[ScalerShown]


Arguments = Annotated[list[Annotated[str, Meta(max_length=65_536)]], Meta(max_length=1000)]
Architecture = Literal["AMD64", "ARM64"]
Instances = Annotated[int, Meta(ge=0, le=10_000)]
MaxInstances = Annotated[int, Meta(ge=-1, le=10_000, description="-1 is no limit")]


class Program(Spec):
    """The settings that all services share that run a program: size, instances, probes, ports, volumes."""

    own_fields_follow = "description"

    name: Name
    description: Description | None = ""
    cpu: Millicores = 500
    memory: Mebibytes = 512
    gpu: Count = 0
    ephemeral_storage_in_gib: Maybe[Count] = absent
    cpu_architecture: Maybe[Architecture] = absent
    min_running_instances: Instances = 1
    max_running_instances: MaxInstances = 1
    healthchecks: Healthcheck = field(default_factory=Healthcheck)
    ports: list[PortRequest] = []
    storage: list[StorageRequest] = []
    arguments: Arguments = []
    entrypoint: Maybe[Line] = absent
    auto_preview: bool = True
    auto_deploy: bool | None = False
    annotations_groups: list[GroupRef] = []
    labels_groups: list[GroupRef] = []
    icon_uri: Line = "app://windlass/service"
    autoscaling: Maybe[Autoscaling] = absent


class ProgramShown(Shown):
    """The fields that the server adds to them, or completes."""

    own_fields_follow = "description"

    description: Description = ""
    ports: list[ServicePort] = []
    storage: list[Storage] = []
    annotations_groups: list[Group] = []
    labels_groups: list[Group] = []
    autoscaling: Maybe[AutoscalingShown] = absent
    environment: Owner
    service_type: str
    maximum_cpu: int = 0
    maximum_memory: int = 0
    maximum_gpu: int = 0


def settle_program(spec: Program) -> None:
    """Brings the shared settings into their final form, or raises Invalid."""
    settle_instances(spec)
    settle_ports(spec.ports)
    check_ids("storage", spec.storage, VOLUME_DIGITS)
    if spec.autoscaling:
        settle_autoscaling(spec.autoscaling)
    spec.description = spec.description or ""
    spec.auto_deploy = bool(spec.auto_deploy)


def settle_instances(spec: Program) -> None:
    least, most = spec.min_running_instances, spec.max_running_instances
    if most != -1 and most < least:
        raise clash("max_running_instances", f"must be -1 or at least min_running_instances ({least})")


def settle_autoscaling(policy: Autoscaling) -> None:
    policy.polling_interval_seconds = policy.polling_interval_seconds or 30
    policy.cooldown_period_seconds = policy.cooldown_period_seconds or 300


def settle_ports(ports: Sequence[PortRequest]) -> None:
    """Names every port. If none is marked as default, the first public one without a mark becomes it."""
    names: set[str] = set()
    check_ids("ports", ports)
    for place, port in enumerate(ports):
        port.name = port.name or f"p{port.internal_port}"
        if port.name in names:
            raise clash(f"ports[{place}].name", f"another port of this service is named {port.name}")
        names.add(port.name)
    chosen = [port for port in ports if port.is_default is True]
    if len(chosen) > 1:
        raise clash("ports", "only one port can have is_default: true")
    open_ = (port for port in ports if port.publicly_accessible and port.is_default is not False)
    default = chosen[0] if chosen else next(open_, None)
    for port in ports:
        port.is_default = port is default


VOLUME_DIGITS: Final = 8
"""The digits of a storage id that name its volume."""


def check_ids(field: str, items: Sequence[PortRequest | StorageRequest], digits: int = 36) -> None:
    """Refuses ids that begin with the same `digits`: both items would be one port, or one volume."""
    seen: set[str] = set()
    for place, item in enumerate(items):
        start = (item.id or "")[:digits]
        if start and start in seen:
            raise clash(
                f"{field}[{place}].id",
                "must differ from the ids of the other items of this list"
                + (f" in its first {digits} digits" if digits < 36 else ""),
            )
        seen.add(start)


_SCP = re.compile(r"^[^@/]+@(?P<host>[^:/]+):(?P<path>.+)$")
_ADDRESS = re.compile(r"^[^:/]+://(?P<host>[^/?#]*)(?P<path>[^?#]*)")


def repository_parts(url: str) -> tuple[GitProvider, str, str]:
    """Returns provider, owner and name, as far as the address shows them; an unknown host counts as
    GITHUB."""
    # Not urlsplit, which refuses some addresses that the pattern allows: this must return something for each.
    address = _SCP.match(url) or _ADDRESS.match(url)
    host, path = (address["host"], address["path"]) if address else (url, "")
    pieces = [piece for piece in path.removesuffix(".git").split("/") if piece]
    name = pieces[-1] if pieces else host
    owner = "/".join(pieces[:-1])
    provider: GitProvider = "GITHUB"
    if "gitlab" in host:
        provider = "GITLAB"
    elif "bitbucket" in host:
        provider = "BITBUCKET"
    return provider, owner, name


def settle_repository(repository: GitRepositoryRequest) -> None:
    """Fills in the fields that the contract leaves out."""
    provider, owner, name = repository_parts(repository.url)
    repository.provider = repository.provider or provider
    # An address may be longer than a field; derived values must fit when they are sent back.
    repository.owner = repository.owner or owner[:LONGEST_LINE]
    repository.name = repository.name or name[:LONGEST_LINE]
