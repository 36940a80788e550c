"""The account of a caller: its identity, organizations and scopes."""

from __future__ import annotations

from msgspec import Struct

from windlass.base.clock import stamp
from windlass.control.context.context import Context
from windlass.control.people.people import person_id_of
from windlass.control.people.second_factors import has_app
from windlass.control.request.permissions import scopes_throughout
from windlass.core.access import Actor, scopes_somewhere, words_of
from windlass.core.declare.stored import NamedDocument
from windlass.families.organization import organization
from windlass.store import Reads
from windlass.store.tables.people import Person


class OwnOrganization(Struct, frozen=True):
    id: str
    name: str
    scopes: list[str]
    """The scopes that the caller has for the whole organization."""
    scopes_of_parts: list[str]
    """The scopes that the caller has for at least a part of the organization."""


class OwnPasskey(Struct, frozen=True):
    id: str
    name: str
    created_at: str
    last_used_at: str | None


class OwnPerson(Struct, frozen=True):
    """A person who signs in with a password of this installation."""

    email: str
    name: str
    password_changed_at: str
    has_second_factor: bool
    has_authenticator_app: bool
    passkeys: list[OwnPasskey]
    recovery_codes_left: int


class OwnAccount(Struct, frozen=True):
    id: str
    name: str
    is_person: bool
    organizations: list[OwnOrganization]
    session: str
    """Id of the browser session; empty for other credentials."""
    expires_at: str | None
    person: OwnPerson | None
    """The person, if the caller signs in with a password here."""


async def account_of(ctx: Context, actor: Actor) -> OwnAccount:
    organizations = []
    for id in actor.organizations:
        row = await ctx.store.reads.resources.find(organization.name, id)
        if row is not None:
            throughout, somewhere = scopes_throughout(actor, id), scopes_somewhere(actor, id)
            name = row.read(NamedDocument).name
            organizations.append(OwnOrganization(id, name, words_of(throughout), words_of(somewhere)))
    id = person_id_of(actor)
    person = await ctx.store.reads.people.get(id) if id else None
    return OwnAccount(
        actor.id,
        actor.name,
        actor.subject.startswith("jwt:"),
        organizations,
        actor.session,
        stamp(actor.expires) if actor.expires else None,
        await _own_person(ctx.store.reads, person) if person else None,
    )


async def _own_person(reads: Reads, person: Person) -> OwnPerson:
    has, left = await has_app(reads, person.id), await reads.second_factors.codes(person.id)
    passkeys = [
        OwnPasskey(
            passkey.id, passkey.name, stamp(passkey.created), stamp(passkey.used) if passkey.used else None
        )
        for passkey in await reads.passkeys.of(person.id)
    ]
    is_there = has or bool(passkeys)
    return OwnPerson(person.email, person.name, stamp(person.changed), is_there, has, passkeys, left)
