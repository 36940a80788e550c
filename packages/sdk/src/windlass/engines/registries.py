"""Kinds of container registries: their settings, addresses and image names. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from windlass.engines.image_names import DIGEST, DOCKER_HUB, WINDLASS_PREFIX, registry_host, spelled_out

_NO_REGISTRIES: Final[Mapping[str, str]] = MappingProxyType({})


class LoginSource(StrEnum):
    """Source of the credentials for a registry."""

    NONE = "none"
    """No credentials: the registry is public."""
    CONFIG = "config"
    """The fields `username` and `password` of `config`, if set."""
    AWS = "aws"
    """A temporary password that AWS issues for access keys."""
    GOOGLE = "google"
    """The key of a Google service account, unchanged."""
    SCALEWAY = "scaleway"
    """The secret key of a Scaleway API key."""


class RegistryKind(Struct, frozen=True, kw_only=True):
    """The settings of one kind of registry."""

    login: LoginSource = LoginSource.CONFIG
    url: str = ""
    """Default address, in which `{region}` is replaced; empty if an address must be configured."""
    required: tuple[str, ...] = ()
    """Required fields of `config`."""
    optional: tuple[str, ...] = ()
    """Optional fields of `config`."""
    refused: Mapping[str, str] = _NO_REGISTRIES
    """Fields of the API that this server does not support, with the reason."""
    why: Mapping[str, str] = _NO_REGISTRIES
    """Reasons why required fields are required here although the API does not require them."""
    tokens_at: tuple[str, ...] = ()
    """Other hosts that may issue tokens for the registry's credentials."""
    has_catalogue: bool = True
    """Whether registries of this kind may support listing images."""


_LOGIN_FIELDS: Final = ("username", "password")
_AZURE_REFUSAL: Final = (
    "Windlass has no identity in your Azure tenant: give the id and a secret of a service principal, or a "
    "token of the registry"
)
_ROLE_ADVICE: Final = (
    "leave it out, and give access_key_id and secret_access_key: Windlass has no identity of its own at "
    "AWS that could take on a role"
)
_FEDERATION_REFUSAL: Final = (
    "leave it out, and give json_credentials, the key of a service account: Windlass has no identity that "
    "Google knows"
)
_FEDERATION_FIELDS: Final = (
    "gcp_credentials_type",
    "service_account_email",
    "workload_identity_provider_resource",
    "token_lifetime_seconds",
)

REGISTRY_KINDS: Final[Mapping[str, RegistryKind]] = {
    "DOCKER_HUB": RegistryKind(
        url="https://docker.io", optional=_LOGIN_FIELDS, tokens_at=("auth.docker.io",), has_catalogue=False
    ),
    "GITHUB_CR": RegistryKind(url="https://ghcr.io", optional=_LOGIN_FIELDS, has_catalogue=False),
    "GITHUB_ENTERPRISE_CR": RegistryKind(required=_LOGIN_FIELDS),
    "GITLAB_CR": RegistryKind(
        url="https://registry.gitlab.com",
        optional=_LOGIN_FIELDS,
        tokens_at=("gitlab.com",),
        has_catalogue=False,
    ),
    "PUBLIC_ECR": RegistryKind(login=LoginSource.NONE, url="https://public.ecr.aws", has_catalogue=False),
    "DOCR": RegistryKind(
        url="https://registry.digitalocean.com", required=_LOGIN_FIELDS, tokens_at=("api.digitalocean.com",)
    ),
    "GENERIC_CR": RegistryKind(optional=_LOGIN_FIELDS),
    "ECR": RegistryKind(
        login=LoginSource.AWS,
        required=("region", "access_key_id", "secret_access_key"),
        refused={"role_arn": _ROLE_ADVICE},
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
        refused=dict.fromkeys(_FEDERATION_FIELDS, _FEDERATION_REFUSAL),
    ),
    "AZURE_CR": RegistryKind(
        required=_LOGIN_FIELDS,
        optional=("azure_tenant_id", "azure_subscription_id"),
        why=dict.fromkeys(_LOGIN_FIELDS, _AZURE_REFUSAL),
    ),
}
_DOCKER_HUB_HOSTS: Final = frozenset(
    {DOCKER_HUB, "index.docker.io", "registry-1.docker.io", "hub.docker.com"}
)
_HUB_API: Final = "registry-1.docker.io"
_LOOPBACK_PATTERN: Final = re.compile(r"(127(\.[0-9]{1,3}){3}|localhost|\[::1\])(:[0-9]{1,5})?\Z")
_TAGGED_PATTERN: Final = re.compile(
    rf"(?P<name>.+?)(:(?P<tag>[\w][\w.-]{{0,127}}))?(@(?P<digest>{DIGEST}))?\Z"
)


class RegistryLogin(Struct, frozen=True):
    """Credentials for a registry."""

    username: str
    password: str

    def __repr__(self) -> str:
        return "RegistryLogin(…)"


class BuildRegistry(Struct, frozen=True):
    """The registry to which built images are pushed: that of the installation, or that of a cluster."""

    prefix: str
    """Host and path, such as `registry.example.com/windlass`."""
    login: RegistryLogin | None = None
    pull_login: RegistryLogin | None = None
    """Credentials for engines that only pull; None for `login`."""

    def name_of(self, ref: str) -> str:
        """Returns the name of a built image in the registry."""
        return f"{self.prefix}/{ref.removeprefix(WINDLASS_PREFIX)}"

    def holds(self, name: str) -> bool:
        """Returns whether an image name may be that of a built image in this registry."""
        return f"{spelled_out(name)}/".startswith(f"{spelled_out(self.prefix)}/")


class PullRequest(Struct, frozen=True):
    """The request to pull an image by tag."""

    ref: str
    login: RegistryLogin | None = None
    is_registered: bool = False
    """Whether the image is in a registry that the organization has added. Only that registry may resolve the
    tag; a local image with the same name is ignored."""
    org: str = ""


class ImageRef(Struct, frozen=True):
    """An image reference: a name with its registry, and a tag, a digest, or both."""

    name: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        return self.name + (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")

    @property
    def host(self) -> str:
        return registry_host(self.name)


def parse_ref(ref: str) -> ImageRef:
    match = _TAGGED_PATTERN.match(ref)
    if match is None:
        return ImageRef(ref)
    return ImageRef(match["name"], match["tag"] or "", match["digest"] or "")


def digest_of(ref: str) -> str:
    """Returns the digest in an image reference; empty if it has none."""
    return parse_ref(ref).digest


def usual_url(kind: str, region: str) -> str:
    """Returns the default address of a kind of registry; empty if it has none."""
    return REGISTRY_KINDS[kind].url.format(region=region)


def host_of(url: str) -> str:
    """Returns the host of a registry as it appears in image names."""
    host = urlsplit(url).netloc.lower()
    if host in _DOCKER_HUB_HOSTS:
        return DOCKER_HUB
    # Without a port, engines interpret a host such as `harbor` as part of a Docker Hub image name.
    return host if registry_host(f"{host}/image") == host else f"{host}:443"


def api_url(url: str) -> str:
    """Returns the base URL of a registry's API."""
    parts = urlsplit(url)
    host = _HUB_API if parts.netloc.lower() in _DOCKER_HUB_HOSTS else parts.netloc
    return f"{parts.scheme}://{host}"


def is_loopback(url: str) -> bool:
    return _LOOPBACK_PATTERN.match(urlsplit(url).netloc.lower()) is not None


def full_name(url: str, image_name: str) -> str:
    """Returns the full image name for engines: `ghcr.io/acme/shop`, or `acme/shop` for Docker Hub. Engines
    send the registry's credentials to the host in this name, so it is always the registry's host."""
    host = host_of(url)
    relative = image_name.removeprefix(f"{host}/")
    is_plain = host == DOCKER_HUB == registry_host(relative)
    return relative if is_plain else f"{host}/{relative}"


def repository_of(url: str, image_name: str) -> str:
    """Returns the repository name of an image inside its registry. Official images of Docker Hub are in
    `library`."""
    relative = image_name.removeprefix(f"{host_of(url)}/")
    return f"library/{relative}" if host_of(url) == DOCKER_HUB and "/" not in relative else relative


def other_registry(url: str, image_name: str) -> str:
    """Returns the host of a different registry in an image name; empty if there is none."""
    named = registry_host(image_name)
    if named == DOCKER_HUB and not image_name.startswith(tuple(f"{host}/" for host in _DOCKER_HUB_HOSTS)):
        return ""
    return "" if named == host_of(url) else named


def may_give_tokens(kind: str, url: str, realm: str) -> bool:
    """Returns whether credentials may be sent to the token server (`realm`) that a registry requests: the
    registry itself, a known host of its kind, or a host under the same domain."""
    registry = urlsplit(api_url(url))
    try:
        server = urlsplit(realm)
        port = server.port
    except ValueError:  # not a valid URL
        return False
    if server.scheme != registry.scheme or server.username is not None:
        return False
    if server.netloc.lower() == registry.netloc.lower():
        return True
    host = (server.hostname or "").lower()
    if server.scheme != "https" or port not in (None, 443):
        return False
    return host in REGISTRY_KINDS[kind].tokens_at or _are_neighbours((registry.hostname or "").lower(), host)


def _are_neighbours(registry: str, other: str) -> bool:
    """Returns whether two hosts are under the same domain: `registry.example.com` and `gitlab.example.com`,
    or `registry.git.example.com` and `git.example.com`."""
    domain = registry.partition(".")[2]
    return _is_domain(domain) and (other == domain or other.endswith(f".{domain}"))


def _is_domain(domain: str) -> bool:
    """Returns whether a domain can belong to one owner. Returns False for an IP address, and for public
    suffixes such as `uk` and `co.uk`."""
    labels = domain.split(".")
    if len(labels) < 2 or labels[-1].isdigit():
        return False
    return len(labels) > 2 or len(labels[-1]) > 2 or len(labels[-2]) > 3
