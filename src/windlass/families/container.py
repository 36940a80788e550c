"""A container: an image that is there already, run as it is."""

from typing import Annotated

from msgspec import Meta

from windlass.core.declare.executions import has_one_off_runs, runs_commands
from windlass.core.declare.fields import (
    Icon,
    Id,
    Maybe,
    absent,
    example,
    refers,
    shaped,
)
from windlass.core.declare.program import Program, ProgramShown, normalise_program
from windlass.core.declare.resource import Family, Shown, Spec, clash
from windlass.core.declare.spec import Chosen
from windlass.core.declare.traits import deployable, has_deployments, has_links, has_logs, has_variables
from windlass.core.words.images import is_ours, names_an_id
from windlass.families.container_registry import Kind
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
        description="Without the tag. With `registry_id`, relative to that registry. Without, a name "
        "without a host is from Docker Hub",
        examples=["ghcr.io/acme/shop"],
    ),
]
RegistryId = Annotated[Id, refers("containerRegistry", opens="image_name")]
"""The registry of the sibling field `image_name`, which is relative to it."""
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_TAG_FORM = "must be a tag, such as 1.4.2: letters, digits, _, . and -"
Tag = Annotated[
    str,
    Meta(
        pattern=shaped(rf"^{_TAG}\Z", _TAG_FORM),
        description="Resolved to a digest by each deploy; restart, redeploy and rollback keep the digest",
        examples=["1.4.2"],
    ),
]
TagToDeploy = Annotated[
    str,
    Meta(
        pattern=shaped(rf"^({_TAG})?\Z", _TAG_FORM),
        description="The new tag of the container; if left out, the present one",
        examples=["1.5.0"],
    ),
]


class Container(Program):
    image_name: ImageName
    tag: Tag
    registry_id: Maybe[RegistryId] = absent
    icon_uri: Icon = "app://windlass/container"


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
    name: Annotated[str, example("ghcr.io")]
    url: Annotated[str, example("https://ghcr.io")]
    kind: Annotated[Kind, example("GENERIC_CR")]


class ContainerShown(ProgramShown):
    registry: ImageRegistry
    service_type: str = "CONTAINER"


def normalise(spec: Container) -> None:
    if is_ours(spec.image_name):
        raise clash("image_name", "images that Windlass built are for their own service alone")
    if names_an_id(spec.image_name):
        raise clash("image_name", "must be the name of an image, and not the id that one has on an engine")
    spec.ports = spec.ports or []
    normalise_program(spec)


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
        runs_commands,
        has_one_off_runs,
    ),
    about="cpu is in millicores, memory in MB, storage in GB. 400 if the cluster runs no images.",
)
