"""Actors, and the single function that decides what an actor may do at a place."""

from __future__ import annotations

from msgspec import Struct

from windlass.core.access.location import ResourceLocation
from windlass.core.access.permits import Permits, Scope


class Actor(Struct, frozen=True, kw_only=True):
    """An authenticated caller."""

    id: str
    name: str
    subject: str
    """Identifies the caller across all of its credentials."""
    permits: Permits
    limited_to: frozenset[str] | None = None
    """Ids of the only resources that this caller may use; None if it has no such limit."""
    limit: int | None = None
    expires: int | None = None
    token: str | None = None
    """Id of the API token that the caller used, if any."""
    session: str = ""
    """Id of the browser's session that the caller used, if any."""

    @property
    def budget(self) -> str:
        """The name of the budget for its requests: browser pages have a separate budget beside that of
        their token."""
        return f"browser:{self.subject}" if self.session else self.subject

    @property
    def organizations(self) -> tuple[str, ...]:
        return tuple(self.permits)

    @property
    def home(self) -> str:
        return next(iter(self.permits))

    def has_the_rights_of(self, other: Actor) -> bool:
        return (self.permits, self.limited_to) == (other.permits, other.limited_to)


SYSTEM = Actor(id="00000000-0000-4000-8000-000000000000", name="windlass", subject="windlass", permits={})
"""Windlass itself, as the actor of automatic changes in the audit."""


def may(actor: Actor, need: Scope, where: ResourceLocation) -> bool:
    """Decides whether the actor may do something that needs this scope at this place."""
    return may_below(actor, need, where) or (need is Scope.READ and _may_look(actor, where))


def may_below(actor: Actor, need: Scope, where: ResourceLocation) -> bool:
    """Decides the same for a place with everything below it: true only if `may` is true everywhere there."""
    if actor.limited_to is not None and not where.is_in(actor.limited_to):
        return False
    for permit in actor.permits.get(where.organization, ()):
        if permit.scopes.allows(need) and (permit.at == where or permit.at.contains(where)):
            return True
    return False


def may_somewhere(actor: Actor, need: Scope) -> bool:
    """Returns false if `may` is false at every place: an early answer, before the place is known."""
    for permits in actor.permits.values():
        for permit in permits:
            if permit.scopes.allows(need):
                return True
    return False


def scopes_somewhere(actor: Actor, org: str) -> Scope:
    """Returns the scopes that a caller has for some part of an organization."""
    scopes = Scope(0)
    for permit in actor.permits.get(org, ()):
        for scope in Scope:
            if permit.scopes.allows(scope):
                scopes |= scope
    return scopes


def ids_to_look_up(actor: Actor, where: ResourceLocation) -> frozenset[str] | None:
    """Returns ids that include all resources directly below a place that the actor may read, or None if there
    is no such set. Lists then look up those ids instead of reading everything."""
    limits = actor.limited_to
    return None if limits is None or where.is_in(limits) else limits


def _may_look(actor: Actor, where: ResourceLocation) -> bool:
    """Returns whether the place is the organization or the project of something that the actor may read. A
    limited actor sees its organization, but no project around its limits."""
    if where.project and actor.limited_to is not None and not where.is_in(actor.limited_to):
        return False
    return where.holds_projects and any(
        permit.scopes.allows(Scope.READ) and where.project in ("", permit.at.project)
        for permit in actor.permits.get(where.organization, ())
    )
