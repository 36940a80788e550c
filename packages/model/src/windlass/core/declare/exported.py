"""Declares how a family is exported: as a resource of the public Terraform provider of the full interface.

A family names the provider's resource and, for each of its attributes, the field of the document that has the
value. Fields without an attribute are told in comments of the export.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

WHOLE: Final = "."
"""The field of an attribute that groups fields of the same object."""


class Attribute(Struct, frozen=True):
    """An attribute of a resource of the provider."""

    name: str
    field: str = ""
    """The path of the field in the document; empty if it has the same name."""
    parts: tuple[Attribute, ...] = ()
    """The attributes of the object, or of each object of a list."""
    refers: str = ""
    """The noun of the resource outside of the environment whose id it has, such as `git token`."""
    is_required: bool = False
    """Whether it is written although it is empty."""
    otherwise: str = ""
    """The path, in the whole document, of the value of a document that has none."""
    default: str = ""
    """The value of a document that has none."""
    secret_if: str = ""
    """The sibling field that says whether the value is secret. A secret value becomes a variable."""
    least: int | None = None
    """The smallest number that the provider accepts. A smaller one is exported as this one, and listed."""
    lower_with: str = ""
    """The sibling field with which the provider also accepts smaller numbers."""
    hosts: tuple[str, ...] = ()
    """The hosts that the provider accepts in an address. Other addresses are listed."""
    is_json: bool = False
    """Whether the provider expects the object as JSON."""
    is_map: bool = False
    """Whether it is an object with keys of users, which is left out if it has none."""

    @property
    def path(self) -> str:
        return self.field or self.name


class ExportedResource(Struct, frozen=True):
    """A resource of the provider, and the attributes that are fields of the document."""

    type: str
    attributes: tuple[Attribute, ...]
    repeated: frozenset[str] = frozenset()
    """Fields that say the same as another field, whose attribute is enough."""
    lists: frozenset[str] = frozenset()
    """Attributes whose values are resources of their own in this product, such as variables."""
    unread: frozenset[str] = frozenset()
    """Attributes that the provider does not read when it imports the resource."""


def same(names: str) -> tuple[Attribute, ...]:
    """Returns attributes with the names of their fields, from a text of names."""
    return tuple(Attribute(name) for name in names.split())


VARIABLES: Final = "environment_variables"
ALIASES: Final = "environment_variable_aliases"
OVERRIDES: Final = "environment_variable_overrides"
FILES: Final = "environment_variable_files"
SECRETS: Final = "secrets"
SECRET_ALIASES: Final = "secret_aliases"  # noqa: S105 (the name of an attribute)
SECRET_OVERRIDES: Final = "secret_overrides"  # noqa: S105 (the name of an attribute)
SECRET_FILES: Final = "secret_files"  # noqa: S105 (the name of an attribute)
DOMAINS: Final = "custom_domains"
RESTRICTIONS: Final = "deployment_restrictions"
SETTINGS: Final = "advanced_settings_json"

UNREAD_WHEN_IMPORTED: Final = frozenset({FILES, SECRETS, SECRET_ALIASES, SECRET_OVERRIDES, SECRET_FILES})
"""Attributes of which the provider does not read every field when it imports a resource."""
UNREAD_IF_DESCRIBED: Final = frozenset({VARIABLES, ALIASES, OVERRIDES})
"""Attributes of whose items the provider does not read the descriptions when it imports a resource."""
PORTS: Final = "ports"

OF_PROJECTS: Final = frozenset({VARIABLES, ALIASES, FILES, SECRETS, SECRET_ALIASES, SECRET_FILES})
ALL_VARIABLES: Final = OF_PROJECTS | {OVERRIDES, SECRET_OVERRIDES}

_BRANCH: Final = (*same("branch root_path"), Attribute("git_token_id", refers="git token"))
REPOSITORY: Final = (Attribute("url", hosts=("github.com", "gitlab.com", "bitbucket.org")), *_BRANCH)
ANY_REPOSITORY: Final = (Attribute("url"), *_BRANCH)
GROUPS: Final = (
    Attribute("annotations_group_ids", "annotations_groups", refers="annotations group"),
    Attribute("labels_group_ids", "labels_groups", refers="labels group"),
)
UNREAD_GROUPS: Final = frozenset(attribute.name for attribute in GROUPS)
_FIRST_PORT: Final = "ports.0.internal_port"
_TYPES_OF_PROBES: Final = (
    Attribute("tcp", parts=(Attribute("port", otherwise=_FIRST_PORT), Attribute("host"))),
    Attribute(
        "http",
        parts=(
            Attribute("port", otherwise=_FIRST_PORT),
            Attribute("path"),
            Attribute("scheme", default="HTTP"),
        ),
    ),
    Attribute("exec", parts=same("command")),
    Attribute("grpc", parts=(Attribute("port", otherwise=_FIRST_PORT), Attribute("service"))),
)
_PROBE: Final = (
    Attribute("type", parts=_TYPES_OF_PROBES),
    *same("initial_delay_seconds period_seconds timeout_seconds success_threshold failure_threshold"),
)
HEALTHCHECKS: Final = Attribute(
    "healthchecks",
    parts=(Attribute("readiness_probe", parts=_PROBE), Attribute("liveness_probe", parts=_PROBE)),
    is_required=True,
)
LEAST_CPU: Final = 10
_SCALERS: Final = Attribute(
    "scalers",
    parts=(
        *same("scaler_type enabled role"),
        Attribute("config_json", is_json=True),
        Attribute("config_yaml"),
        Attribute("trigger_authentication", parts=same("name config_yaml")),
    ),
)
PROGRAM: Final = (
    *same("name icon_uri"),
    Attribute("cpu", least=LEAST_CPU),
    Attribute("memory"),
    Attribute("min_running_instances", least=1, lower_with="autoscaling"),
    *same("max_running_instances entrypoint arguments"),
    Attribute("autoscaling", parts=(*same("polling_interval_seconds cooldown_period_seconds"), _SCALERS)),
    Attribute("ephemeral_storage", "ephemeral_storage_in_gib"),
    *same("auto_preview auto_deploy"),
    HEALTHCHECKS,
    Attribute(
        PORTS,
        parts=same("internal_port external_port protocol publicly_accessible name is_default"),
    ),
    Attribute("storage", parts=same("type size mount_point")),
    *GROUPS,
)
"""The attributes of applications and containers."""
