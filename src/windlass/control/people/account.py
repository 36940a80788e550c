"""The account: what a caller sees of itself."""

from __future__ import annotations

from msgspec import Struct

from windlass.base.clock import stamp
from windlass.control.context.context import Context
from windlass.core.access import Actor, Scope, Where, may_below, words_of
from windlass.core.declare.stored import NamedDocument
from windlass.families.organization import organization


class OwnOrganization(Struct, frozen=True):
    id: str
    name: str
    scopes: list[str]
    """What the caller may do everywhere in it."""
    scopes_of_parts: list[str]
    """What the caller may do to some of what is in it: more than `scopes` if it is limited to parts."""


class OwnAccount(Struct, frozen=True):
    id: str
    name: str
    is_person: bool
    organizations: list[OwnOrganization]
    session: str
    """Id of the browser's session; empty for other credentials."""
    expires_at: str | None


async def account_of(ctx: Context, actor: Actor) -> OwnAccount:
    organizations = []
    for id in actor.organizations:
        row = await ctx.store.reads.resources.find(organization.name, id)
        if row is not None:
            throughout, somewhere = _scopes_throughout(actor, id), _scopes_somewhere(actor, id)
            name = row.read(NamedDocument).name
            organizations.append(OwnOrganization(id, name, words_of(throughout), words_of(somewhere)))
    return OwnAccount(
        actor.id,
        actor.name,
        actor.subject.startswith("jwt:"),
        organizations,
        actor.session,
        stamp(actor.expires) if actor.expires else None,
    )


def _scopes_throughout(actor: Actor, org: str) -> Scope:
    scopes = Scope(0)
    for scope in Scope:
        if may_below(actor, scope, Where(org)):
            scopes |= scope
    return scopes


def _scopes_somewhere(actor: Actor, org: str) -> Scope:
    permits = actor.permits.get(org, ())
    scopes = Scope(0)
    for scope in Scope:
        if any(permit.scopes.allows(scope) for permit in permits):
            scopes |= scope
    return scopes
