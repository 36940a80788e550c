"""Lists of resources: how long each list is, and any page of it at the same cost.

`tally` counts the resources of one family under one parent. `hole` counts, in blocks of 64, 64², 64³ and 64⁴
places, where resources were removed.
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Final

from windlass.store.tables.table import ChangeSession, Table

if TYPE_CHECKING:
    from windlass.store.tables.resources import Row

LENGTH: Final = "SELECT next, live FROM tally WHERE parent = $1 AND family = $2"
VERSION: Final = "SELECT next, live, edits FROM tally WHERE parent = $1 AND family = $2"
PLACE: Final = """
INSERT INTO tally (parent, family, next, live, last) VALUES ($1, $2, 1, 1, $3)
ON CONFLICT (parent, family) DO UPDATE SET
    next = tally.next + 1,
    live = tally.live + 1,
    last = CASE WHEN excluded.last > tally.last THEN excluded.last ELSE tally.last + 1 END
RETURNING next, last"""
REMOVE: Final = "UPDATE tally SET live = live - 1 WHERE parent = $1 AND family = $2"
EDIT: Final = "UPDATE tally SET edits = edits + 1 WHERE parent = $1 AND family = $2"
FORGET: Final = "DELETE FROM tally WHERE parent = $1"

HOLES: Final = """
SELECT block, n FROM hole
WHERE parent = $1 AND family = $2 AND level = $3 AND block >= $4 AND block < $5 ORDER BY block"""
HOLE_ADD: Final = """
INSERT INTO hole (parent, family, level, block, n) VALUES ($1, $2, $3, $4, 1)
ON CONFLICT (parent, family, level, block) DO UPDATE SET n = hole.n + 1"""
HOLES_FORGET: Final = "DELETE FROM hole WHERE parent = $1"

PAGE: Final = """
SELECT body FROM resource WHERE parent = $1 AND family = $2 AND pos >= $3 ORDER BY pos LIMIT $4"""
PAGE_SKIPPING: Final = """
SELECT body FROM resource WHERE parent = $1 AND family = $2 AND pos >= $3 ORDER BY pos LIMIT $4 OFFSET $5"""
PAGE_BACKWARDS: Final = """
SELECT body FROM resource WHERE parent = $1 AND family = $2 ORDER BY pos DESC LIMIT $3 OFFSET $4"""

_FANOUT, _LEVELS = 64, 4
_first_column = itemgetter(0)
# Up to here, skipping rows is cheaper than looking for the place.
_NEAR = 256


class ListTable(Table):
    __slots__ = ()

    async def version(self, parent: str, family: str) -> tuple[int, int, int]:
        """Returns a value that differs after each creation, change and deletion in this list."""
        row = await self._session.one(VERSION, parent, family)
        return (row[0], row[1], row[2]) if row else (0, 0, 0)

    async def page(self, parent: str, family: str, skip: int, most: int) -> tuple[list[bytes], int]:
        """Returns a slice of a list in the order of creation, and the length of the list, at a cost that
        depends on neither the length nor the place."""
        tally = await self._session.one(LENGTH, parent, family)
        last, live = tally if tally else (0, 0)
        most = min(most, live - skip)
        if most <= 0:
            return [], live
        if last == live:
            rows = await self._session.all(PAGE, parent, family, skip + 1, most)
        elif skip <= _NEAR:
            rows = await self._session.all(PAGE_SKIPPING, parent, family, 1, most, skip)
        elif (behind := live - skip - most) <= _NEAR:
            rows = (await self._session.all(PAGE_BACKWARDS, parent, family, most, behind))[::-1]
        else:
            start, rest = await self._start(parent, family, skip, last, last - live)
            rows = await self._session.all(PAGE_SKIPPING, parent, family, start, most, rest)
        return list(map(_first_column, rows)), live

    async def _start(self, parent: str, family: str, skip: int, last: int, holes: int) -> tuple[int, int]:
        """Returns the place to start at, and how many rows to skip from there, to stand after `skip` rows of
        a list with so many holes up to its last place."""
        block, rest = 0, skip
        for level in range(_LEVELS, 0, -1):
            size = _FANOUT**level
            block *= _FANOUT
            if size >= last:
                continue  # the first block is the whole list
            end = block + (rest + holes) // size + 1
            for holed, count in await self._session.all(HOLES, parent, family, level, block, end):
                rows = (holed - block + 1) * size - count
                if rest < rows:
                    holes = count
                    break
                rest -= rows
                block = holed + 1
            block += rest // size
            rest %= size
        return block * _FANOUT + 1, rest


class ListChanges(ListTable):
    __slots__ = ()
    _session: ChangeSession

    async def place(self, parent: str, family: str) -> tuple[int, int]:
        """Takes the next place in a list, with the time of creation that belongs to it: siblings of one
        moment are kept a millisecond apart, so that their times show the order of creation."""
        place = await self._session.one(PLACE, parent, family, self._session.now)
        assert place is not None
        return place[0], place[1]

    async def remove(self, row: Row) -> None:
        """Counts a resource out of its list."""
        await self._session.all(REMOVE, row.parent, row.family)
        for level in range(1, _LEVELS + 1):
            block = (row.pos - 1) // _FANOUT**level
            await self._session.all(HOLE_ADD, row.parent, row.family, level, block)

    async def forget(self, parent: str) -> None:
        """Removes all lists of this parent."""
        await self._session.all(FORGET, parent)
        await self._session.all(HOLES_FORGET, parent)
