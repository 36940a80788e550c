"""API tokens, by the digest of the token, and revoked tokens."""

from __future__ import annotations

from typing import Final

from windlass.store.tables.table import ChangeSession, Table

GET: Final = """
SELECT resource.id, resource.org, resource.body FROM token JOIN resource ON resource.id = token.id
WHERE token.digest = $1"""
ADD: Final = "INSERT INTO token (digest, id) VALUES ($1, $2)"
DELETE: Final = "DELETE FROM token WHERE id = $1 RETURNING digest"
GET_REVOKED: Final = "SELECT id, org, name FROM revoked WHERE digest = $1 OR id = $2"
REVOKE: Final = """
INSERT INTO revoked (digest, id, org, name, at) SELECT digest, id, $1, $2, $3 FROM token WHERE id = $4
ON CONFLICT (digest) DO NOTHING"""
DELETE_OLD_REVOKED: Final = "DELETE FROM revoked WHERE at < $1"


class TokenTable(Table):
    __slots__ = ()

    async def get(self, digest: str) -> tuple[str, str, bytes] | None:
        """Returns id, organization and document of the token with this digest."""
        row = await self._session.one(GET, digest)
        return (row[0], row[1], row[2]) if row else None

    async def revoked(self, digest: str, id: str = "") -> tuple[str, str, str] | None:
        """Returns id, organization and name of a revoked token, by its digest or its id."""
        row = await self._session.one(GET_REVOKED, digest, id)
        return (row[0], row[1], row[2]) if row else None


class TokenChanges(TokenTable):
    __slots__ = ()
    _session: ChangeSession

    async def add(self, digest: str, id: str) -> None:
        await self._session.all(ADD, digest, id)

    async def revoke(self, id: str, org: str, name: str) -> None:
        """Records the organization and name of a token that is about to be removed."""
        await self._session.all(REVOKE, org, name, self._session.now, id)

    async def delete_revoked(self, cutoff: int) -> None:
        await self._session.all(DELETE_OLD_REVOKED, cutoff)

    async def delete_of(self, id: str) -> None:
        if await self._session.all(DELETE, id):
            self._session.nudge("tokens")
