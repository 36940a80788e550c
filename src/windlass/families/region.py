"""Regions of cloud providers, as data."""

from typing import Annotated

from msgspec import Meta

from windlass.core.access import Scope
from windlass.core.registry import Endpoint
from windlass.core.resource import Action, Shown


class Region(Shown):
    name: str
    country_code: str
    country: str
    city: str
    arm_supported: Annotated[bool, Meta(description="Whether ARM instance types exist in the region")] = False
    zones: Annotated[list[str], Meta(description="Availability zones of the region")] = []


def _regions(provider: str, title: str) -> Endpoint:
    return Endpoint(
        path=f"/{provider}/region",
        group="Cloud Provider",
        action=Action(
            name=f"list{title}Regions",
            method="GET",
            suffix="",
            need=Scope.READ,
            summary=f"List {title} regions",
            answer=Region,
            listing=True,
            paged=False,
        ),
    )


aws = _regions("aws", "AWS")
gcp = _regions("gcp", "GCP")
azure = _regions("azure", "Azure")
scaleway = _regions("scaleway", "Scaleway")
