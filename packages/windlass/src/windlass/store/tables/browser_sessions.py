"""Browser sessions and sign-in links, by the digest of the cookie or of the link's code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from windlass.store.tables.table import ChangeSession, Table, columns, places


class BrowserSession(Struct, frozen=True, gc=False):
    digest: str
    id: str
    holder: str
    """The token or person that the session acts for; see `control.people.browser_sessions`."""
    holder_name: str
    address: str
    user_agent: str
    is_open: int
    """0: a sign-in link that was not opened yet. 1: a session. 2: a used response of a sign-in provider, by
    its `state`."""
    created_at: int
    used_at: int
    ends_at: int


_COLUMNS: Final = columns(BrowserSession)
GET: Final = f"SELECT {_COLUMNS} FROM browser_session WHERE digest = $1 AND is_open = $2 AND ends_at > $3"
OF: Final = f"""
SELECT {_COLUMNS} FROM browser_session WHERE holder = $1 AND is_open = 1 AND ends_at > $2
ORDER BY used_at DESC, id"""
ADD: Final = f"""
INSERT INTO browser_session ({_COLUMNS}) VALUES ({places(len(BrowserSession.__struct_fields__))})"""
TAKE_LINK: Final = f"""
DELETE FROM browser_session WHERE digest = $1 AND is_open = 0 AND ends_at > $2 RETURNING {_COLUMNS}"""
USE_UP: Final = f"""
INSERT INTO browser_session ({_COLUMNS}) VALUES ({places(len(BrowserSession.__struct_fields__))})
ON CONFLICT (digest) DO NOTHING RETURNING digest"""
RENEW: Final = "UPDATE browser_session SET used_at = $1, ends_at = $2 WHERE digest = $3 AND used_at < $1"
DELETE: Final = f"""
DELETE FROM browser_session WHERE id = $1 AND holder = $2 AND is_open = 1 RETURNING {_COLUMNS}"""
END_ALL: Final = "DELETE FROM browser_session WHERE holder = $1"
END_ALL_BUT: Final = f"""
DELETE FROM browser_session WHERE holder = $1 AND is_open = 1 AND id <> $2 RETURNING {_COLUMNS}"""
END_OTHERS: Final = """
DELETE FROM browser_session WHERE holder = $1 AND is_open = 1 AND id NOT IN (
    SELECT id FROM browser_session WHERE holder = $1 AND is_open = 1 ORDER BY used_at DESC, id LIMIT $2)"""
DELETE_EXPIRED: Final = "DELETE FROM browser_session WHERE ends_at <= $1"


class BrowserSessionTable(Table):
    __slots__ = ()

    async def get(self, digest: str, now: int) -> BrowserSession | None:
        """Returns the session with this cookie digest, if it has not ended."""
        row = await self._session.one(GET, digest, 1, now)
        return BrowserSession(*row) if row else None

    async def of(self, holder: str, now: int) -> list[BrowserSession]:
        """Returns the sessions of a holder, the most recently used first."""
        return [BrowserSession(*row) for row in await self._session.all(OF, holder, now)]


class BrowserSessionChanges(BrowserSessionTable):
    __slots__ = ()
    _session: ChangeSession

    async def add(self, session: BrowserSession) -> None:
        await self._session.all(ADD, *msgspec.structs.astuple(session))

    async def take_link(self, digest: str) -> BrowserSession | None:
        """Removes a valid link and returns it, so that it can be used only once."""
        rows = await self._session.all(TAKE_LINK, digest, self._session.now)
        return BrowserSession(*rows[0]) if rows else None

    async def use_up(self, digest: str, ends_at: int) -> bool:
        """Records that a provider's response was used. Returns False if it was used before."""
        now = self._session.now
        values = BrowserSession(digest, digest, "", "", "", "", 2, now, now, ends_at)
        return bool(await self._session.all(USE_UP, *msgspec.structs.astuple(values)))

    async def use(self, ends: Mapping[str, tuple[int, int]]) -> None:
        """Updates for each digest when the session was last used, and when it ends."""
        for digest, (used_at, ends_at) in ends.items():
            await self._session.all(RENEW, used_at, ends_at, digest)

    async def end(self, id: str, holder: str) -> BrowserSession | None:
        """Ends a session of a holder and returns it; None if there is no such session."""
        rows = await self._session.all(DELETE, id, holder)
        return BrowserSession(*rows[0]) if rows else None

    async def end_all(self, holder: str) -> None:
        """Ends all sessions of a holder."""
        await self._session.all(END_ALL, holder)

    async def end_all_but(self, holder: str, id: str) -> list[BrowserSession]:
        """Ends all sessions of a holder but one, and returns them."""
        return [BrowserSession(*row) for row in await self._session.all(END_ALL_BUT, holder, id)]

    async def keep_newest(self, holder: str, count: int) -> None:
        """Ends the sessions of a holder except for the `count` most recently used ones."""
        await self._session.all(END_OTHERS, holder, count)

    async def delete_expired(self) -> None:
        await self._session.all(DELETE_EXPIRED, self._session.now)
