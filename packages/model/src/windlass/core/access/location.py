"""The location of a resource in its organization, for permission checks."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct
from msgspec.structs import replace

LEVEL_FAMILIES = frozenset({"organization", "project", "environment", "cluster"})
"""Families with a field of their own in `ResourceLocation`."""


class ResourceLocation(Struct, frozen=True, gc=False):
    """The ids on the path from the organization to a resource. If only `organization` is set, the location is
    the organization itself."""

    organization: str
    project: str = ""
    environment: str = ""
    mode: str = ""
    """The mode of the environment. Custom roles may allow more in STAGING than in PRODUCTION."""
    service: str = ""
    """The id of a service or of another resource directly in the environment."""
    cluster: str = ""
    item: str = ""
    """The id of any other resource, such as a webhook, an API token, or a variable of a project or
    service."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids below the organization. Ids of missing levels are empty."""
        return (self.project, self.environment, self.service, self.cluster, self.item)

    @property
    def holds_projects(self) -> bool:
        """Returns whether the location is an organization or a project."""
        return not (self.environment or self.cluster or self.item)

    def below(self, family: str, id: str, mode: str = "") -> ResourceLocation:
        """Returns the location of a resource directly below this location."""
        if family in LEVEL_FAMILIES:
            return replace(self, mode=mode, **{family: id})
        if self.environment and not self.service:
            return replace(self, service=id)
        return replace(self, item=id)

    def contains(self, other: ResourceLocation) -> bool:
        """Returns whether the other location is equal to or below this one."""
        return (
            self.organization == other.organization
            and self.project in ("", other.project)
            and self.environment in ("", other.environment)
            and self.mode in ("", other.mode)
            and self.service in ("", other.service)
            and self.cluster in ("", other.cluster)
            and self.item in ("", other.item)
        )

    def is_in(self, ids: Collection[str]) -> bool:
        """Returns whether the ids include this location or one of its parents, except the organization."""
        return any(id and id in ids for id in self.ids)


def location_along(levels: Iterable[tuple[str, str, str]]) -> ResourceLocation:
    """Returns the location at the end of a path. Each level consists of family, id and mode; the organization
    comes first."""
    organization, *rest = levels
    where = ResourceLocation(organization[1])
    for family, id, mode in rest:
        where = where.below(family, id, mode)
    return where
