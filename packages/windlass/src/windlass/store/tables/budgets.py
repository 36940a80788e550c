"""Request budgets: the number of requests of each caller in the current window."""

from __future__ import annotations

from typing import Final

from windlass.store.tables.table import ChangeSession, Table

GET: Final = "SELECT opened, used FROM budget WHERE subject = $1"
SET: Final = """
INSERT INTO budget (subject, opened, used) VALUES ($1, $2, $3)
ON CONFLICT (subject) DO UPDATE SET opened = excluded.opened, used = excluded.used"""
GIVE_BACK: Final = "UPDATE budget SET used = used - $1 WHERE subject = $2 AND opened = $3"
DELETE_OLD: Final = "DELETE FROM budget WHERE opened < $1"


class BudgetTable(Table):
    __slots__ = ()

    async def get(self, subject: str) -> tuple[int, int] | None:
        """Returns the start of the window, and the number of requests used in it."""
        row = await self._session.one(GET, subject)
        return (row[0], row[1]) if row else None


class BudgetChanges(BudgetTable):
    __slots__ = ()
    _session: ChangeSession

    async def set(self, subject: str, opened_at: int, used_count: int) -> None:
        await self._session.all(SET, subject, opened_at, used_count)

    async def give_back(self, subject: str, opened_at: int, unused: int) -> None:
        """Returns reserved but unused requests, if the window has not changed."""
        await self._session.all(GIVE_BACK, unused, subject, opened_at)

    async def delete_expired(self, cutoff: int) -> None:
        await self._session.all(DELETE_OLD, cutoff)
