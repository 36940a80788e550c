"""What groups of labels and of annotations have in common, and how services refer to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from msgspec import Meta

from windlass.core.declare.actions import get
from windlass.core.declare.fields import WITHOUT_EFFECT, Id, example, refers, shaped
from windlass.core.declare.resource import Base, Shown, Spec, clash

MAX_LABELS_OF_SERVICE: Final = 64
"""The number of labels that an engine gets, because it repeats them in each list and event."""
# The syntax of keys of labels of Kubernetes, so that a group can be used there unchanged.
Key = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=127,
        pattern=shaped(
            r"^([a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?\Z",
            "must be a key of a label, such as team or example.com/team",
        ),
    ),
]


def shaped_value() -> str:
    return shaped(
        r"^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?\Z",
        "must begin and end with a letter or digit, with dashes, underscores and dots between them",
    )


def check_keys(field: str, entries: Sequence[Any]) -> None:
    """Raises Invalid if two entries of a group have the same key."""
    keys: set[str] = set()
    for number, entry in enumerate(entries):
        if entry.key in keys:
            raise clash(f"{field}[{number}].key", f"is there twice: {entry.key}. Leave one out")
        keys.add(entry.key)


class LabelsGroupRef(Spec):
    id: Annotated[Id, refers("labelsGroup")]


class AnnotationsGroupRef(Spec):
    id: Annotated[Id, refers("annotationsGroup")]


LabelsGroups = Annotated[
    list[LabelsGroupRef],
    Meta(max_length=20, description="Groups whose labels each container on Docker gets: `windlass.label.…`"),
]
AnnotationsGroups = Annotated[list[AnnotationsGroupRef], Meta(max_length=20), WITHOUT_EFFECT]


class LabelShown(Shown):
    key: str
    value: str
    propagate_to_cloud_provider: bool = False


class LabelsGroupOfService(Base):
    """A group of labels, as a service shows it."""

    name: Annotated[str, example("Team of the checkout")]
    labels: list[LabelShown]


class AnnotationShown(Shown):
    key: str
    value: str


class AnnotationsGroupOfService(Base):
    """A group of annotations, as a service shows it."""

    name: Annotated[str, example("Runbook of the checkout")]
    annotations: list[AnnotationShown]
    scopes: list[str]


class AssociatedItem(Shown):
    """A service that uses a group."""

    cluster_id: Id
    cluster_name: Annotated[str, example("default")]
    project_id: Id
    project_name: Annotated[str, example("shop")]
    environment_id: Id
    environment_name: Annotated[str, example("production")]
    item_id: Id
    item_name: Annotated[str, example("web")]
    item_type: Annotated[str, example("APPLICATION")]


LIST_ASSOCIATED_ITEMS: Final = get(
    "associatedItems", list[AssociatedItem], "List the services that use it", paged=False
)
