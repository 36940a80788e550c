"""Actors, and the decision what an actor may do where. Nothing else in the product decides that."""

from __future__ import annotations

from msgspec import Struct

from windlass.core.access.permits import Permits
from windlass.core.access.scopes import Scope
from windlass.core.access.where import Where


class Actor(Struct, frozen=True, kw_only=True):
    """A caller whose credentials were good."""

    id: str
    name: str
    subject: str
    """Identifies the caller across all of its credentials."""
    permits: Permits
    limited_to: frozenset[str] | None = None
    """Ids of resources outside of which this caller may do nothing; None if it has no limits."""
    limit: int | None = None
    expires: int | None = None
    token: str | None = None
    """Id of the API token behind it, if there is one."""

    @property
    def organizations(self) -> tuple[str, ...]:
        return tuple(self.permits)

    @property
    def home(self) -> str:
        return next(iter(self.permits))

    def has_the_rights_of(self, other: Actor) -> bool:
        return (self.permits, self.limited_to) == (other.permits, other.limited_to)


SYSTEM = Actor(id="00000000-0000-4000-8000-000000000000", name="windlass", subject="windlass", permits={})
"""Windlass itself, in the audit of what it does unasked."""


def may(actor: Actor, need: Scope, where: Where) -> bool:
    """Decides whether the actor may do something that needs this scope at this place."""
    return may_below(actor, need, where) or (need is Scope.READ and _may_look(actor, where))


def may_below(actor: Actor, need: Scope, where: Where) -> bool:
    """Decides the same for a place with everything below it: true only if `may` is true everywhere there."""
    if actor.limited_to is not None and not where.is_in(actor.limited_to):
        return False
    for permit in actor.permits.get(where.organization, ()):
        if permit.scopes.allows(need) and (permit.at == where or permit.at.contains(where)):
            return True
    return False


def may_somewhere(actor: Actor, need: Scope) -> bool:
    """Returns false if `may` is false at every place: the answer before a place is known."""
    for permits in actor.permits.values():
        for permit in permits:
            if permit.scopes.allows(need):
                return True
    return False


def narrowed_to(actor: Actor, where: Where) -> frozenset[str] | None:
    """Returns ids among which are all resources directly below a place that the actor may read, if there are
    such ids: lists can look those up instead of reading everything."""
    limits = actor.limited_to
    return None if limits is None or where.is_in(limits) else limits


def _may_look(actor: Actor, where: Where) -> bool:
    """True if the place is the organization or the project of something that the actor may read. A limited
    actor sees its organization, but no project around its limits."""
    if where.project and actor.limited_to is not None and not where.is_in(actor.limited_to):
        return False
    return where.holds_projects and any(
        permit.scopes.allows(Scope.READ) and where.project in ("", permit.at.project)
        for permit in actor.permits.get(where.organization, ())
    )
