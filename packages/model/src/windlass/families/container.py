"""A container: an existing image that is run unchanged."""

from typing import Annotated

from msgspec import Meta

from windlass.core.access import Scope
from windlass.core.declare.actions import get, post
from windlass.core.declare.executions import has_one_off_runs, runs_commands
from windlass.core.declare.exported import (
    ALL_VARIABLES,
    DOMAINS,
    PROGRAM,
    SETTINGS,
    Attribute,
    ExportedResource,
    same,
)
from windlass.core.declare.fields import (
    Icon,
    Id,
    Maybe,
    absent,
    example,
    id_of_subject,
    in_full_default,
    refers,
    shaped,
)
from windlass.core.declare.program import Program, ProgramShown, normalise_program
from windlass.core.declare.registry import Actions
from windlass.core.declare.resource import Family, Shown, Spec, clash
from windlass.core.declare.shapes import can_be_cloned, has_network
from windlass.core.declare.spec import Chosen
from windlass.core.declare.traits import (
    Deployment,
    Status,
    deployable,
    has_deployments,
    has_domains,
    has_links,
    has_logs,
    has_variables,
)
from windlass.core.settings.operations import default_advanced_settings, has_advanced_settings
from windlass.core.settings.service_settings import OF_CONTAINERS
from windlass.engines.image_names import NOT_ITS_OWN, is_ours, names_an_id, public_registry_id
from windlass.families.container_registry import Kind
from windlass.families.environment import environment
from windlass.families.organization import organization

_HOST_PATTERN = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?"
_NAME_PART_PATTERN = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
ImageName = Annotated[
    str,
    Meta(
        max_length=255,
        pattern=shaped(
            rf"^({_HOST_PATTERN}/)?{_NAME_PART_PATTERN}(/{_NAME_PART_PATTERN})*\Z",
            "must be the name of an image, such as ghcr.io/acme/shop, without its tag: `tag` is for that",
        ),
        description="Without the tag. With `registry_id`, relative to that registry. Without, a name "
        "without a host is from Docker Hub",
        examples=["acme/shop"],
    ),
]
RegistryId = Annotated[Id, refers("containerRegistry", opens="image_name")]
"""The id of a registry. The sibling field `image_name` is relative to the registry."""
_TAG_PATTERN = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_TAG_FORM = "must be a tag, such as 1.4.2: letters, digits, _, . and -"
Tag = Annotated[
    str,
    Meta(
        pattern=shaped(rf"^{_TAG_PATTERN}\Z", _TAG_FORM),
        description="Resolved to a digest by each deploy; restart, redeploy and rollback keep the digest",
        examples=["1.4.2"],
    ),
]
TagToDeploy = Annotated[
    str,
    Meta(
        pattern=shaped(rf"^({_TAG_PATTERN})?\Z", _TAG_FORM),
        description="The new tag of the container; if left out, the present one",
        examples=["1.5.0"],
    ),
]


class Container(Program):
    image_name: ImageName
    tag: Tag
    registry_id: Maybe[RegistryId] = absent
    auto_preview: Annotated[
        bool,
        Meta(description="Whether tags of its image get previews, where the environment has them on"),
        in_full_default(False),
    ] = True
    auto_deploy: Annotated[
        bool | None,
        Meta(
            description="True: `autoDeployContainers` deploys another tag of its image, and the webhook of "
            "the registry new images of its tag and newer tags of its form"
        ),
    ] = False
    icon_uri: Icon = "app://windlass/container"


class ImageToDeploy(Spec):
    image_name: Annotated[
        ImageName,
        Meta(description="The name in `image_name` of containers, or the whole one with its registry"),
    ]
    tag: Tag


class AutoDeployment(Status):
    """The deployments that a new image tag has started in an organization, with the id of the
    organization."""

    id: Annotated[Id, id_of_subject()]
    deployments: list[Deployment] = []


class ImageCheck(Spec):
    image_name: ImageName
    tag: Tag
    registry_id: Maybe[RegistryId] = absent


class CheckedImage(Shown):
    """An image that exists in its registry."""

    image: Annotated[str, example("ghcr.io/acme/shop:1.4.2")]
    digest: Annotated[str, example("sha256:" + "9f" * 32)]


class ImageVersion(Shown):
    """An image tag that is newer than the container's tag."""

    name: Annotated[str, example("1.5.0")]
    digest: Annotated[
        Maybe[str],
        Meta(description="Only of the present tag, where it stands for another image than runs now"),
    ] = absent


class ContainerDeployRequest(Spec):
    image_tag: Maybe[TagToDeploy] = absent


class ChosenContainer(Chosen):
    id: Id
    image_tag: Maybe[TagToDeploy] = absent

    @property
    def service(self) -> str:
        return self.id


class ImageRegistry(Shown):
    """The registry from which engines pull the image."""

    id: Id
    name: Annotated[str, example("ghcr.io")]
    url: Annotated[str, example("https://ghcr.io")]
    kind: Annotated[Kind, example("GENERIC_CR")]


class ContainerShown(ProgramShown):
    registry: ImageRegistry
    service_type: str = "CONTAINER"


def check_image_name(field: str, name: str) -> None:
    """Raises Invalid for names that an engine may interpret as another service's image."""
    if is_ours(name):
        raise clash(field, NOT_ITS_OWN)
    if names_an_id(name):
        raise clash(field, "must be the name of an image, and not the id that one has on an engine")


def own_registry(image_name: str, registry_id: Maybe[str]) -> Maybe[str]:
    """Returns the registry of the organization that an image uses. Existing clients send back the id of a
    public registry that they have read, which stands for none."""
    return absent if registry_id == public_registry_id(image_name) else registry_id


def normalise(spec: Container) -> None:
    check_image_name("image_name", spec.image_name)
    spec.registry_id = own_registry(spec.image_name, spec.registry_id)
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
        can_be_cloned,
        has_network,
        has_links,
        has_domains,
        has_logs,
        has_variables,
        runs_commands,
        has_one_off_runs,
        has_advanced_settings(OF_CONTAINERS),
    ),
    actions=(
        get(
            "version",
            list[ImageVersion],
            "List newer versions of its image",
            "Tags of the same form with higher numbers, the highest first: for 1.4.2-alpine, 1.5.0-alpine "
            "and not 1.5.0. The present tag comes last if it stands for another image now. 409 with the "
            "reason if the registry cannot be read.",
            paged=False,
            also=(409, 503),
            outside=True,
        ),
    ),
    about="cpu is in millicores, memory in MB, storage in GB. 400 if the cluster runs no images.",
    exported=ExportedResource(
        "qovery_container",
        (
            *PROGRAM,
            *same("image_name tag"),
            Attribute("registry_id", refers="container registry", otherwise="registry.id"),
        ),
        lists=ALL_VARIABLES | {DOMAINS, SETTINGS},
    ),
)

auto_deploy = Actions(
    organization,
    "Containers",
    (
        post(
            "containerDeploy",
            AutoDeployment,
            "Deploy a new tag everywhere",
            "Deploys every container with this image, another tag and `auto_deploy`, that the caller may "
            "deploy. The tag becomes that of the container.",
            id="autoDeployContainers",
            suffix="/container/deploy",
            body=ImageToDeploy,
            need=Scope.DEPLOY,
            also=(409,),
        ),
    ),
)

check = Actions(
    environment,
    "Containers",
    (
        post(
            "checkContainerImage",
            CheckedImage,
            "Look whether an image is there",
            "Asks the registry. 400 if it has no such image or tag, 409 with the reason if it cannot be "
            "read.",
            body=ImageCheck,
            only_reads=True,
            also=(409, 503),
            outside=True,
        ),
    ),
)

defaults = default_advanced_settings(OF_CONTAINERS, "Containers")
