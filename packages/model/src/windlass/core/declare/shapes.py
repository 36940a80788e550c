"""Structs and field types that several families share: probes, ports, storage, git repositories, scaling."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from windlass.core.access import Scope
from windlass.core.declare.actions import Itself, Trait, get, post, put
from windlass.core.declare.clone_previews import SHOW_CLONE, ClonePreview
from windlass.core.declare.fields import (
    BLANK_RANGES,
    CONTROL_RANGES,
    MAX_LINE_LENGTH,
    WITHOUT_EFFECT,
    Count,
    Gibibytes,
    Id,
    Line,
    Maybe,
    Name,
    Port,
    Positive,
    Timestamp,
    absent,
    example,
    follows,
    refers,
    shaped,
    stays,
)
from windlass.core.declare.resource import Base, Shown, Spec, clash
from windlass.core.words import variables

_STICKY_DESCRIPTION: Final = Meta(
    description="Whether requests of one browser go to one instance: the advanced setting "
    "network.ingress.enable_sticky_session"
)


class NetworkRequest(Spec):
    sticky_session: Annotated[bool, _STICKY_DESCRIPTION] = False


class Network(Shown):
    """The network options of a service."""

    sticky_session: Annotated[bool, _STICKY_DESCRIPTION] = False


has_network = Trait(
    name="has_network",
    actions=(
        get("network", Network, "Read the network options"),
        put(
            "editNetwork",
            Network,
            "Replace the network options",
            suffix="/network",
            body=NetworkRequest,
            status=201,
        ),
    ),
)
"""Services with this trait have network options."""


class AssociatedService(Shown):
    """A service that uses a resource."""

    project_id: Id
    project_name: Annotated[str, example("shop")]
    environment_id: Id
    environment_name: Annotated[str, example("production")]
    service_id: Id
    service_name: Annotated[str, example("web")]
    service_type: Annotated[str, example("APPLICATION")]


LIST_USERS: Final = get(
    "associatedServices", list[AssociatedService], "List the services that use it", paged=False
)


class CloneRequest(Spec):
    name: Annotated[Name, example("shop-copy")]
    environment_id: Annotated[
        Id,
        refers("environment"),
    ]


_CLONE_DESCRIPTION: Final = (
    "Copies the settings, the variables and the secrets of the service itself. Data is not copied, and the "
    "copy is not deployed. It sees the variables of its own environment: an alias or an override of a "
    "variable that is not there is left out."
)

can_be_cloned = Trait(
    name="can_be_cloned",
    actions=(
        post(
            "clone",
            Itself,
            "Copy it to an environment",
            _CLONE_DESCRIPTION,
            body=CloneRequest,
            status=202,
            also=(409,),
        ),
        post(
            "clonePreview",
            ClonePreview,
            "Show what a copy would have",
            SHOW_CLONE,
            body=CloneRequest,
            need=Scope.WRITE,
            only_reads=True,
            also=(409,),
        ),
    ),
)
"""Services with this trait can be copied to another environment."""


PATH_OF_FILE: Final = shaped(variables.FILE_PATTERN, variables.PATH_OF_FILE)
_MOUNT_FOLDER: Final = shaped(
    rf"^/+{variables.PART_OF_PATH}(/+{variables.PART_OF_PATH})*/*\Z",
    "must be a folder such as /data, not / itself, without . or .. in it",
)


ProbePort = Annotated[Port, Meta(description="Port that is asked: an internal port of the service")]


class Tcp(Spec):
    port: Maybe[ProbePort] = absent
    host: Annotated[Maybe[Line], WITHOUT_EFFECT] = absent


class Http(Spec):
    path: Annotated[Maybe[Line], Meta(description="Path that is asked; without it, /")] = absent
    scheme: Annotated[Maybe[Line], Meta(description="HTTP or HTTPS")] = absent
    port: Maybe[ProbePort] = absent


class Exec(Spec):
    command: Annotated[
        list[Line], Meta(min_length=1, description="Command in the instance: healthy if it exits with 0")
    ]


class Grpc(Spec):
    service: Annotated[
        Maybe[Line], Meta(description="Name of the service that is asked; without it, the whole server")
    ] = absent
    port: Maybe[ProbePort] = absent


class ProbeType(Spec):
    """The type of a probe: exactly one field is set; null counts as absent."""

    tcp: Maybe[Tcp] = absent
    http: Maybe[Http] = absent
    exec: Maybe[Exec] = absent
    grpc: Maybe[Grpc] = absent


class Probe(Spec):
    type: Maybe[ProbeType] = absent
    initial_delay_seconds: Annotated[Count, Meta(description="Seconds before the first probe")] = 30
    period_seconds: Annotated[Positive, Meta(description="Seconds between two probes")] = 10
    timeout_seconds: Annotated[Positive, Meta(description="Seconds that one probe may take")] = 5
    success_threshold: Annotated[Positive, Meta(description="Successes in a row until it is healthy")] = 1
    failure_threshold: Annotated[Positive, Meta(description="Failures in a row until it is not healthy")] = 9


class Healthcheck(Spec):
    readiness_probe: Maybe[Probe] = absent
    liveness_probe: Maybe[Probe] = absent


Protocol = Literal["HTTP", "GRPC", "TCP", "UDP"]


class PortRequest(Spec):
    internal_port: Annotated[Port, example(8080)]
    external_port: Annotated[Maybe[Port], example(443)] = absent
    protocol: Protocol = "HTTP"
    publicly_accessible: Annotated[bool, example(True)] = False
    id: Maybe[Id] = absent
    name: Maybe[Name] = absent
    is_default: Maybe[bool] = absent
    public_path: Maybe[Line] = absent
    public_path_rewrite: Maybe[Line] = absent


class ServicePort(Shown):
    id: Id
    internal_port: Annotated[Port, example(8080)]
    external_port: Annotated[Maybe[Port], example(443)] = absent
    protocol: Annotated[Protocol, example("HTTP")]
    publicly_accessible: Annotated[bool, example(True)]
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
    mount_point: Annotated[str, Meta(max_length=1024, pattern=_MOUNT_FOLDER)]
    type: Literal["FAST_SSD"] = "FAST_SSD"
    id: Maybe[Id] = absent


class Storage(Shown):
    id: Id
    type: Literal["FAST_SSD"]
    size: Gibibytes
    mount_point: str


PUSHED_REPOSITORY: Final = "windlass://push"
"""The address that stands for the repository of the application itself, to which its `push_url` leads."""
_OWN_SCHEME: Final = "windlass:"

GitProvider = Literal["BITBUCKET", "GITHUB", "GITLAB"]
GitUrl = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=2048,
        pattern=shaped(
            rf"^((https?|ssh|git|file|windlass)://|[A-Za-z0-9._-]+@[A-Za-z0-9.-]+:)[^{CONTROL_RANGES}{BLANK_RANGES}]+\Z",
            "must be an address such as https://host/owner/repository.git",
        ),
        description="Address of the repository; windlass://push is what is pushed to the `push_url` of the "
        "application",
        examples=["https://github.com/acme/shop.git"],
    ),
]
# Git's rules for refs, except that all blanks are rejected.
_REF_FORBIDDEN_CHARACTERS = rf"{CONTROL_RANGES}{BLANK_RANGES}~^:?*\[\\"
Branch = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=255,
        pattern=shaped(
            rf"^([^{_REF_FORBIDDEN_CHARACTERS}-][^{_REF_FORBIDDEN_CHARACTERS}]*)\Z",
            "must be a branch or tag of git, such as main",
        ),
    ),
]
RelativePath = Annotated[
    str, Meta(max_length=1024, pattern=shaped(r"^[^\x00-\x1f]*\Z", "must have no control characters"))
]


class GitRepositoryRequest(Spec):
    url: Annotated[GitUrl, example("https://github.com/acme/shop.git")]
    branch: Annotated[
        Maybe[Branch], Meta(description="Without it, the default branch of the repository"), example("main")
    ] = absent
    root_path: Annotated[RelativePath, Meta(description="Folder of the application in the repository")] = "/"
    git_token_id: Annotated[Maybe[Annotated[Id, refers("gitToken", opens="url")]], stays()] = absent
    provider: Maybe[
        Annotated[GitProvider, follows("url"), Meta(description="Read from the address, if left out")]
    ] = absent
    owner: Maybe[Annotated[Line, follows("url"), Meta(description="Read from the address, if left out")]] = (
        absent
    )
    name: Maybe[Annotated[Line, follows("url"), Meta(description="Read from the address, if left out")]] = (
        absent
    )


class GitRepository(Shown):
    has_access: bool = True
    provider: Annotated[GitProvider, example("GITHUB")]
    owner: Annotated[str, example("acme")]
    url: Annotated[str, example("https://github.com/acme/shop.git")]
    name: Annotated[str, example("shop")]
    branch: Annotated[Maybe[str], example("main")] = absent
    root_path: str = "/"
    deployed_commit_id: Annotated[str, example("9f2c4e1b7a60d3588ec1f0a94b7d62e35c81fa07")] = ""
    deployed_commit_date: Maybe[Timestamp] = absent
    deployed_commit_contributor: Annotated[str, example("Ada Lovelace")] = ""
    deployed_commit_tag: str = ""
    git_token_id: Maybe[Id] = absent
    git_token_name: Maybe[str] = absent


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
    mode: Annotated[Literal["KEDA"], WITHOUT_EFFECT]
    scalers: Annotated[list[Scaler], Meta(min_length=1), WITHOUT_EFFECT]
    polling_interval_seconds: Annotated[Positive | None, WITHOUT_EFFECT] = 30
    cooldown_period_seconds: Annotated[Positive | None, WITHOUT_EFFECT] = 300


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


_SCP_PATTERN = re.compile(r"^[^@/]+@(?P<host>[^:/]+):(?P<path>.+)$")
_ADDRESS_PATTERN = re.compile(r"^[^:/]+://(?P<host>[^/?#]*)(?P<path>[^?#]*)")
_LOGIN_PATTERN = re.compile(r"^(?P<scheme>[^:/]+)://(?P<login>[^/?#]*)@")
_MIN_TOKEN_LENGTH: Final = 20


def repository_parts(url: str) -> tuple[GitProvider, str, str]:
    """Returns provider, owner and name of a repository, as far as the address contains them. The default
    provider is GITHUB."""
    # Does not use urlsplit, which rejects some addresses that the pattern allows.
    address = _SCP_PATTERN.match(url) or _ADDRESS_PATTERN.match(url)
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


def _has_credential(url: str) -> bool:
    address = _LOGIN_PATTERN.match(url)
    if address is None:
        return False
    # Hosts suggest addresses with a user name. A long user name is probably a token.
    is_token = address["scheme"] != "ssh" and len(address["login"]) >= _MIN_TOKEN_LENGTH
    return is_token or ":" in address["login"]


def normalise_repository(
    repository: GitRepositoryRequest, path: str = "git_repository", *, takes_pushes: bool = False
) -> None:
    """Completes fields that clients may omit. Raises Invalid for an address with a credential, because
    everyone who may read sees the address, and its credentials are not used. `takes_pushes`: whether the
    service can have a repository of its own."""
    if repository.url.lower().startswith(_OWN_SCHEME):
        field = f"{path}.url".lstrip(".")
        if not takes_pushes:
            raise clash(
                field, f"name a repository of a git server: only an application can have {PUSHED_REPOSITORY}"
            )
        if repository.url != PUSHED_REPOSITORY:
            raise clash(field, f"must be {PUSHED_REPOSITORY}, or the address of a git server")
    if _has_credential(repository.url):
        field = f"{path}.url".lstrip(".")
        raise clash(field, "leave out what stands before the @, and put it into a git token")
    provider, owner, name = repository_parts(repository.url)
    repository.provider = repository.provider or provider
    # An address may be longer than a field. Derived values must be short enough to be sent back.
    repository.owner = repository.owner or owner[:MAX_LINE_LENGTH]
    repository.name = repository.name or name[:MAX_LINE_LENGTH]
