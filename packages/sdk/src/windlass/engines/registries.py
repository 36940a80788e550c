"""Kinds of container registries: their settings, their addresses, and the names of their images. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from windlass.engines.image_names import DIGEST, DOCKER_HUB, OURS, registry_host, spelled_out

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class LoginSource(StrEnum):
    """Provides the user name and the password for a registry."""

    NONE = "none"
    """The registry is public."""
    CONFIG = "config"
    """The fields of `config`: `username` and `password`, or none."""
    AWS = "aws"
    """A password of some hours, which AWS gives for the access keys."""
    GOOGLE = "google"
    """The key of a service account, as it is."""
    SCALEWAY = "scaleway"
    """The secret key of an API key."""


class RegistryKind(Struct, frozen=True, kw_only=True):
    """The settings that registries of one kind need and take."""

    login: LoginSource = LoginSource.CONFIG
    url: str = ""
    """The usual address; `{region}` stands for the region. Empty: the address has to be given."""
    required: tuple[str, ...] = ()
    """Fields of `config` that it must have."""
    optional: tuple[str, ...] = ()
    """Further fields that it takes."""
    refused: Mapping[str, str] = _NONE
    """Fields of the full interface that this server cannot use, with the reason."""
    why: Mapping[str, str] = _NONE
    """The reasons for required fields that the full interface does not require."""
    tokens_at: tuple[str, ...] = ()
    """Other hosts that may give tokens for a login of the registry."""
    has_catalogue: bool = True
    """True if registries of this kind may list their images."""


_LOGIN: Final = ("username", "password")
_AZURE: Final = (
    "Windlass has no identity in your Azure tenant: give the id and a secret of a service principal, or a "
    "token of the registry"
)
_ROLE: Final = (
    "leave it out, and give access_key_id and secret_access_key: Windlass has no identity of its own at "
    "AWS that could take on a role"
)
_FEDERATION: Final = (
    "leave it out, and give json_credentials, the key of a service account: Windlass has no identity that "
    "Google knows"
)
_FEDERATED: Final = (
    "gcp_credentials_type",
    "service_account_email",
    "workload_identity_provider_resource",
    "token_lifetime_seconds",
)

KINDS: Final[Mapping[str, RegistryKind]] = {
    "DOCKER_HUB": RegistryKind(
        url="https://docker.io", optional=_LOGIN, tokens_at=("auth.docker.io",), has_catalogue=False
    ),
    "GITHUB_CR": RegistryKind(url="https://ghcr.io", optional=_LOGIN, has_catalogue=False),
    "GITHUB_ENTERPRISE_CR": RegistryKind(required=_LOGIN),
    "GITLAB_CR": RegistryKind(
        url="https://registry.gitlab.com", optional=_LOGIN, tokens_at=("gitlab.com",), has_catalogue=False
    ),
    "PUBLIC_ECR": RegistryKind(login=LoginSource.NONE, url="https://public.ecr.aws", has_catalogue=False),
    "DOCR": RegistryKind(
        url="https://registry.digitalocean.com", required=_LOGIN, tokens_at=("api.digitalocean.com",)
    ),
    "GENERIC_CR": RegistryKind(optional=_LOGIN),
    "ECR": RegistryKind(
        login=LoginSource.AWS,
        required=("region", "access_key_id", "secret_access_key"),
        refused={"role_arn": _ROLE},
    ),
    "SCALEWAY_CR": RegistryKind(
        login=LoginSource.SCALEWAY,
        url="https://rg.{region}.scw.cloud",
        required=("region", "scaleway_secret_key"),
        optional=("scaleway_access_key", "scaleway_project_id"),
        tokens_at=("api.scaleway.com",),
        has_catalogue=False,
    ),
    "GCP_ARTIFACT_REGISTRY": RegistryKind(
        login=LoginSource.GOOGLE,
        url="https://{region}-docker.pkg.dev",
        required=("region", "json_credentials"),
        optional=("project_id",),
        refused=dict.fromkeys(_FEDERATED, _FEDERATION),
    ),
    "AZURE_CR": RegistryKind(
        required=_LOGIN,
        optional=("azure_tenant_id", "azure_subscription_id"),
        why=dict.fromkeys(_LOGIN, _AZURE),
    ),
}
_HUB: Final = frozenset({DOCKER_HUB, "index.docker.io", "registry-1.docker.io", "hub.docker.com"})
_HUB_API: Final = "registry-1.docker.io"
_LOOPBACK: Final = re.compile(r"(127(\.[0-9]{1,3}){3}|localhost|\[::1\])(:[0-9]{1,5})?\Z")
_TAGGED: Final = re.compile(rf"(?P<name>.+?)(:(?P<tag>[\w][\w.-]{{0,127}}))?(@(?P<digest>{DIGEST}))?\Z")


class RegistryLogin(Struct, frozen=True):
    """A user name and a password for a registry."""

    username: str
    password: str

    def __repr__(self) -> str:
        return "RegistryLogin(…)"


class BuildRegistry(Struct, frozen=True):
    """The registry of an installation for the images that it builds."""

    prefix: str
    """Host and path: `registry.example.com/windlass`."""
    login: RegistryLogin | None = None

    def name_of(self, ref: str) -> str:
        """Returns the name of a built image in the registry."""
        return f"{self.prefix}/{ref.removeprefix(OURS)}"

    def holds(self, name: str) -> bool:
        """Returns whether the name of an image may belong to a built image."""
        return f"{spelled_out(name)}/".startswith(f"{spelled_out(self.prefix)}/")


class PullRequest(Struct, frozen=True):
    """An image with a tag, as it is asked for."""

    ref: str
    login: RegistryLogin | None = None
    is_registered: bool = False
    """True for an image of a registry that the organization has added: only that registry decides what the
    tag stands for, and never what the engine has under the same name."""
    org: str = ""


class ImageRef(Struct, frozen=True):
    """A reference to an image: a name with its registry, and a tag, a digest, or both."""

    name: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        return self.name + (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")

    @property
    def host(self) -> str:
        return registry_host(self.name)


def parse_ref(ref: str) -> ImageRef:
    match = _TAGGED.match(ref)
    if match is None:
        return ImageRef(ref)
    return ImageRef(match["name"], match["tag"] or "", match["digest"] or "")


def digest_of(ref: str) -> str:
    """Returns the digest by which an artifact names its image; empty if it has none."""
    return parse_ref(ref).digest


def usual_url(kind: str, region: str) -> str:
    """Returns the usual address of a kind of registry; empty if it has none."""
    return KINDS[kind].url.format(region=region)


def host_of(url: str) -> str:
    """Returns the host of a registry as names of images begin with it."""
    host = urlsplit(url).netloc.lower()
    if host in _HUB:
        return DOCKER_HUB
    # Without a port, engines take a host such as `harbor` for a part of the name of an image of Docker Hub.
    return host if registry_host(f"{host}/image") == host else f"{host}:443"


def api_url(url: str) -> str:
    """Returns the address at which a registry speaks the protocol of registries."""
    parts = urlsplit(url)
    host = _HUB_API if parts.netloc.lower() in _HUB else parts.netloc
    return f"{parts.scheme}://{host}"


def is_loopback(url: str) -> bool:
    return _LOOPBACK.match(urlsplit(url).netloc.lower()) is not None


def full_name(url: str, image_name: str) -> str:
    """Returns the name of an image of a registry, for engines: `ghcr.io/acme/shop`, or `acme/shop`. Engines
    send the login of the registry to the host in this name, so it is never another one."""
    host = host_of(url)
    relative = image_name.removeprefix(f"{host}/")
    is_plain = host == DOCKER_HUB == registry_host(relative)
    return relative if is_plain else f"{host}/{relative}"


def repository_of(url: str, image_name: str) -> str:
    """Returns the name of an image inside its registry. Official images of Docker Hub lie in `library`."""
    relative = image_name.removeprefix(f"{host_of(url)}/")
    return f"library/{relative}" if host_of(url) == DOCKER_HUB and "/" not in relative else relative


def other_registry(url: str, image_name: str) -> str:
    """Returns the host of another registry with which the name of an image begins; empty if there is none."""
    named = registry_host(image_name)
    if named == DOCKER_HUB and not image_name.startswith(tuple(f"{host}/" for host in _HUB)):
        return ""
    return "" if named == host_of(url) else named


def may_give_tokens(kind: str, url: str, realm: str) -> bool:
    """Returns whether a login of the registry may be sent to this address, which asks for it on its
    behalf: the registry itself, a host that is known to belong to it, or a neighbour of it under the same
    domain."""
    registry = urlsplit(api_url(url))
    try:
        server = urlsplit(realm)
        port = server.port
    except ValueError:  # the registry names no address
        return False
    if server.scheme != registry.scheme or server.username is not None:
        return False
    if server.netloc.lower() == registry.netloc.lower():
        return True
    host = (server.hostname or "").lower()
    if server.scheme != "https" or port not in (None, 443):
        return False
    return host in KINDS[kind].tokens_at or _are_neighbours((registry.hostname or "").lower(), host)


def _are_neighbours(registry: str, other: str) -> bool:
    """Returns True for `registry.example.com` beside `gitlab.example.com`, and for
    `registry.git.example.com` below `git.example.com`."""
    domain = registry.partition(".")[2]
    return _is_domain(domain) and (other == domain or other.endswith(f".{domain}"))


def _is_domain(domain: str) -> bool:
    """Returns False for an address in numbers, and for domains of a whole country, such as `uk` and
    `co.uk`."""
    labels = domain.split(".")
    if len(labels) < 2 or labels[-1].isdigit():
        return False
    return len(labels) > 2 or len(labels[-1]) > 2 or len(labels[-2]) > 3
