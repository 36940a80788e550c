"""Previews of clones: what is copied of an environment or a service, and what is not."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from windlass.core.declare.fields import Id, example, id_of_subject
from windlass.core.declare.resource import Shown


class ClonedVariable(Shown):
    """A variable or secret that is copied."""

    key: Annotated[str, example("COLOUR")]
    is_secret: bool
    variable_type: Annotated[str, Meta(description="VALUE, FILE, ALIAS or OVERRIDE"), example("VALUE")]


class ClonedService(Shown):
    """A service that is copied."""

    id: Annotated[Id, Meta(description="The original")]
    name: Annotated[str, Meta(description="Name of the copy"), example("web")]
    service_type: Annotated[str, example("APPLICATION")]
    stage: Annotated[
        str, Meta(description="The deployment stage of the copy"), example("default-applications")
    ] = ""
    variables: list[ClonedVariable] = []
    advanced_settings: Annotated[
        list[str],
        Meta(description="Keys of advanced settings that differ from their defaults"),
        example(["build.timeout_max_sec"]),
    ] = []
    deployment_restrictions: Annotated[
        list[str], Meta(description="Paths of its deployment restrictions"), example(["docs"])
    ] = []


class NotCloned(Shown):
    """A part of the original that is not copied."""

    kind: Annotated[
        Literal["DATA", "DOMAIN", "VARIABLE", "SECRET", "RUNNING_HOURS", "DEPLOYMENTS"], example("DATA")
    ]
    service_name: Annotated[str, Meta(description="Empty for the environment itself"), example("web")] = ""
    name: Annotated[str, example("/data")]
    reason: Annotated[str, example("Data is not copied: the copy begins with an empty volume")]


class ClonePreview(Shown):
    """The preview of a clone. Nothing is made."""

    id: Annotated[Id, id_of_subject()]
    name: Annotated[str, Meta(description="Name of the copy"), example("staging")]
    stages: Annotated[
        list[str],
        Meta(description="Deployment stages of a copied environment, in their order"),
        example(["default-databases", "default-jobs", "default-applications"]),
    ] = []
    variables: Annotated[
        list[ClonedVariable], Meta(description="Variables and secrets of a copied environment itself")
    ] = []
    services: list[ClonedService]
    not_cloned: list[NotCloned]


SHOW_CLONE: Final = (
    "Takes the body of `clone`, and shows what would be copied and what would not. Makes nothing. Refused "
    "for the same reasons as `clone`."
)
