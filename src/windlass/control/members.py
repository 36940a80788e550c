"""Members: who they are, how an invitation becomes one, how one leaves."""

from __future__ import annotations

import msgspec

from windlass.base.errors import Missing
from windlass.control.context import Call, Context, Reply, writes
from windlass.control.resources import Behaviour, Draft, behaves, born, changed, place, removed
from windlass.core.access import ROLE_IDS, Actor, Scope
from windlass.families.member import Invitation, Member, invitation, member, old_role
from windlass.store.store import Row, Tx

SCOPES = {id: scope for scope, id in ROLE_IDS.items()}


@behaves(member)
class Members(Behaviour):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft) -> None:
        scope = SCOPES[draft.spec.role_id]
        draft.give(role=old_role(scope), role_name=scope.word, nickname=draft.spec.name)

    async def updating(
        self,
        ctx: Context,
        tx: Tx,
        row: Row,
        before: dict[str, object],
        spec: Member,
        extras: dict[str, object],
    ) -> None:
        scope = SCOPES[spec.role_id]
        extras |= {"role": old_role(scope), "role_name": scope.word}
        tx.nudge("tokens")

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        tx.nudge("tokens")


@behaves(invitation)
class Invitations(Behaviour):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft) -> None:
        spec: Invitation = draft.spec
        assert draft.parent is not None
        scope = SCOPES[str(spec.role_id)]
        spec.role = msgspec.UNSET
        draft.give(
            role=old_role(scope),
            role_name=scope.word,
            invitation_link=f"{ctx.settings.public_url}/console/invitation/{draft.id}",
            invitation_status="PENDING",
            inviter=draft.actor.name,
            organization_name=msgspec.json.decode(draft.parent.body)["name"],
        )


@writes("member.changeRole")
async def change_role(ctx: Context, tx: Tx, call: Call) -> Reply:
    row = await _member(tx, call)
    await changed(ctx, tx, call, row, {"role_id": call.body.role_id})
    return Reply()


@writes("member.remove")
async def remove_member(ctx: Context, tx: Tx, call: Call) -> Reply:
    await removed(ctx, tx, call, await _member(tx, call))
    return Reply()


async def _member(tx: Tx, call: Call) -> Row:
    org = await place(tx, call)
    row = await tx.find(member.name, call.body.user_id)
    if org is None or row is None or row.parent != org.id:
        raise Missing("No member with this user_id was found")
    return row


async def welcome(ctx: Context, tx: Tx, issuer: str, subject: str, email: str, name: str) -> bool:
    """Turns an invitation of this verified address, or the issuer's standing one, into a membership."""
    for guest in await _invitations(ctx, tx, email):
        org = await tx.find("organization", guest.org)
        assert org is not None
        role_id = msgspec.json.decode(guest.body)["role_id"]
        await _join(ctx, tx, org, Member(email=email, role_id=role_id, name=name), issuer, subject)
        await tx.remove(guest)
        return True
    first = await tx.first("", "organization")
    if first is not None and ctx.settings.oidc_join:
        role_id = ROLE_IDS[Scope[ctx.settings.oidc_join.upper()]]
        await _join(
            ctx, tx, first, Member(email=email or subject, role_id=role_id, name=name), issuer, subject
        )
        return True
    return False


async def _invitations(ctx: Context, tx: Tx, email: str) -> list[Row]:
    if not email:
        return []
    organizations = await tx.of_parent("", "organization")
    found = [await tx.named(org.id, invitation.name, email.casefold()) for org in organizations]
    return [row for row in found if row]


async def _join(ctx: Context, tx: Tx, org: Row, spec: Member, issuer: str, subject: str) -> None:
    known = await tx.named(org.id, member.name, spec.email.casefold())
    if known is None:
        itself = Actor(id=subject, name=spec.email, subject=subject, grants={})
        await born(ctx, tx, member, spec, org.id, org, itself)
        known = await tx.named(org.id, member.name, spec.email.casefold())
    assert known is not None
    await tx.add_identity(issuer, subject, org.id, known.id)
