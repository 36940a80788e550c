"""Passkeys of people: the public keys of their authenticators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from windlass.store.tables.table import ChangeSession, Table, columns, places


class Passkey(Struct, frozen=True, gc=False):
    id: str
    person: str
    credential: str
    """The id of the credential, which the authenticator has chosen, in Base64url."""
    host: str
    public_key: bytes
    """The public key with the id of the credential, as the authenticator sent them."""
    counter: int
    name: str
    created: int
    used: int
    """The time of the last use; 0 before the first."""


_COLUMNS: Final = columns(Passkey)
PASSKEYS_OF_PERSON: Final = f"SELECT {_COLUMNS} FROM passkey WHERE person = $1 ORDER BY created, id"
GET_BY_CREDENTIAL: Final = f"SELECT {_COLUMNS} FROM passkey WHERE credential = $1"
HAS_PASSKEY: Final = "SELECT 1 FROM passkey WHERE person = $1 LIMIT 1"
ADD: Final = f"""
INSERT INTO passkey ({_COLUMNS}) VALUES ({places(len(Passkey.__struct_fields__))})
ON CONFLICT (credential) DO NOTHING RETURNING id"""
RECORD_USE: Final = """
UPDATE passkey SET counter = $1, used = $2
WHERE id = $3 AND (counter < $1 OR (counter = 0 AND $1 = 0)) RETURNING id"""
RENAME: Final = "UPDATE passkey SET name = $1 WHERE id = $2 AND person = $3 RETURNING id"
DELETE: Final = "DELETE FROM passkey WHERE id = $1 AND person = $2 RETURNING name"
DELETE_OF_PERSON: Final = "DELETE FROM passkey WHERE person = $1"


class PasskeyTable(Table):
    __slots__ = ()

    async def of(self, person: str) -> list[Passkey]:
        """Returns the passkeys of a person, the oldest first."""
        return [_passkey(row) for row in await self._session.all(PASSKEYS_OF_PERSON, person)]

    async def with_credential(self, credential: str) -> Passkey | None:
        row = await self._session.one(GET_BY_CREDENTIAL, credential)
        return _passkey(row) if row else None

    async def has(self, person: str) -> bool:
        return await self._session.one(HAS_PASSKEY, person) is not None


class PasskeyChanges(PasskeyTable):
    __slots__ = ()
    _session: ChangeSession

    async def add(self, passkey: Passkey) -> bool:
        """Adds a passkey. Returns False if its credential is known already."""
        return bool(await self._session.all(ADD, *msgspec.structs.astuple(passkey)))

    async def use(self, id: str, counter: int) -> bool:
        """Records a use. Returns False if the counter does not grow, unless the authenticator has none."""
        return bool(await self._session.all(RECORD_USE, counter, self._session.now, id))

    async def rename(self, person: str, id: str, name: str) -> bool:
        return bool(await self._session.all(RENAME, name, id, person))

    async def remove(self, person: str, id: str) -> str | None:
        """Removes a passkey of a person. Returns its name; None if the person has no such passkey."""
        rows = await self._session.all(DELETE, id, person)
        return str(rows[0][0]) if rows else None


def _passkey(row: Sequence[Any]) -> Passkey:
    id, person, credential, host, public_key, *rest = row
    return Passkey(id, person, credential, host, bytes(public_key), *rest)
