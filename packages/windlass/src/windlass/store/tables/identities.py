"""Identities: people of an OpenID Connect issuer, with their memberships in organizations."""

from __future__ import annotations

from typing import Final

from windlass.store.tables.table import ChangeSession, Table

MEMBERS_OF_IDENTITY: Final = """
SELECT identity.member, identity.org, resource.body
FROM identity JOIN resource ON resource.id = identity.member
WHERE identity.issuer = $1 AND identity.subject = $2 ORDER BY identity.org"""
ADD: Final = "INSERT INTO identity (issuer, subject, org, member) VALUES ($1, $2, $3, $4)"
IDENTITY_OF_MEMBER: Final = "SELECT issuer, subject FROM identity WHERE member = $1"
DELETE_OF_MEMBER: Final = "DELETE FROM identity WHERE member = $1"


class IdentityTable(Table):
    __slots__ = ()

    async def of(self, issuer: str, subject: str) -> list[tuple[str, str, bytes]]:
        """Returns member id, organization and document for each organization of a person."""
        return [
            (row[0], row[1], row[2]) for row in await self._session.all(MEMBERS_OF_IDENTITY, issuer, subject)
        ]

    async def person_of(self, member: str) -> tuple[str, str] | None:
        """Returns the issuer and the subject of a member."""
        row = await self._session.one(IDENTITY_OF_MEMBER, member)
        return (row[0], row[1]) if row else None


class IdentityChanges(IdentityTable):
    __slots__ = ()
    _session: ChangeSession

    async def add(self, issuer: str, subject: str, org: str, member: str) -> None:
        await self._session.all(ADD, issuer, subject, org, member)

    async def delete_of(self, member: str) -> None:
        await self._session.all(DELETE_OF_MEMBER, member)
