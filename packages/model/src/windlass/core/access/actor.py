"""Actors, and the functions that decide what an actor may do at a place."""

from __future__ import annotations

from msgspec import Struct

from windlass.core.access.location import ResourceLocation
from windlass.core.access.permits import Permits, Scope


class Actor(Struct, frozen=True, kw_only=True):
    """An authenticated caller."""

    id: str
    name: str
    subject: str
    """Identifies the caller independent of the credential."""
    permits: Permits
    limited_to: frozenset[str] | None = None
    """Ids of the only resources that the caller may access; None if access is not limited."""
    limit: int | None = None
    expires: int | None = None
    token: str | None = None
    """Id of the API token that authenticated the request; None if there is none."""
    session: str = ""
    """Id of the browser session that authenticated the request; empty if there is none."""

    @property
    def budget(self) -> str:
        """The key of the caller's request quota. Browser sessions have a quota separate from their token's
        quota."""
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
"""Windlass itself, the actor of automatic changes in the audit."""


def may(actor: Actor, required_scope: Scope, location: ResourceLocation) -> bool:
    """Returns whether the actor has this scope at this place."""
    return may_below(actor, required_scope, location) or (
        required_scope is Scope.READ and _may_look(actor, location)
    )


def may_below(actor: Actor, required_scope: Scope, location: ResourceLocation) -> bool:
    """Returns whether the actor has this scope at this place and everywhere below it."""
    if actor.limited_to is not None and not location.is_in(actor.limited_to):
        return False
    for permit in actor.permits.get(location.organization, ()):
        if permit.scopes.allows(required_scope) and (permit.at == location or permit.at.contains(location)):
            return True
    return False


def may_somewhere(actor: Actor, required_scope: Scope) -> bool:
    """Returns whether the actor may have this scope anywhere. False allows an early refusal, before the place
    is known."""
    for permits in actor.permits.values():
        for permit in permits:
            if permit.scopes.allows(required_scope):
                return True
    return False


def scopes_somewhere(actor: Actor, org: str) -> Scope:
    """Returns all scopes that the caller has anywhere in the organization."""
    scopes = Scope(0)
    for permit in actor.permits.get(org, ()):
        for scope in Scope:
            if permit.scopes.allows(scope):
                scopes |= scope
    return scopes


def ids_to_look_up(actor: Actor, location: ResourceLocation) -> frozenset[str] | None:
    """Returns ids that include all readable resources directly below a place. None if the ids are not
    limited.

    With such ids, lists look up single resources instead of reading all of them.
    """
    limits = actor.limited_to
    return None if limits is None or location.is_in(limits) else limits


def _may_look(actor: Actor, location: ResourceLocation) -> bool:
    """Returns whether the place is the organization or project of a resource that the actor may read.

    An actor with limited access sees its organization, but not the projects that contain its resources.
    """
    if location.project and actor.limited_to is not None and not location.is_in(actor.limited_to):
        return False
    return location.holds_projects and any(
        permit.scopes.allows(Scope.READ) and location.project in ("", permit.at.project)
        for permit in actor.permits.get(location.organization, ())
    )
