"""Sessions of browsers, by the digest of the cookie, or of the code of a link that was not opened yet."""

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
    """The credential or the person that it stands for; see `control.people.browser_sessions`."""
    holder_name: str
    address: str
    user_agent: str
    is_open: int
    """0: a link that was not opened yet. 1: a session. 2: an answer of a provider that was used, by its
    state."""
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
TAKE: Final = f"""
DELETE FROM browser_session WHERE digest = $1 AND is_open = 0 AND ends_at > $2 RETURNING {_COLUMNS}"""
USE_UP: Final = f"""
INSERT INTO browser_session ({_COLUMNS}) VALUES ({places(len(BrowserSession.__struct_fields__))})
ON CONFLICT (digest) DO NOTHING RETURNING digest"""
USE: Final = "UPDATE browser_session SET used_at = $1, ends_at = $2 WHERE digest = $3 AND used_at < $1"
END: Final = f"""
DELETE FROM browser_session WHERE id = $1 AND holder = $2 AND is_open = 1 RETURNING {_COLUMNS}"""
END_ALL: Final = "DELETE FROM browser_session WHERE holder = $1"
END_OTHERS: Final = """
DELETE FROM browser_session WHERE holder = $1 AND is_open = 1 AND id NOT IN (
    SELECT id FROM browser_session WHERE holder = $1 AND is_open = 1 ORDER BY used_at DESC, id LIMIT $2)"""
SWEEP: Final = "DELETE FROM browser_session WHERE ends_at <= $1"


class BrowserSessionTable(Table):
    __slots__ = ()

    async def get(self, digest: str, now: int) -> BrowserSession | None:
        """Returns the session with this cookie, if it has not ended."""
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
        """Removes a link and returns it, once, if it has not ended."""
        rows = await self._session.all(TAKE, digest, self._session.now)
        return BrowserSession(*rows[0]) if rows else None

    async def use_up(self, digest: str, ends_at: int) -> bool:
        """Notes until a time that this answer of a provider was used; returns False if it was before."""
        now = self._session.now
        values = BrowserSession(digest, digest, "", "", "", "", 2, now, now, ends_at)
        return bool(await self._session.all(USE_UP, *msgspec.structs.astuple(values)))

    async def use(self, ends: Mapping[str, tuple[int, int]]) -> None:
        """Records for each digest when it was used, and when it ends now."""
        for digest, (used_at, ends_at) in ends.items():
            await self._session.all(USE, used_at, ends_at, digest)

    async def end(self, id: str, holder: str) -> BrowserSession | None:
        """Ends a session of this holder and returns it; None if there is none with this id."""
        rows = await self._session.all(END, id, holder)
        return BrowserSession(*rows[0]) if rows else None

    async def end_all(self, holder: str) -> None:
        """Ends all sessions of a holder."""
        await self._session.all(END_ALL, holder)

    async def keep_newest(self, holder: str, count: int) -> None:
        """Ends all sessions of a holder but those that were used last."""
        await self._session.all(END_OTHERS, holder, count)

    async def sweep(self) -> None:
        await self._session.all(SWEEP, self._session.now)
