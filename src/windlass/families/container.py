"""A container: an image that is there already, run as it is."""

from typing import Annotated, Literal

from msgspec import Meta, field

from windlass.core.declare.fields import (
    Count,
    Description,
    Id,
    Line,
    Maybe,
    Mebibytes,
    Millicores,
    Name,
    absent,
    shaped,
)
from windlass.core.declare.resource import Family, Owner, Shown, Spec, clash
from windlass.core.declare.shapes import (
    VOLUME_DIGITS,
    Architecture,
    Arguments,
    Autoscaling,
    AutoscalingShown,
    Group,
    GroupRef,
    Healthcheck,
    Instances,
    MaxInstances,
    PortRequest,
    ServicePort,
    Storage,
    StorageRequest,
    check_ids,
    settle_autoscaling,
    settle_instances,
    settle_ports,
)
from windlass.core.declare.spec import Chosen
from windlass.core.declare.traits import deployable, has_deployments, has_links, has_logs, has_variables
from windlass.core.words.images import is_ours, names_an_id
from windlass.families.environment import environment

_HOST = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?"
_PART = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
ImageName = Annotated[
    str,
    Meta(
        max_length=255,
        pattern=shaped(
            rf"^({_HOST}/)?{_PART}(/{_PART})*\Z", "must be the name of an image, such as ghcr.io/acme/shop"
        ),
        description="Without the tag. A name without a registry is one of Docker Hub",
        examples=["ghcr.io/acme/shop"],
    ),
]
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_TAG_FORM = "must be a tag, such as 1.4.2: letters, digits, _, . and -"
Tag = Annotated[
    str,
    Meta(
        pattern=shaped(rf"^{_TAG}\Z", _TAG_FORM),
        description="What the engine has under it is run; only if it has nothing is it pulled",
        examples=["1.4.2"],
    ),
]
TagToDeploy = Annotated[
    str,
    Meta(
        pattern=shaped(rf"^({_TAG})?\Z", _TAG_FORM),
        description="From now on the tag of the container; without it, the present one",
        examples=["1.5.0"],
    ),
]


class Container(Spec):
    name: Name
    description: Description | None = ""
    image_name: ImageName
    tag: Tag
    registry_id: Maybe[Id] = absent
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
    icon_uri: Line = "app://windlass/container"
    autoscaling: Maybe[Autoscaling] = absent


class ContainerDeployRequest(Spec):
    image_tag: Maybe[TagToDeploy] = absent


class ChosenContainer(Chosen):
    id: Id
    image_tag: Maybe[TagToDeploy] = absent

    @property
    def service(self) -> str:
        return self.id


class ImageRegistry(Shown):
    """The registry of the image, for engines that do not have it."""

    id: Id
    name: str
    url: str
    kind: Literal["DOCKER_HUB", "GENERIC_CR"]


class ContainerShown(Shown):
    description: Description = ""
    registry: ImageRegistry
    ports: list[ServicePort] = []
    storage: list[Storage] = []
    annotations_groups: list[Group] = []
    labels_groups: list[Group] = []
    autoscaling: Maybe[AutoscalingShown] = absent
    environment: Owner
    service_type: str = "CONTAINER"
    maximum_cpu: int = 0
    maximum_memory: int = 0
    maximum_gpu: int = 0


def normalise(spec: Container) -> None:
    if is_ours(spec.image_name):
        raise clash("image_name", "images that Windlass built are for their own service alone")
    if names_an_id(spec.image_name):
        raise clash("image_name", "must be the name of an image, and not the id that one has on an engine")
    settle_instances(spec)
    settle_ports(spec.ports)
    check_ids("storage", spec.storage, VOLUME_DIGITS)
    if spec.autoscaling:
        settle_autoscaling(spec.autoscaling)
    spec.description = spec.description or ""
    spec.auto_deploy = bool(spec.auto_deploy)


container = Family(
    "container",
    Container,
    parent=environment,
    shown=ContainerShown,
    normalise=normalise,
    traits=(
        deployable(ContainerDeployRequest, ChosenContainer),
        has_deployments,
        has_links,
        has_logs,
        has_variables,
    ),
    about="cpu is in millicores, memory in MB, storage in GB. 400 where the cluster runs no images.",
)
