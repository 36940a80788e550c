"""People who sign in with a password of this installation, as members of organizations."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from windlass.base.clock import stamp
from windlass.base.errors import Conflict, Forbidden, Missing
from windlass.control.context.call import Call, Origin, Reply, encode, writes
from windlass.control.context.context import Context
from windlass.control.people.callers import OWN_ISSUER, subject_of_person
from windlass.control.people.handed_links import new_handed_link
from windlass.control.people.password_links import INVITATION, RESET, url_of_link
from windlass.control.records.recording import about, emit, emit_asked
from windlass.control.request.paths import parent_of, target
from windlass.core.access import Actor, ResourceLocation, Scope, may_below
from windlass.core.declare.stored import rewritten
from windlass.core.words.events import Event
from windlass.families.member import MemberReset, PasswordLinkShown, member
from windlass.store import Row, Tx
from windlass.store.tables.people import Person

_SUBJECT_PREFIX = subject_of_person(OWN_ISSUER, "")


def person_id_of(actor: Actor) -> str:
    """Returns the id of the person with a password here that calls; empty for other callers."""
    return actor.subject.removeprefix(_SUBJECT_PREFIX) if actor.subject.startswith(_SUBJECT_PREFIX) else ""


async def record_about_person(
    ctx: Context,
    tx: Tx,
    kind: Event,
    person: Person,
    origin: Origin,
    data: Mapping[str, object],
) -> None:
    """Records what a person did about the own account, in each organization of the person."""
    for id, org, _ in await tx.identities.of(OWN_ISSUER, person.id):
        row = await tx.resources.get(id)
        if row is not None:
            emit(tx, kind, org, await about(ctx, tx, row), id, person.email, origin, data)


async def rename_person(ctx: Context, tx: Tx, person: Person, name: str, origin: Origin) -> None:
    """Changes the name of a person, and of the members that the person is."""
    await tx.people.rename(person.id, name)
    for id, org, body in await tx.identities.of(OWN_ISSUER, person.id):
        row = await tx.resources.get(id)
        changed = rewritten(body, {"name": name, "nickname": name})
        if row is None or changed == body:
            continue
        await tx.resources.rewrite(id, changed)
        data = {"parent": row.parent, "before": msgspec.Raw(body), "after": msgspec.Raw(changed)}
        emit(tx, Event.UPDATED, org, await about(ctx, tx, row), id, person.email, origin, data)


@writes("inviteMember.createLink")
async def create_invitation_link(ctx: Context, tx: Tx, call: Call) -> Reply:
    """Creates another link for an invitation. The former one ends."""
    row = await target(tx, call)
    _require_passwords(ctx)
    link = await new_handed_link(tx, INVITATION, row, call.actor.subject)
    await emit_asked(ctx, tx, Event.PASSWORD_LINK_CREATED, row, call, {})
    return Reply(encode(PasswordLinkShown(url_of_link(ctx, link), stamp(link.ends))))


@writes("member.resetSecondFactor")
async def reset_second_factor(ctx: Context, tx: Tx, call: Call) -> Reply:
    """Removes the second factor of a member who has lost it. The password is still needed to sign in."""
    row, person = await _person_to_help(ctx, tx, call)
    await tx.second_factors.delete_of(person.id)
    await emit_asked(ctx, tx, Event.SECOND_FACTOR_REMOVED, row, call, {})
    return Reply()


@writes("member.createPasswordReset")
async def create_reset_link(ctx: Context, tx: Tx, call: Call) -> Reply:
    """Creates a link with which a member chooses a new password.

    Who has the link can sign in as the member. Therefore the caller must be an Admin of all organizations
    of the member: otherwise an Admin of one could get into another.
    """
    row, _ = await _person_to_help(ctx, tx, call)
    link = await new_handed_link(tx, RESET, row, call.actor.subject)
    await emit_asked(ctx, tx, Event.PASSWORD_LINK_CREATED, row, call, {})
    return Reply(encode(PasswordLinkShown(url_of_link(ctx, link), stamp(link.ends))))


async def _person_to_help(ctx: Context, tx: Tx, call: Call) -> tuple[Row, Person]:
    """Returns a member with the person who has lost a password or a second factor.

    Who helps can sign in as the member. Therefore the caller must be an Admin of all organizations of the
    member: otherwise an Admin of one could get into another.
    """
    org, sent = await parent_of(tx, call), call.sent(MemberReset)
    _require_passwords(ctx)
    row = await tx.resources.find(member.name, sent.user_id)
    if row is None or row.parent != org.id:
        raise Missing("List the members to find the user_id: no member has this one")
    issuer, subject = await tx.identities.person_of(row.id) or ("", "")
    person = await tx.people.get(subject) if issuer == OWN_ISSUER else None
    if person is None:
        raise Conflict("Ask the provider of this member: people who sign in there have no password here")
    for _, other, _ in await tx.identities.of(OWN_ISSUER, person.id):
        if not may_below(call.actor, Scope.ADMIN, ResourceLocation(other)):
            raise Forbidden(
                "Ask the operator of this server to run `windlass user reset EMAIL`: this person is a "
                "member of another organization too, of which you are not an Admin"
            )
    return row, person


def _require_passwords(ctx: Context) -> None:
    if not ctx.settings.takes_passwords:
        raise Conflict(
            "Serve Windlass over https (public_url), or set `passwords`: at this address, nobody can "
            "sign in with a password"
        )
