"""Regions of cloud providers, as data."""

from typing import Annotated

from msgspec import Meta

from windlass.core.declare.actions import get
from windlass.core.declare.fields import example
from windlass.core.declare.registry import StandaloneOperation
from windlass.core.declare.resource import Shown


class Region(Shown):
    name: Annotated[str, example("eu-west-3")]
    country_code: Annotated[str, example("FR")]
    country: Annotated[str, example("France")]
    city: Annotated[str, example("Paris")]
    arm_supported: Annotated[
        bool, Meta(description="True if ARM instance types exist in the region"), example(True)
    ] = False
    zones: Annotated[
        list[str],
        Meta(description="Availability zones of the region"),
        example(["eu-west-3a", "eu-west-3b", "eu-west-3c"]),
    ] = []


def _region_operation(provider: str, title: str) -> StandaloneOperation:
    action = get(f"list{title}Regions", list[Region], f"List {title} regions", paged=False, is_unpaged=True)
    return StandaloneOperation(path=f"/{provider}/region", group="Cloud Provider", action=action)


aws = _region_operation("aws", "AWS")
gcp = _region_operation("gcp", "GCP")
azure = _region_operation("azure", "Azure")
scaleway = _region_operation("scaleway", "Scaleway")
