"""Fields that all services with a program share: size, instances, probes, ports, volumes."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Sequence
from typing import Annotated, Final, Literal

from msgspec import Meta, UnsetType, field

from windlass.core.declare.fields import (
    WITHOUT_EFFECT,
    ChangedSettings,
    Count,
    Description,
    Icon,
    Line,
    Maybe,
    Mebibytes,
    Millicores,
    Name,
    absent,
    example,
    short_form,
    shown_in_examples,
    stays,
)
from windlass.core.declare.groups import (
    AnnotationsGroupOfService,
    AnnotationsGroups,
    LabelsGroupOfService,
    LabelsGroups,
)
from windlass.core.declare.resource import Owner, Shown, Spec, clash
from windlass.core.declare.shapes import (
    Autoscaling,
    AutoscalingShown,
    Healthcheck,
    PortRequest,
    ServicePort,
    Storage,
    StorageRequest,
)

Arguments = Annotated[list[Annotated[str, Meta(max_length=65_536)]], Meta(max_length=1000)]
Architecture = Literal["AMD64", "ARM64"]
Instances = Annotated[int, Meta(ge=0, le=10_000)]
MaxInstances = Annotated[
    int, Meta(ge=-1, le=10_000, description="The most instances, whatever their load; -1 is no limit")
]
VOLUME_DIGITS: Final = 8
"""The number of leading digits of a storage id that form the volume's name."""
MAX_PORTS: Final = 64
"""Maximum number of ports of a service, because an engine starts programs for each port."""


class Program(Spec):
    """The settings that all services with a program share: size, instances, probes, ports, volumes."""

    own_fields_follow = "description"

    name: Annotated[Name, example("shop")]
    description: Annotated[Description | None, example("Where people buy rope")] = ""
    cpu: Millicores = 500
    memory: Mebibytes = 512
    gpu: Annotated[Count, Meta(description="GPUs; more than the engine has are refused")] = 0
    ephemeral_storage_in_gib: Annotated[Maybe[Count], WITHOUT_EFFECT] = absent
    cpu_architecture: Annotated[Maybe[Architecture], WITHOUT_EFFECT] = absent
    min_running_instances: Annotated[
        Instances, Meta(description="Always at least so many; 0 starts none")
    ] = 1
    max_running_instances: MaxInstances = 1
    healthchecks: Annotated[Healthcheck, shown_in_examples()] = field(default_factory=Healthcheck)
    ports: Annotated[
        list[PortRequest] | UnsetType,
        Meta(
            description="Ports on which the program listens, such as "
            '[{"internal_port": 8080, "publicly_accessible": true}]'
        ),
        short_form(
            "port",
            "internal_port",
            {"publicly_accessible": True},
            "Port on which the program listens for HTTP, with a public address: instead of `ports`",
            written='[{"internal_port": 8080, "publicly_accessible": true}]',
        ),
        shown_in_examples(),
    ] = absent
    storage: Annotated[
        list[StorageRequest],
        Meta(description='Folders that outlive instances, such as [{"size": 10, "mount_point": "/data"}]'),
        stays(),
    ] = []
    arguments: Annotated[
        Arguments, Meta(description="Arguments of the entrypoint; without one, the command itself")
    ] = []
    entrypoint: Annotated[
        Maybe[Line], Meta(description="Command to run, instead of the one of the image or the repository")
    ] = absent
    auto_preview: Annotated[
        bool,
        Meta(
            description="Whether pull requests for its repository, and tags of its image, get previews, "
            "where the environment has them on"
        ),
    ] = True
    auto_deploy: Annotated[bool | None, WITHOUT_EFFECT] = False
    annotations_groups: AnnotationsGroups = []
    labels_groups: LabelsGroups = []
    icon_uri: Icon = "app://windlass/service"
    autoscaling: Maybe[Autoscaling] = absent


class ProgramShown(Shown):
    """The fields that the server adds to a program's settings or completes."""

    own_fields_follow = "description"

    description: Annotated[Description, example("Where people buy rope")] = ""
    ports: Annotated[list[ServicePort], shown_in_examples()] = []
    storage: list[Storage] = []
    annotations_groups: list[AnnotationsGroupOfService] = []
    labels_groups: list[LabelsGroupOfService] = []
    autoscaling: Maybe[AutoscalingShown] = absent
    environment: Owner
    service_type: str
    maximum_cpu: int = 0
    maximum_memory: int = 0
    maximum_gpu: int = 0
    advanced_settings: ChangedSettings = absent


def normalise_program(spec: Program, *, may_get_port: bool = False) -> None:
    """Normalizes the shared settings. Raises Invalid if they break a rule. `may_get_port`: whether Windlass
    may add a port."""
    check_instances(spec)
    normalise_ports(spec.ports or ())
    check_ids("storage", spec.storage, VOLUME_DIGITS)
    check_mounts(spec.storage)
    check_command("entrypoint", spec.entrypoint or "")
    if not may_get_port:
        check_probes(spec)
    if spec.autoscaling:
        normalise_autoscaling(spec.autoscaling)
    spec.description = spec.description or ""
    spec.auto_deploy = bool(spec.auto_deploy)


def check_instances(spec: Program) -> None:
    least, most = spec.min_running_instances, spec.max_running_instances
    if most != -1 and most < least:
        raise clash("max_running_instances", f"must be -1 or at least min_running_instances ({least})")


def normalise_autoscaling(policy: Autoscaling) -> None:
    policy.polling_interval_seconds = policy.polling_interval_seconds or 30
    policy.cooldown_period_seconds = policy.cooldown_period_seconds or 300


def normalise_ports(ports: Sequence[PortRequest]) -> None:
    """Gives every port a name, and chooses the default port: the marked port, or the first public one."""
    names: set[str] = set()
    if len(ports) > MAX_PORTS:
        raise clash("ports", f"name at most {MAX_PORTS} ports: a service cannot have {len(ports)}")
    check_ids("ports", ports)
    for index, port in enumerate(ports):
        port.name = port.name or f"p{port.internal_port}"
        if port.name in names:
            raise clash(f"ports[{index}].name", f"another port of this service is named {port.name}")
        names.add(port.name)
    chosen = [port for port in ports if port.is_default is True]
    if len(chosen) > 1:
        raise clash("ports", "only one port can have is_default: true")
    open_ = (port for port in ports if port.publicly_accessible and port.is_default is not False)
    default = chosen[0] if chosen else next(open_, None)
    for port in ports:
        port.is_default = port is default


MAX_VOLUMES: Final = 64
"""Maximum number of volumes of a service."""
SYSTEM_FOLDERS: Final = frozenset({"dev", "proc", "sys"})
"""File systems of the kernel, which every instance has."""


def check_mounts(storage: Sequence[StorageRequest]) -> None:
    """Raises Invalid for volumes that an engine cannot mount together."""
    if len(storage) > MAX_VOLUMES:
        raise clash("storage", f"name at most {MAX_VOLUMES} volumes: a service cannot have {len(storage)}")
    seen: set[str] = set()
    for index, volume in enumerate(storage):
        folder = posixpath.normpath(volume.mount_point).lstrip("/")
        if folder in seen:
            raise clash(f"storage[{index}].mount_point", f"another volume is mounted at /{folder}")
        if folder.split("/")[0] in SYSTEM_FOLDERS:
            raise clash(f"storage[{index}].mount_point", f"/{folder} belongs to the system, choose another")
        seen.add(folder)


def check_command(field: str, command: str) -> None:
    try:
        shlex.split(command)
    except ValueError as error:
        raise clash(field, f"must be a command as a shell reads it ({error})") from error


def check_probes(spec: Program) -> None:
    """Raises Invalid if a probe names no port and the service has no ports."""
    checks = spec.healthchecks
    for name, probe in (
        ("readiness_probe", checks.readiness_probe),
        ("liveness_probe", checks.liveness_probe),
    ):
        asked = probe.type if probe and probe.type else None
        if spec.ports or asked is None:
            continue
        for word, kind in (("tcp", asked.tcp), ("http", asked.http), ("grpc", asked.grpc)):
            if kind and not kind.port:
                raise clash(
                    f"healthchecks.{name}.type.{word}.port", "name a port, because the service declares none"
                )


def check_ids(field: str, items: Sequence[PortRequest | StorageRequest], digits: int = 36) -> None:
    """Raises Invalid if two ids have the same first `digits`, because both items would be the same port or
    volume."""
    seen: set[str] = set()
    for index, item in enumerate(items):
        start = (item.id or "")[:digits]
        if start and start in seen:
            raise clash(
                f"{field}[{index}].id",
                "must differ from the ids of the other items of this list"
                + (f" in its first {digits} digits" if digits < 36 else ""),
            )
        seen.add(start)
