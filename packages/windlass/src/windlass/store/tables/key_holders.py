"""Running servers of a shared database, with the ids of their sealing keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from windlass.store.tables.table import ChangeSession, Table, columns


class KeyHolder(Struct, frozen=True, gc=False):
    server: str
    name: str
    """The server's host and process, for messages."""
    keys: str
    """Ids of the server's sealing keys, separated by spaces."""

    def has(self, key: str) -> bool:
        return key in self.keys.split()


UNEXPIRED: Final = f"SELECT {columns(KeyHolder)} FROM key_holder WHERE until > $1 ORDER BY name"
RENEW: Final = f"""
INSERT INTO key_holder ({columns(KeyHolder)}, until) VALUES ($1, $2, $3, $4)
ON CONFLICT (server) DO UPDATE SET keys = excluded.keys, until = excluded.until"""
DELETE: Final = "DELETE FROM key_holder WHERE server = $1"
DELETE_EXPIRED: Final = "DELETE FROM key_holder WHERE until < $1"


class KeyHolderTable(Table):
    __slots__ = ()

    async def live(self, now: int) -> list[KeyHolder]:
        """Returns the servers whose lease has not ended."""
        return [KeyHolder(*row) for row in await self._session.all(UNEXPIRED, now)]


class KeyHolderChanges(KeyHolderTable):
    __slots__ = ()
    _session: ChangeSession

    async def renew_lease(self, server: str, name: str, keys: Iterable[str], lease: int) -> None:
        """Records that a server is running until the end of the lease, with the ids of its keys."""
        now = self._session.now
        await self._session.all(RENEW, server, name, " ".join(sorted(keys)), now + lease)
        await self._session.all(DELETE_EXPIRED, now - lease)

    async def delete(self, server: str) -> None:
        await self._session.all(DELETE, server)
