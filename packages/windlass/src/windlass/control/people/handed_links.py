"""Links to choose a password that an Admin makes, and hands over to another person.

The Admin has seen such a link. So it ends with the Admin's rights: otherwise a removed Admin could come back
with it, as the person or the invited person for whom it was made.
"""

from __future__ import annotations

from typing import Final

from windlass.control.people.callers import OWN_ISSUER
from windlass.control.people.password_links import NewLink, new_link
from windlass.store import Row, Tx

_MAKER: Final = "password link made by"
"""Name of the link from an invitation or a member to the subject of the Admin who has made its last link."""


async def new_handed_link(tx: Tx, purpose: str, row: Row, maker: str) -> NewLink:
    """Creates a link for an invitation, or for the person of a member. `maker`: the subject of the caller."""
    link = await new_link(tx, purpose, await _holder(tx, row))
    await tx.links.set(row.id, _MAKER, maker)
    return link


async def end_links_of(tx: Tx, org: str, maker: str) -> None:
    """Ends the links that a former Admin of an organization has made there, and those that open it: a person
    may be a member of several organizations, and an Admin of all of them may have made the link in another
    one."""
    for row in await tx.links.sources(maker, _MAKER):
        holder = await _holder(tx, row)
        if row.org == org or await _is_member(tx, holder, org):
            await tx.people.delete_links(holder)


async def _holder(tx: Tx, row: Row) -> str:
    """Returns the subject of the links of an invitation, or of a member."""
    issuer, person = await tx.identities.person_of(row.id) or (OWN_ISSUER, row.id)
    return person if issuer == OWN_ISSUER else ""


async def _is_member(tx: Tx, person: str, org: str) -> bool:
    return any(other == org for _, other, _ in await tx.identities.of(OWN_ISSUER, person))
