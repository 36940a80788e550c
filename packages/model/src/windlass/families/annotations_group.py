"""A group of annotations: keys and longer texts that services of an organization share."""

from typing import Annotated, Literal

from msgspec import Meta

from windlass.core.declare.fields import WITHOUT_EFFECT, Name, counts_users, example
from windlass.core.declare.groups import LIST_ASSOCIATED_ITEMS, Key, check_keys
from windlass.core.declare.resource import Family, Shown, Spec
from windlass.families.organization import organization

AnnotationScope = Literal[
    "DEPLOYMENTS", "STATEFUL_SETS", "SERVICES", "INGRESS", "GATEWAY_API_ROUTES", "HPA", "PODS", "SECRETS",
    "JOBS", "CRON_JOBS",
]  # fmt: skip


class Annotation(Spec):
    key: Annotated[Key, example("example.com/runbook")]
    value: Annotated[str, Meta(max_length=16_384), example("https://wiki.example.com/checkout")]


class AnnotationsGroup(Spec):
    name: Annotated[Name, example("Runbook of the checkout")]
    annotations: Annotated[
        list[Annotation],
        Meta(min_length=1, max_length=50, description="Each key once"),
        example([{"key": "example.com/runbook", "value": "https://wiki.example.com/checkout"}]),
    ]
    scopes: Annotated[
        list[AnnotationScope],
        Meta(max_length=10, description="The objects of Kubernetes that get the annotations"),
        example(["PODS"]),
        WITHOUT_EFFECT,
    ]


class AnnotationsGroupShown(Shown):
    associated_items_count: Annotated[int, counts_users()] = 0


annotations_group = Family(
    "annotationsGroup",
    AnnotationsGroup,
    parent=organization,
    shown=AnnotationsGroupShown,
    segment="annotationsGroups",
    group="Labels and annotations groups",
    nested=True,
    normalise=lambda spec: check_keys("annotations", spec.annotations),
    actions=(LIST_ASSOCIATED_ITEMS,),
    about="Services name it in `annotations_groups`.",
)
