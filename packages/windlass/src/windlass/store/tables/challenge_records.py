"""DNS records that orders of certificates have put into zones. The table is `challenge_record`."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from windlass.store.tables.table import ChangeSession, Table, columns


class ChallengeRecordRow(Struct, frozen=True, gc=False):
    name: str
    """The name of the TXT record."""
    value: str
    owner: str
    """The id of the order."""
    since: int


_COLUMNS: Final = columns(ChallengeRecordRow)
OF: Final = f"SELECT {_COLUMNS} FROM challenge_record WHERE owner = $1 ORDER BY name, value"
ADD: Final = f"""
INSERT INTO challenge_record ({_COLUMNS}) VALUES ($1, $2, $3, $4) ON CONFLICT (name, value) DO NOTHING"""
DELETE: Final = "DELETE FROM challenge_record WHERE name = $1 AND value = $2"


class ChallengeRecordTable(Table):
    __slots__ = ()

    async def of(self, owner: str) -> list[ChallengeRecordRow]:
        """Returns the records of an order."""
        return [ChallengeRecordRow(*row) for row in await self._session.all(OF, owner)]


class ChallengeRecordChanges(ChallengeRecordTable):
    __slots__ = ()
    _session: ChangeSession

    async def add(self, name: str, value: str, owner: str) -> None:
        await self._session.all(ADD, name, value, owner, self._session.now)

    async def remove(self, row: ChallengeRecordRow) -> None:
        await self._session.all(DELETE, row.name, row.value)
