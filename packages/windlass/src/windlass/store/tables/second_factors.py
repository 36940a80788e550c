"""Second factors of people: the secret of an authenticator app, and recovery codes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from windlass.store.tables import passkeys
from windlass.store.tables.table import ChangeSession, Table, columns, places


class SecondFactor(Struct, frozen=True, gc=False):
    person: str
    sealed: bytes
    """The secret of the authenticator app."""
    is_confirmed: int
    """0 until a code of the app was sent."""
    used: int
    """The last step of time whose code was used."""
    created: int


_COLUMNS: Final = columns(SecondFactor)
GET: Final = f"SELECT {_COLUMNS} FROM second_factor WHERE person = $1"
COUNT_CODES: Final = "SELECT count(*) FROM recovery_code WHERE person = $1"
ADD: Final = f"""
INSERT INTO second_factor ({_COLUMNS}) VALUES ({places(len(SecondFactor.__struct_fields__))})"""
CONFIRM: Final = "UPDATE second_factor SET is_confirmed = 1 WHERE person = $1"
RECORD_USE: Final = "UPDATE second_factor SET used = $1 WHERE person = $2 AND used < $1 RETURNING person"
DELETE: Final = "DELETE FROM second_factor WHERE person = $1"
ADD_CODE: Final = "INSERT INTO recovery_code (person, digest) VALUES ($1, $2)"
TAKE_CODE: Final = "DELETE FROM recovery_code WHERE person = $1 AND digest = $2 RETURNING person"
DELETE_CODES: Final = "DELETE FROM recovery_code WHERE person = $1"


class SecondFactorTable(Table):
    __slots__ = ()

    async def get(self, person: str) -> SecondFactor | None:
        row = await self._session.one(GET, person)
        return SecondFactor(row[0], bytes(row[1]), *row[2:]) if row else None

    async def codes(self, person: str) -> int:
        """Returns how many recovery codes a person has left."""
        row = await self._session.one(COUNT_CODES, person)
        return int(row[0]) if row else 0


class SecondFactorChanges(SecondFactorTable):
    __slots__ = ()
    _session: ChangeSession

    async def replace(self, factor: SecondFactor) -> None:
        """Stores a new secret instead of the former one. Recovery codes stay."""
        await self.delete_app(factor.person)
        await self._session.all(ADD, *msgspec.structs.astuple(factor))

    async def confirm(self, person: str) -> None:
        await self._session.all(CONFIRM, person)

    async def replace_codes(self, person: str, digests: Iterable[str]) -> None:
        await self._session.all(DELETE_CODES, person)
        for digest in digests:
            await self._session.all(ADD_CODE, person, digest)

    async def use(self, person: str, step: int) -> bool:
        """Records that the code of a step of time was used. Returns False if it or a later one was used
        before."""
        return bool(await self._session.all(RECORD_USE, step, person))

    async def take_code(self, person: str, digest: str) -> bool:
        """Uses up a recovery code. Returns False if the person has no such code."""
        return bool(await self._session.all(TAKE_CODE, person, digest))

    async def delete_app(self, person: str) -> None:
        await self._session.all(DELETE, person)

    async def delete_of(self, person: str) -> None:
        """Removes the app, the recovery codes and the passkeys of a person."""
        for statement in (DELETE, DELETE_CODES, passkeys.DELETE_OF_PERSON):
            await self._session.all(statement, person)

    async def delete_codes(self, person: str) -> None:
        await self._session.all(DELETE_CODES, person)
