"""Receivers: the health of the servers behind webhooks. A healthy receiver has no row."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from windlass.store.tables.table import ChangeSession, Table, columns


class Receiver(Struct, frozen=True, gc=False):
    failing: int = 0
    """The time since when deliveries fail; 0 if the receiver is healthy."""
    fails: int = 0
    """The number of consecutive failed attempts."""
    silent: int = 0
    """1 if the last attempt could not connect."""


_COLUMNS: Final = columns(Receiver)
GET: Final = f"SELECT {_COLUMNS} FROM receiver WHERE webhook = $1"
SET: Final = f"""
INSERT INTO receiver (webhook, {_COLUMNS}) VALUES ($1, $2, $3, $4)
ON CONFLICT (webhook) DO UPDATE SET
    failing = excluded.failing, fails = excluded.fails, silent = excluded.silent"""
DELETE: Final = "DELETE FROM receiver WHERE webhook = $1"
DELETE_ORPHANS: Final = """
DELETE FROM receiver WHERE NOT EXISTS (SELECT 1 FROM resource WHERE resource.id = receiver.webhook)"""


class ReceiverTable(Table):
    __slots__ = ()

    async def get(self, webhook: str) -> Receiver:
        row = await self._session.one(GET, webhook)
        return Receiver(*row) if row else Receiver()


class ReceiverChanges(ReceiverTable):
    __slots__ = ()
    _session: ChangeSession

    async def set(self, webhook: str, receiver: Receiver) -> None:
        if receiver == Receiver():
            await self.delete_of(webhook)
        else:
            await self._session.all(SET, webhook, *msgspec.structs.astuple(receiver))

    async def delete_of(self, webhook: str) -> None:
        await self._session.all(DELETE, webhook)

    async def delete_orphans(self) -> None:
        """Deletes the receivers of webhooks that were deleted."""
        await self._session.all(DELETE_ORPHANS)
