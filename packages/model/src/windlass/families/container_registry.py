"""A container registry: a source of images, and the login for it."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta

from windlass.base.foreign_json import BadJson, read_json
from windlass.core.access import Scope
from windlass.core.declare.actions import get, post
from windlass.core.declare.fields import (
    WITHOUT_EFFECT,
    Count,
    Description,
    Line,
    Maybe,
    Name,
    Timestamp,
    absent,
    always_refused,
    counts_users,
    example,
    fields_by,
    fixed,
    hidden,
    kept,
    several_lines,
    shaped,
)
from windlass.core.declare.registry import Paging, StandaloneOperation
from windlass.core.declare.resource import Family, Shown, Spec, clash
from windlass.core.declare.shapes import LIST_USERS
from windlass.core.declare.traits import Status
from windlass.engines.registries import (
    REGISTRY_KINDS,
    LoginSource,
    RegistryKind,
    host_of,
    is_loopback,
    usual_url,
)
from windlass.families.organization import organization

Kind = Literal[
    "ECR", "SCALEWAY_CR", "DOCKER_HUB", "GITHUB_CR", "GITHUB_ENTERPRISE_CR", "GITLAB_CR", "PUBLIC_ECR",
    "DOCR", "GENERIC_CR", "GCP_ARTIFACT_REGISTRY", "AZURE_CR",
]  # fmt: skip
Address = Annotated[
    str,
    Meta(
        max_length=300,
        pattern=shaped(
            r"^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?/?\Z",
            "must be the address of a registry without a path, such as https://registry.example.com",
        ),
    ),
]
_PRINTABLE_TEXT = shaped(r"^[!-~]+\Z", "must be printable ASCII, without blanks")
Region = Annotated[
    str,
    Meta(
        max_length=40,
        pattern=shaped(r"^[a-z0-9-]+\Z", "must be the name of a region, such as eu-west-3"),
    ),
]
AccessKey = Annotated[str, Meta(min_length=1, max_length=256, pattern=_PRINTABLE_TEXT)]
User = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=256,
        # RFC 7617: the first colon of a login ends the user name.
        pattern=shaped(r"^[ -9;-~]+\Z", "must be printable ASCII, without a colon"),
    ),
]
Secret = Annotated[str, Meta(min_length=1, max_length=4096, pattern=_PRINTABLE_TEXT)]
KeyFile = Annotated[str, Meta(min_length=1, max_length=16_384), several_lines()]
_REFUSED_ROLE = always_refused("Windlass has no identity of its own at a cloud")
_FIELDS_SENT_TO_REGISTRY = ("kind", "url", "config.username")


class RegistryConfig(Spec):
    """The login of a registry. Its kind decides which fields it needs."""

    username: Annotated[Maybe[User], example("acme"), Meta(description="User name of the login")] = absent
    password: Annotated[
        Maybe[Secret],
        hidden(sent_to=_FIELDS_SENT_TO_REGISTRY),
        example("a-token-that-only-reads"),
        Meta(description="A password, or better a token that only reads. Never answered"),
    ] = absent
    region: Annotated[Maybe[Region], Meta(description="Region of the registry at its cloud")] = absent
    access_key_id: Annotated[Maybe[AccessKey], Meta(description="Id of an access key of AWS")] = absent
    secret_access_key: Annotated[
        Maybe[Secret],
        hidden(sent_to=("kind", "config.region", "config.access_key_id", "url")),
        Meta(description="Secret key of AWS; requests to AWS are signed with it. Never answered"),
    ] = absent
    role_arn: Annotated[Maybe[Line], _REFUSED_ROLE] = absent
    scaleway_access_key: Annotated[Maybe[AccessKey], WITHOUT_EFFECT] = absent
    scaleway_secret_key: Annotated[
        Maybe[Secret],
        hidden(sent_to=("kind", "url", "config.region")),
        Meta(description="Secret key of Scaleway. Never answered"),
    ] = absent
    scaleway_project_id: Annotated[Maybe[Line], WITHOUT_EFFECT] = absent
    json_credentials: Annotated[
        Maybe[KeyFile],
        hidden(sent_to=("kind", "url", "config.region")),
        Meta(description="Key of a service account of Google, in JSON. Never answered"),
    ] = absent
    gcp_credentials_type: Annotated[Maybe[Literal["workload_identity_federation"]], _REFUSED_ROLE] = absent
    project_id: Annotated[Maybe[Line], WITHOUT_EFFECT] = absent
    service_account_email: Annotated[Maybe[Line], _REFUSED_ROLE] = absent
    workload_identity_provider_resource: Annotated[Maybe[Line], _REFUSED_ROLE] = absent
    token_lifetime_seconds: Annotated[Maybe[Count], _REFUSED_ROLE] = absent
    azure_tenant_id: Annotated[Maybe[Line], WITHOUT_EFFECT] = absent
    azure_subscription_id: Annotated[Maybe[Line], WITHOUT_EFFECT] = absent


class RegistryConfigShown(Shown):
    """The settings of a registry without its secrets."""

    username: Maybe[str] = absent
    region: Maybe[str] = absent
    access_key_id: Maybe[str] = absent
    scaleway_access_key: Maybe[str] = absent
    scaleway_project_id: Maybe[str] = absent
    project_id: Maybe[str] = absent
    azure_tenant_id: Maybe[str] = absent
    azure_subscription_id: Maybe[str] = absent


class ContainerRegistry(Spec):
    name: Annotated[Name, example("images of the shop")]
    description: Annotated[Description, example("Where the shop's images are")] = ""
    kind: Annotated[
        Kind,
        fixed(),
        example("DOCKER_HUB"),
        Meta(description="Cannot be changed: names of images depend on it"),
    ]
    url: Annotated[
        Maybe[Annotated[Address, kept()]],
        example("https://docker.io"),
        Meta(
            description="Address of the registry. Left out: the usual one of the kind. Plain http is for "
            "registries on this machine (127.0.0.1)"
        ),
    ] = absent
    config: Annotated[
        RegistryConfig,
        fields_by("kind", {name: kind.required + kind.optional for name, kind in REGISTRY_KINDS.items()}),
    ]


class RateLimit(Shown):
    """The limit on pulls that a registry reports."""

    limit: Annotated[int, example(100)]
    remaining: Annotated[int, example(98)]
    window_seconds: Annotated[int, example(21600)]


class RegistryCheck(Shown):
    """The outcome of the last check of a registry."""

    status: Annotated[Literal["OK", "FAILED"], example("OK")]
    problem: Annotated[
        str,
        Meta(
            description="ADDRESS: it may not be called. NAME: its host has no address. UNREACHABLE: it does "
            "not answer. TLS: its certificate is not valid. LOGIN: it refuses the login. RIGHT: the login "
            "may not do this. NOT_A_REGISTRY: another program answers. RATE_LIMIT: it allows no more for now"
        ),
    ] = ""
    message: Annotated[str, Meta(description="The problem, and the way out")] = ""
    rate_limit: Annotated[Maybe[RateLimit], Meta(description="Told by Docker Hub only")] = absent
    checked_at: Timestamp


class ContainerRegistryShown(Shown):
    url: Annotated[str, example("https://docker.io")]
    config: RegistryConfigShown
    associated_services_count: Annotated[int, counts_users()] = 0
    check: RegistryCheck


class ImagesQuery(Paging):
    """Selects images of a registry."""

    imageName: Annotated[
        str,
        Meta(
            max_length=255,
            pattern=shaped(
                r"^([a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*)?\Z",
                "must be the name of an image in the registry, such as acme/shop",
            ),
            description="List the tags of this image, the newest version first",
        ),
    ] = ""
    search: Annotated[
        Line, Meta(description="Only images whose name has this text; with imageName, only such tags")
    ] = ""


class RegistryImage(Shown):
    """An image of a registry, with its tags."""

    image_name: Annotated[str, example("acme/shop")]
    versions: Annotated[list[str], example(["1.4.2", "1.4.1"])]
    is_complete: Annotated[
        bool,
        Meta(description="False if it has more tags than were read, or was not asked for them"),
        example(True),
    ] = True
    version_count: Annotated[
        int, Meta(description="The number of tags that were read, on all pages"), example(2)
    ] = 0


class AvailableRegistry(Shown):
    """A kind of registry, with the settings that it needs."""

    kind: Annotated[Kind, example("GENERIC_CR")]
    required_config: Annotated[dict[str, Any], example({"username": "string"})]
    is_mandatory: Annotated[bool, Meta(description="True if `config` must have fields")] = False
    optional_config: Annotated[dict[str, Any], example({"username": "string", "password": "string"})] = {}
    default_url: Annotated[
        str, Meta(description="The address if `url` is left out"), example("https://ghcr.io")
    ] = ""


def normalise(spec: ContainerRegistry) -> None:
    kind, config = REGISTRY_KINDS[spec.kind], spec.config
    names = {name for name in config.__struct_fields__ if getattr(config, name) not in (None, UNSET)}
    for name in sorted(names):
        _check_given(spec.kind, name)
    for name in kind.required:
        if name not in names:
            why = kind.why.get(name)
            raise clash(f"config.{name}", f"is required for {spec.kind}" + (f": {why}" if why else ""))
    if config.json_credentials and not _is_key(config.json_credentials):
        raise clash("config.json_credentials", "must be the key of a service account: a JSON object")
    if bool(config.username) != bool(config.password) and kind.login is LoginSource.CONFIG:
        missing = "password" if config.username else "username"
        raise clash(f"config.{missing}", "is required with the other: a login has a user name and a password")
    spec.url = (spec.url or usual_url(spec.kind, config.region or "")).rstrip("/")
    _check_url(spec, kind)


def _is_key(text: str) -> bool:
    try:
        return bool(read_json(text, dict))
    except BadJson:
        return False


def _check_given(name_of_kind: str, name: str) -> None:
    kind = REGISTRY_KINDS[name_of_kind]
    if why := kind.refused.get(name):
        raise clash(f"config.{name}", why)
    if name not in (*kind.required, *kind.optional):
        raise clash(
            f"config.{name}", f"leave it out: a registry of the kind {name_of_kind} has no such setting"
        )


def _check_url(spec: ContainerRegistry, kind: RegistryKind) -> None:
    if not spec.url:
        if kind.login is not LoginSource.AWS:  # AWS reports the address of the account's registry
            raise clash("url", f"is required for {spec.kind}: this kind has no usual address")
        spec.url = absent
        return
    if spec.url.startswith("http://") and not is_loopback(spec.url):
        raise clash(
            "url", "must begin with https://: plain http is for registries on this machine (127.0.0.1)"
        )
    if spec.kind == "DOCKER_HUB" and host_of(spec.url) != host_of(kind.url):
        raise clash("url", f"leave it out, or choose the kind GENERIC_CR: Docker Hub is at {kind.url}")


_IMAGES_DESCRIPTION = (
    "Asks the registry. 409 with the reason if it cannot be read, 503 while it allows no more requests. With "
    "`imageName`, the one result has the tags of that image, a page at a time. Without it, the images of the "
    "registry, each with its tags; 409 from registries that list no images. Docker Hub lists public images: "
    "those with `search` in their name, or those of the user name, or the official ones. Their `versions` "
    "are empty: ask again with `imageName`."
)

container_registry = Family(
    "containerRegistry",
    ContainerRegistry,
    parent=organization,
    shown=ContainerRegistryShown,
    nested=True,
    param="registry_id",
    group="Container registries",
    write_need=Scope.ADMIN,
    normalise=normalise,
    about="The registry is looked at before it is stored: 400 with the reason if it refuses the login, or is "
    "no registry. One that cannot be reached is stored, and `check` says so. Secrets are never in an answer.",
    actions=(
        post(
            "check",
            RegistryCheck,
            "Look at the registry now",
            "Calls the registry with its login. The outcome is also kept in `check` of the registry.",
        ),
        get(
            "images",
            list[RegistryImage],
            "List images and tags",
            _IMAGES_DESCRIPTION,
            query=ImagesQuery,
            also=(409, 503),
            outside=True,
        ),
        get(
            "containerStatus",
            list[Status],
            "List the statuses of services that use it",
            suffix="/container/status",
            paged=False,
        ),
        LIST_USERS,
    ),
)

available = StandaloneOperation(
    path="/availableContainerRegistry",
    group="Container registries",
    action=get(
        "listAvailableContainerRegistry",
        list[AvailableRegistry],
        "List the kinds of registries, with the settings that each needs",
        paged=False,
    ),
)
