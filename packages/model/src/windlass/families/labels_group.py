"""A group of labels: keys and values that services of an organization share."""

from typing import Annotated

from msgspec import Meta

from windlass.core.declare.fields import Name, counts_users, example
from windlass.core.declare.groups import LIST_ASSOCIATED_ITEMS, Key, check_keys, shaped_value
from windlass.core.declare.resource import Family, Shown, Spec
from windlass.families.organization import organization

LabelValue = Annotated[
    str, Meta(max_length=63, pattern=shaped_value(), description="Letters, digits, dashes, underscores, dots")
]


class Label(Spec):
    key: Annotated[Key, example("team")]
    value: Annotated[LabelValue, example("checkout")]
    propagate_to_cloud_provider: Annotated[
        bool, Meta(description="Kept for clients that send it; there is no cloud that it could be passed to")
    ] = False


class LabelsGroup(Spec):
    name: Annotated[Name, example("Team of the checkout")]
    labels: Annotated[
        list[Label],
        Meta(min_length=1, max_length=50, description="Each key once"),
        example([{"key": "team", "value": "checkout", "propagate_to_cloud_provider": False}]),
    ]


class LabelsGroupShown(Shown):
    associated_items_count: Annotated[int, counts_users()] = 0


labels_group = Family(
    "labelsGroup",
    LabelsGroup,
    parent=organization,
    shown=LabelsGroupShown,
    segment="labelsGroups",
    group="Labels and annotations groups",
    nested=True,
    normalise=lambda spec: check_keys("labels", spec.labels),
    actions=(LIST_ASSOCIATED_ITEMS,),
    about="Services name it in `labels_groups`.",
)
