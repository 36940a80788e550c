"""A Helm repository: a server with charts, and the login for it."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta

from windlass.core.access import Scope
from windlass.core.declare.actions import get, post
from windlass.core.declare.fields import (
    WITHOUT_EFFECT,
    Description,
    Line,
    Maybe,
    Name,
    absent,
    always_refused,
    counts_users,
    example,
    fields_by,
    fixed,
    hidden,
    shaped,
)
from windlass.core.declare.registry import Paging, StandaloneOperation
from windlass.core.declare.resource import Family, Shown, Spec, clash
from windlass.core.declare.shapes import LIST_USERS
from windlass.engines.registries import REGISTRY_KINDS, LoginSource, RegistryKind, is_loopback
from windlass.families.container_registry import AccessKey, Region, RegistryCheck, Secret, User
from windlass.families.organization import organization

RepositoryWord = Literal[
    "HTTPS", "OCI_ECR", "OCI_SCALEWAY_CR", "OCI_DOCKER_HUB", "OCI_PUBLIC_ECR", "OCI_GENERIC_CR",
    "OCI_GITHUB_CR", "OCI_GITLAB_CR",
]  # fmt: skip
HTTPS: Final = "HTTPS"
OCI_SCHEME: Final = "oci://"
_LOGIN_FIELDS: Final = ("username", "password")
REPOSITORY_KINDS: Final[Mapping[str, RegistryKind]] = {
    HTTPS: RegistryKind(optional=_LOGIN_FIELDS),
    **{
        f"OCI_{word}": REGISTRY_KINDS[word]
        for word in ("ECR", "SCALEWAY_CR", "DOCKER_HUB", "PUBLIC_ECR", "GENERIC_CR", "GITHUB_CR", "GITLAB_CR")
    },
}
"""The kinds of repositories. Those of OCI are container registries, with the settings of these."""
RepositoryAddress = Annotated[
    str,
    Meta(
        max_length=1024,
        pattern=shaped(
            r"^(https?|oci)://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?\Z",
            "must be an address such as https://charts.example.com or oci://registry.example.com/charts",
        ),
    ),
]
_FIELDS_SENT: Final = ("kind", "url", "config.username")
_REFUSED_ROLE: Final = always_refused("Windlass has no identity of its own at a cloud")


class HelmRepositoryConfig(Spec):
    """The login of a repository. Its kind decides which fields it needs."""

    username: Annotated[Maybe[User], example("acme"), Meta(description="User name of the login")] = absent
    password: Annotated[
        Maybe[Secret],
        hidden(sent_to=_FIELDS_SENT),
        example("a-token-that-only-reads"),
        Meta(description="A password, or better a read-only token. Never shown"),
    ] = absent
    region: Annotated[Maybe[Region], Meta(description="Region of the registry at its cloud provider")] = (
        absent
    )
    access_key_id: Annotated[Maybe[AccessKey], Meta(description="Id of an access key of AWS")] = absent
    secret_access_key: Annotated[
        Maybe[Secret],
        hidden(sent_to=("kind", "config.region", "config.access_key_id", "url")),
        Meta(description="Secret key of AWS; requests to AWS are signed with it. Never shown"),
    ] = absent
    role_arn: Annotated[Maybe[Line], _REFUSED_ROLE] = absent
    scaleway_access_key: Annotated[Maybe[AccessKey], WITHOUT_EFFECT] = absent
    scaleway_secret_key: Annotated[
        Maybe[Secret],
        hidden(sent_to=("kind", "url", "config.region")),
        Meta(description="Secret key of Scaleway. Never shown"),
    ] = absent
    scaleway_project_id: Annotated[Maybe[Line], WITHOUT_EFFECT] = absent
    azure_tenant_id: Annotated[Maybe[Line], WITHOUT_EFFECT] = absent
    azure_subscription_id: Annotated[Maybe[Line], WITHOUT_EFFECT] = absent


class HelmRepositoryConfigShown(Shown):
    """The settings of a repository without its secrets."""

    username: Maybe[str] = absent
    region: Maybe[str] = absent
    access_key_id: Maybe[str] = absent
    scaleway_access_key: Maybe[str] = absent
    scaleway_project_id: Maybe[str] = absent
    azure_tenant_id: Maybe[str] = absent
    azure_subscription_id: Maybe[str] = absent


class HelmRepository(Spec):
    name: Annotated[Name, example("charts of the shop")]
    description: Annotated[Description, example("Where the shop's charts are")] = ""
    kind: Annotated[
        RepositoryWord,
        fixed(),
        example("HTTPS"),
        Meta(description="Cannot be changed: names of charts depend on it"),
    ]
    url: Annotated[
        RepositoryAddress,
        example("https://charts.example.com"),
        Meta(
            description="The folder of index.yaml, or oci:// and the folder of the charts. Plain http is for "
            "repositories on this machine (127.0.0.1)"
        ),
    ]
    skip_tls_verification: Annotated[
        bool,
        example(False),
        Meta(
            description="Refused if true: ask the operator to add the authority of the certificate "
            "(outbound_ca_file)"
        ),
    ] = False
    config: Annotated[
        HelmRepositoryConfig,
        fields_by("kind", {name: kind.required + kind.optional for name, kind in REPOSITORY_KINDS.items()}),
    ]


class HelmRepositoryShown(Shown):
    config: HelmRepositoryConfigShown
    associated_services_count: Annotated[int, counts_users()] = 0
    check: RegistryCheck


class ChartsQuery(Paging):
    """Selects charts of a repository."""

    chartName: Annotated[
        str,
        Meta(
            max_length=255,
            pattern=shaped(
                r"^([A-Za-z0-9][A-Za-z0-9._/-]*)?\Z",
                "must be the name of a chart in the repository, such as redis",
            ),
            description="List the versions of this chart, the newest first. Required for OCI registries, "
            "which do not list charts",
        ),
    ] = ""


class RepositoryChart(Shown):
    """A chart of a repository, with its versions."""

    chart_name: Annotated[str, example("redis")]
    versions: Annotated[list[str], example(["20.1.0", "20.0.5"])]


class AvailableHelmRepository(Shown):
    """A kind of Helm repository, with the settings that it needs."""

    kind: Annotated[RepositoryWord, example("HTTPS")]
    required_config: Annotated[dict[str, Any], example({"username": "string"})]
    is_mandatory: Annotated[bool, Meta(description="True if `config` must have fields")] = False
    optional_config: Annotated[dict[str, Any], example({"username": "string", "password": "string"})] = {}


def normalise(spec: HelmRepository) -> None:
    kind, config = REPOSITORY_KINDS[spec.kind], spec.config
    names = {name for name in config.__struct_fields__ if getattr(config, name) not in (None, UNSET)}
    for name in sorted(names):
        if why := kind.refused.get(name):
            raise clash(f"config.{name}", why)
        if name not in (*kind.required, *kind.optional):
            raise clash(
                f"config.{name}", f"leave it out: a repository of the kind {spec.kind} has no such setting"
            )
    for name in kind.required:
        if name not in names:
            raise clash(f"config.{name}", f"is required for {spec.kind}")
    if bool(config.username) != bool(config.password) and kind.login is LoginSource.CONFIG:
        missing = "password" if config.username else "username"
        raise clash(f"config.{missing}", "is required with the other: a login has a user name and a password")
    if spec.skip_tls_verification:
        raise clash(
            "skip_tls_verification",
            "must be false: ask the operator to add the authority of the certificate with outbound_ca_file",
        )
    spec.url = spec.url.rstrip("/")
    _check_address(spec)


def _check_address(spec: HelmRepository) -> None:
    is_oci = spec.url.startswith(OCI_SCHEME)
    if spec.kind != HTTPS and not is_oci:
        raise clash("url", f"must begin with {OCI_SCHEME} for {spec.kind}")
    if spec.kind == HTTPS and is_oci:
        raise clash(
            "url", f"must begin with https:// for {HTTPS}: {OCI_SCHEME} is for the kinds that begin with OCI_"
        )
    if spec.url.startswith("http://") and not is_loopback(spec.url):
        raise clash(
            "url", "must begin with https://: plain http is for repositories on this machine (127.0.0.1)"
        )
    if re.search(r"(^|/)\.\.?(/|\Z)", spec.url.partition("://")[2]):
        raise clash("url", "must have no . or .. between slashes")


_CHARTS_DESCRIPTION: Final = (
    "Reads the repository. 409 with the reason if it cannot be read. OCI registries do not list charts: "
    "name one with `chartName`."
)

helm_repository = Family(
    "helmRepository",
    HelmRepository,
    parent=organization,
    shown=HelmRepositoryShown,
    nested=True,
    group="Helm repositories",
    spoken="Helm repository",
    write_need=Scope.ADMIN,
    normalise=normalise,
    about="Windlass tests the repository before it stores it: 400 with the reason if it refuses the login or "
    "is not a chart repository. One that cannot be reached is stored, and `check` says so. Answers never "
    "contain secrets.",
    actions=(
        post(
            "check",
            RegistryCheck,
            "Test the repository now",
            "Calls the repository with its login. The outcome is also kept in `check` of the repository.",
            id="tryHelmRepository",
        ),
        get(
            "charts",
            list[RepositoryChart],
            "List charts and versions",
            _CHARTS_DESCRIPTION,
            query=ChartsQuery,
            also=(409, 503),
            outside=True,
        ),
        LIST_USERS,
    ),
)

available = StandaloneOperation(
    path="/availableHelmRepository",
    group="Helm repositories",
    action=get(
        "listAvailableHelmRepository",
        list[AvailableHelmRepository],
        "List the kinds of Helm repositories, with the settings that each needs",
        paged=False,
    ),
)
