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

OF_PROJECTS: Final = frozenset({VARIABLES, ALIASES, FILES, SECRETS, SECRET_ALIASES, SECRET_FILES})
ALL_VARIABLES: Final = OF_PROJECTS | {OVERRIDES, SECRET_OVERRIDES}

REPOSITORY: Final = (
    *same("url branch root_path"),
    Attribute("git_token_id", refers="git token"),
)
GROUPS: Final = (
    Attribute("annotations_group_ids", "annotations_groups", refers="annotations group"),
    Attribute("labels_group_ids", "labels_groups", refers="labels group"),
)
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
PROGRAM: Final = (
    *same("name icon_uri cpu memory min_running_instances max_running_instances entrypoint arguments"),
    Attribute("ephemeral_storage", "ephemeral_storage_in_gib"),
    *same("auto_preview auto_deploy"),
    HEALTHCHECKS,
    Attribute(
        "ports",
        parts=same("internal_port external_port protocol publicly_accessible name is_default"),
    ),
    Attribute("storage", parts=same("type size mount_point")),
    *GROUPS,
)
"""The attributes of applications and containers."""
