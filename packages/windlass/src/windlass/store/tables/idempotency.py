"""Responses to requests with an Idempotency-Key. A repeated request gets the stored response."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from windlass.store.tables.table import ChangeSession, Table, columns


class IdempotentAnswer(Struct, frozen=True, gc=False):
    request: str
    """A keyed digest of the request."""
    at: int
    answer: bytes
    once: bytes | None
    """The sealed part of the response that is shown only once. It is erased after a while."""


_COLUMNS: Final = columns(IdempotentAnswer)
GET: Final = f"SELECT {_COLUMNS} FROM idempotency WHERE caller = $1 AND key = $2"
SET: Final = f"""
INSERT INTO idempotency (caller, key, {_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (caller, key) DO UPDATE SET
    request = excluded.request, at = excluded.at, answer = excluded.answer, once = excluded.once"""
ERASE_SECRETS: Final = "UPDATE idempotency SET once = NULL WHERE once IS NOT NULL AND at <= $1"
OLDEST_SECRET: Final = "SELECT min(at) FROM idempotency WHERE once IS NOT NULL"
DELETE_EXPIRED: Final = "DELETE FROM idempotency WHERE at < $1"


class IdempotentAnswerTable(Table):
    __slots__ = ()

    async def get(self, caller: str, key: str) -> IdempotentAnswer | None:
        row = await self._session.one(GET, caller, key)
        return IdempotentAnswer(*row) if row else None


class IdempotentAnswerChanges(IdempotentAnswerTable):
    __slots__ = ()
    _session: ChangeSession

    async def set(self, caller: str, key: str, stored_answer: IdempotentAnswer) -> None:
        await self._session.all(
            SET,
            caller,
            key,
            stored_answer.request,
            stored_answer.at,
            stored_answer.answer,
            stored_answer.once,
        )

    async def erase_secrets(self, cutoff: int) -> int | None:
        """Erases the secrets of older responses. Returns the time of the oldest remaining secret."""
        await self._session.all(ERASE_SECRETS, cutoff)
        row = await self._session.one(OLDEST_SECRET)
        return row[0] if row else None

    async def delete_expired(self, cutoff: int) -> None:
        await self._session.all(DELETE_EXPIRED, cutoff)
