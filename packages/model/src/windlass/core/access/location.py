"""The place of a resource inside its organization, for permission checks."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from msgspec import Struct
from msgspec.structs import replace

LEVELS = frozenset({"organization", "project", "environment", "cluster"})
"""Families that have a field in `ResourceLocation`."""


class ResourceLocation(Struct, frozen=True, gc=False):
    """The ids from the organization down to a resource. With the organization alone, the organization
    itself."""

    organization: str
    project: str = ""
    environment: str = ""
    mode: str = ""
    """Mode of the environment: custom roles may allow more in STAGING than in PRODUCTION."""
    service: str = ""
    """A service, or any other resource directly in the environment."""
    cluster: str = ""
    item: str = ""
    """A resource of another kind: a webhook, an API token, a variable of a project or service."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids below the organization; some may be empty."""
        return (self.project, self.environment, self.service, self.cluster, self.item)

    @property
    def holds_projects(self) -> bool:
        """Returns True for the organization and for a project itself."""
        return not (self.environment or self.cluster or self.item)

    def below(self, family: str, id: str, mode: str = "") -> ResourceLocation:
        """Returns the place of a resource directly below this one."""
        if family in LEVELS:
            return replace(self, mode=mode, **{family: id})
        if self.environment and not self.service:
            return replace(self, service=id)
        return replace(self, item=id)

    def contains(self, other: ResourceLocation) -> bool:
        """Returns whether the other place is this one or below it."""
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
        """Returns whether one of the ids names this place or one above it, other than the organization."""
        return any(id and id in ids for id in self.ids)


def location_along(levels: Iterable[tuple[str, str, str]]) -> ResourceLocation:
    """Returns the place at the end of a path: family, id and mode of each level, the organization first."""
    organization, *rest = levels
    where = ResourceLocation(organization[1])
    for family, id, mode in rest:
        where = where.below(family, id, mode)
    return where
