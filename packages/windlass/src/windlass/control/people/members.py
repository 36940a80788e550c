"""Members of organizations: invitations, roles, ownership and removal."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from windlass.base.errors import Conflict, Invalid, Missing
from windlass.control.context.call import Call, Reply, writes
from windlass.control.context.context import Context
from windlass.control.people.callers import OWN_ISSUER, is_admin_role, is_admin_token, subject_of_person
from windlass.control.people.handed_links import end_links_of, new_handed_link
from windlass.control.people.password_links import INVITATION, address_of, url_of_link
from windlass.control.records.recording import record
from windlass.control.request.behaviour import Behaviour, Change, Draft, behaves
from windlass.control.request.changing import apply_changes
from windlass.control.request.creating import NewResource, create_in
from windlass.control.request.deleting import delete_resource, requester_of
from windlass.control.request.paths import parent_of, target
from windlass.core.access import ROLE_IDS, SCOPES, Actor, Scope
from windlass.core.declare.fields import visible
from windlass.core.declare.stored import NamedDocument, rewritten
from windlass.core.words.events import Event
from windlass.families.api_token import api_token
from windlass.families.member import (
    Invitation,
    InvitationShown,
    Member,
    MemberRemoval,
    MemberRoleUpdate,
    OwnershipTransfer,
    invitation,
    member,
    old_role,
)
from windlass.families.organization import organization
from windlass.store import Reads, Row, Tx

_INVITATION_LINK = "invites"
"""Name of the link from an invitation to the invited email address."""


class IssuerIdentity(Struct, frozen=True):
    """A person as identified by an OpenID Connect issuer."""

    issuer: str
    subject: str
    email: str
    """The verified email address; empty if the issuer has not verified one."""
    name: str

    @property
    def shown(self) -> str:
        return self.email or self.subject


class OrganizationOwner(Struct, frozen=True):
    """The field of an organization with its owner."""

    owner: str | None = None


class Invitee(Struct, frozen=True):
    """An organization that a person may join, with the role, by an invitation or by the setting
    `oidc_join`."""

    org: Row
    role_id: str
    guest: Row | None


@behaves(member)
class Members(Behaviour[Member]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Member]) -> None:
        scope = SCOPES[draft.spec.role_id]
        draft.give(role=old_role(scope), role_name=scope.word, nickname=draft.spec.name)

    async def updating(self, ctx: Context, tx: Tx, change: Change[Member]) -> None:
        scope = SCOPES[change.spec.role_id]
        change.extras |= {"role": old_role(scope), "role_name": scope.word}
        if not is_admin_role(change.spec.role_id, change.row.org):
            await _keep_an_admin(ctx, tx, change.row)
            await _end_links(tx, change.row)
        tx.nudge("tokens")

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        await _keep_an_admin(ctx, tx, row)
        await _end_links(tx, row)
        org = await tx.resources.find(organization.name, row.org)
        if org and org.read(OrganizationOwner).owner == row.id:
            await tx.resources.rewrite(org.id, rewritten(org.body, {"owner": None}))
        await _end_sessions(tx, row)
        tx.nudge("tokens")


@behaves(invitation)
class Invitations(Behaviour[Invitation]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Invitation]) -> None:
        spec = draft.spec
        if await tx.resources.named(draft.org, member.name, spec.email.casefold()):
            raise Conflict(f"email: {spec.email} is a member already; change the role, or remove it first")
        scope = SCOPES[str(spec.role_id)]
        spec.role = msgspec.UNSET
        draft.links[_INVITATION_LINK] = address_of(spec.email)
        # Clears cached actors: the invited person may be a member of another organization.
        tx.nudge("tokens")
        draft.give(
            role=old_role(scope),
            role_name=scope.word,
            invitation_link=f"{ctx.settings.url}/console/invitation/{draft.id}",
            invitation_status="PENDING",
            inviter=draft.actor.name,
            organization_name=draft.above.read(NamedDocument).name,
        )

    async def created(self, ctx: Context, tx: Tx, draft: Draft[Invitation]) -> None:
        if ctx.settings.takes_passwords:
            row = await tx.resources.get(draft.id)
            assert row is not None
            link = await new_handed_link(tx, INVITATION, row, draft.actor.subject)
            # Only this answer has the code. The document is read by all members.
            draft.answer = {"invitation_link": url_of_link(ctx, link)}

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        await tx.people.delete_links(row.id)


@writes("member.changeRole")
async def change_role(ctx: Context, tx: Tx, call: Call) -> Reply:
    sent = call.sent(MemberRoleUpdate)
    row = await _member(tx, call, sent.user_id)
    await apply_changes(ctx, tx, call, row, {"role_id": sent.role_id})
    return Reply()


@writes("member.remove")
async def remove_member(ctx: Context, tx: Tx, call: Call) -> Reply:
    await delete_resource(
        ctx, tx, await _member(tx, call, call.sent(MemberRemoval).user_id), requester_of(call)
    )
    return Reply()


@writes("organization.transferOwnership")
async def transfer_ownership(ctx: Context, tx: Tx, call: Call) -> Reply:
    org, id = await target(tx, call), call.sent(OwnershipTransfer).user_id
    row = await tx.resources.find(member.name, id)
    if row is None or row.parent != org.id:
        raise Invalid("user_id: no member of this organization has this id")
    if not is_admin_role(row.read(Member).role_id, org.id):
        await apply_changes(ctx, tx, call, row, {"role_id": ROLE_IDS[Scope.ADMIN]})
    await _name_owner(ctx, tx, call, org, id)
    return Reply()


async def _name_owner(ctx: Context, tx: Tx, call: Call, org: Row, id: str) -> None:
    body = rewritten(org.body, {"owner": id})
    if body != org.body:
        await tx.resources.rewrite(org.id, body)
        await record(ctx, tx, Event.UPDATED, org, call.actor, call, old_body=org.body, new_body=body)


async def _member(tx: Tx, call: Call, id: str) -> Row:
    org = await parent_of(tx, call)
    row = await tx.resources.find(member.name, id)
    if row is None or row.parent != org.id:
        raise Missing("List the members to find the user_id: no member has this one")
    return row


async def _end_links(tx: Tx, leaving_member: Row) -> None:
    """Ends the links that a member has made as an Admin."""
    if person := await tx.identities.person_of(leaving_member.id):
        await end_links_of(tx, leaving_member.org, subject_of_person(*person))


async def _end_sessions(tx: Tx, leaving_member: Row) -> None:
    """Ends the browser sessions of a person who is not a member of another organization.

    Otherwise the sessions would be valid again after the next invitation. The password is forgotten, too.
    """
    person = await tx.identities.person_of(leaving_member.id)
    if person is not None and all(id == leaving_member.id for id, _, _ in await tx.identities.of(*person)):
        await tx.browser_sessions.end_all(subject_of_person(*person))
        issuer, subject = person
        if issuer == OWN_ISSUER:
            await tx.people.delete(subject)


async def _keep_an_admin(ctx: Context, tx: Tx, leaving_member: Row) -> None:
    if await _is_admin(ctx, tx, leaving_member):
        await keep_another_admin(ctx, tx, leaving_member)


async def keep_another_admin(ctx: Context, tx: Tx, leaving_member: Row) -> None:
    """Raises Conflict if removing a token or member would leave an organization without an Admin.

    The caller is an Admin too, and counts as remaining. The check therefore only prevents callers from
    locking themselves out.
    """
    if await _is_operated(ctx, tx, leaving_member.org):
        return
    tokens = await tx.resources.of_org(leaving_member.org, api_token.name)
    members = await tx.resources.of_org(leaving_member.org, member.name)
    others = [
        *(row for row in tokens if is_admin_token(row, tx.now)),
        *[row for row in members if await _is_admin(ctx, tx, row)],
    ]
    if all(row.id == leaving_member.id for row in others):
        raise Conflict(
            "This is the last way into the organization as an Admin, and your own: "
            "make another Admin token, or another member Admin, first"
        )


async def _is_admin(ctx: Context, tx: Tx, row: Row) -> bool:
    """Returns whether a member is an Admin and can sign in."""
    if not is_admin_role(row.read(Member).role_id, row.org):
        return False
    issuer, _ = await tx.identities.person_of(row.id) or ("", "")
    return ctx.settings.takes_passwords if issuer == OWN_ISSUER else ctx.settings.has_provider


async def _is_operated(ctx: Context, tx: Tx, org: str) -> bool:
    """Returns whether the admin token of the settings has access to an organization, which is the case for
    the first one."""
    first = await tx.resources.first("", organization.name) if ctx.settings.admin_token else None
    return first is not None and first.id == org


async def joinable_organizations(ctx: Context, reads: Reads, person: IssuerIdentity) -> list[Invitee]:
    """Returns the organizations that a person may join and has not joined yet.

    An existing member with the same address but another subject is a different person. Addresses are
    reassigned, and the new owner of an address must not get the permissions of the former one.
    """
    inside = {org for _, org, _ in await reads.identities.of(person.issuer, person.subject)}
    invitees = []
    for invitee in [*await _invitations_of(reads, person), *await _open_organizations(ctx, reads, person)]:
        if invitee.org.id in inside or await reads.resources.named(
            invitee.org.id, member.name, person.shown.casefold()
        ):
            continue
        inside.add(invitee.org.id)
        invitees.append(invitee)
    return invitees


async def join_organizations(ctx: Context, tx: Tx, person: IssuerIdentity) -> None:
    """Makes a person a member of all organizations that they may join, and removes the used invitations."""
    for invitee in await joinable_organizations(ctx, tx, person):
        await join(ctx, tx, person, invitee)


async def join(ctx: Context, tx: Tx, person: IssuerIdentity, invitee: Invitee) -> str:
    """Makes a person a member of an organization, and removes the used invitation. Returns the id of the
    member."""
    itself = Actor(id=person.subject, name=person.shown, subject=person.subject, permits={})
    spec = Member(email=person.shown, role_id=invitee.role_id, name=visible(person.name))
    new = NewResource(member, spec, invitee.org, itself)
    await create_in(ctx, tx, new)
    await tx.identities.add(person.issuer, person.subject, invitee.org.id, new.id)
    if person.issuer == OWN_ISSUER:
        # Admins of the former organizations may have made a link, which would open this one as well.
        await tx.people.delete_links(person.subject)
    if invitee.guest is not None:
        await tx.people.delete_links(invitee.guest.id)
        await tx.remove(invitee.guest)
        await record(ctx, tx, Event.DELETED, invitee.guest, itself, None, old_body=invitee.guest.body)
    return new.id


async def _invitations_of(reads: Reads, person: IssuerIdentity) -> list[Invitee]:
    guests = await reads.links.sources(address_of(person.email), _INVITATION_LINK) if person.email else ()
    found = [await invitee_of(reads, guest) for guest in guests]
    return [invitee for invitee in found if invitee is not None]


async def invitee_of(reads: Reads, guest: Row) -> Invitee | None:
    """Returns the organization and the role of an invitation."""
    org = await reads.resources.find(organization.name, guest.org)
    return Invitee(org, guest.read(InvitationShown).role_id, guest) if org is not None else None


async def _open_organizations(ctx: Context, reads: Reads, person: IssuerIdentity) -> list[Invitee]:
    """Returns the organization that all people of the issuer may join, if the setting `oidc_join` is set.

    The setting does not apply to providers of the console, because anyone may be able to get an account
    there.
    """
    if not ctx.settings.oidc_join or person.issuer != ctx.settings.oidc_issuer:
        return []
    first = await reads.resources.first("", organization.name)
    return [Invitee(first, ROLE_IDS[Scope[ctx.settings.oidc_join.upper()]], None)] if first else []
