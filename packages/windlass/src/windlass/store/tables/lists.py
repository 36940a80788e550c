"""Lists of resources: their lengths, and pages at a cost that does not depend on the position.

`tally` contains the number of resources of one family under one parent. `hole` contains the number of removed
resources, in blocks of 64, 64², 64³ and 64⁴ positions.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Final

from windlass.store.tables.table import ChangeSession, DatabaseSession, Table

LENGTH: Final = "SELECT next, live FROM tally WHERE parent = $1 AND family = $2"
VERSION: Final = "SELECT next, live, edits FROM tally WHERE parent = $1 AND family = $2"
TAKE_POSITION: Final = """
INSERT INTO tally (parent, family, next, live, last) VALUES ($1, $2, 1, 1, $3)
ON CONFLICT (parent, family) DO UPDATE SET
    next = tally.next + 1,
    live = tally.live + 1,
    last = CASE WHEN excluded.last > tally.last THEN excluded.last ELSE tally.last + 1 END
RETURNING next, last"""
COUNT_REMOVAL: Final = "UPDATE tally SET live = live - 1 WHERE parent = $1 AND family = $2"
COUNT_EDIT: Final = "UPDATE tally SET edits = edits + 1 WHERE parent = $1 AND family = $2"
DELETE_OF_PARENT: Final = "DELETE FROM tally WHERE parent = $1"

HOLES: Final = """
SELECT block, n FROM hole
WHERE parent = $1 AND family = $2 AND level = $3 AND block >= $4 AND block < $5 ORDER BY block"""
HOLES_FAR_BEFORE: Final = """
SELECT (SELECT coalesce(sum(n), 0) FROM hole WHERE parent = $1 AND family = $2 AND level = 4 AND block < $3)
     + (SELECT coalesce(sum(n), 0) FROM hole
        WHERE parent = $1 AND family = $2 AND level = 3 AND block >= $4 AND block < $5)
     + (SELECT coalesce(sum(n), 0) FROM hole
        WHERE parent = $1 AND family = $2 AND level = 2 AND block >= $6 AND block < $7)"""
HOLES_JUST_BEFORE: Final = """
SELECT coalesce(sum(n), 0) FROM hole
WHERE parent = $1 AND family = $2 AND level = 1 AND block >= $3 AND block < $4"""
HOLE_ADD: Final = """
INSERT INTO hole (parent, family, level, block, n) VALUES ($1, $2, $3, $4, 1)
ON CONFLICT (parent, family, level, block) DO UPDATE SET n = hole.n + 1"""
DELETE_HOLES_OF_PARENT: Final = "DELETE FROM hole WHERE parent = $1"

PAGE: Final = """
SELECT body FROM resource WHERE parent = $1 AND family = $2 AND pos >= $3 ORDER BY pos LIMIT $4"""
PAGE_SKIPPING: Final = """
SELECT body FROM resource WHERE parent = $1 AND family = $2 AND pos >= $3 ORDER BY pos LIMIT $4 OFFSET $5"""
PAGE_BACKWARDS: Final = """
SELECT body FROM resource WHERE parent = $1 AND family = $2 ORDER BY pos DESC LIMIT $3 OFFSET $4"""

_FANOUT, _LEVELS = 64, 4
_first_column = itemgetter(0)
# Up to this number, skipping rows is cheaper than searching for the position.
_MAX_SKIPPED_ROWS = 256
_BLOCK_MARGIN = 2
"""Number of blocks subtracted from the guessed block. Rows can be skipped forward, but not backward."""


_MAX_REMEMBERED_LISTS = 1000


class ListTable(Table):
    __slots__ = ("_sums",)

    def __init__(self, session: DatabaseSession) -> None:
        super().__init__(session)
        self._sums: dict[tuple[str, str, int, int], int] = {}
        """Cache of the number of holes before a block of the second level, by parent, family, number of
        holes, and block.

        A list never has the same number of holes in other positions, so that entries stay valid.
        """

    async def version(self, parent: str, family: str) -> tuple[int, int, int]:
        """Returns a value that changes with each creation, change and deletion in a list."""
        row = await self._session.one(VERSION, parent, family)
        return (row[0], row[1], row[2]) if row else (0, 0, 0)

    async def length(self, parent: str, family: str) -> int:
        tally = await self._session.one(LENGTH, parent, family)
        return tally[1] if tally else 0

    async def page(self, parent: str, family: str, skip: int, limit: int) -> tuple[list[bytes], int]:
        """Returns a page of a list in the order of creation, and the length of the list."""
        tally = await self._session.one(LENGTH, parent, family)
        last, live = tally if tally else (0, 0)
        limit = min(limit, live - skip)
        if limit <= 0:
            return [], live
        if last == live:
            rows = await self._session.all(PAGE, parent, family, skip + 1, limit)
        elif skip <= _MAX_SKIPPED_ROWS:
            rows = await self._session.all(PAGE_SKIPPING, parent, family, 1, limit, skip)
        elif (behind := live - skip - limit) <= _MAX_SKIPPED_ROWS:
            rows = (await self._session.all(PAGE_BACKWARDS, parent, family, limit, behind))[::-1]
        else:
            start, rest = await self._guess(parent, family, skip, last, live) or await self._find(
                parent, family, skip, last, last - live
            )
            rows = await self._session.all(PAGE_SKIPPING, parent, family, start, limit, rest)
        return list(map(_first_column, rows)), live

    async def _guess(
        self, parent: str, family: str, skip: int, last_block: int, live: int
    ) -> tuple[int, int] | None:
        """Finds a position like `_find`, with fewer queries if rows were removed evenly.

        The position is estimated from proportions, and corrected by the number of holes before it. Returns
        None if the estimate is too far off.
        """
        block = skip * last_block // live // _FANOUT - _BLOCK_MARGIN
        for _ in range(2):
            block = max(0, block)
            rest = skip - block * _FANOUT + await self._holes_before(parent, family, last_block - live, block)
            if 0 <= rest <= _MAX_SKIPPED_ROWS:
                end = block + 2 * _MAX_SKIPPED_ROWS // _FANOUT
                reached, rest, holes = await self._descend(parent, family, 1, block, end, rest)
                return _start(reached, rest, holes) if reached < end else None
            block += rest // _FANOUT - _BLOCK_MARGIN
        return None

    async def _holes_before(self, parent: str, family: str, hole_count: int, block: int) -> int:
        """Returns the number of removed rows before a block of the lowest level."""
        above = block // _FANOUT
        far = self._sums.get((parent, family, hole_count, above))
        if far is None:
            far = await self._holes_far_before(parent, family, above)
            if len(self._sums) >= _MAX_REMEMBERED_LISTS:
                self._sums.clear()
            self._sums[parent, family, hole_count, above] = far
        row = await self._session.one(HOLES_JUST_BEFORE, parent, family, above * _FANOUT, block)
        assert row is not None
        return far + int(row[0])

    async def _holes_far_before(self, parent: str, family: str, block: int) -> int:
        """Returns the number of removed rows before a block of the second level."""
        bounds = [block // _FANOUT ** (_LEVELS - 2)]
        for level in range(_LEVELS - 3, -1, -1):
            bounds += (bounds[-1] * _FANOUT, block // _FANOUT**level)
        row = await self._session.one(HOLES_FAR_BEFORE, parent, family, *bounds)
        assert row is not None
        return int(row[0])

    async def _find(
        self, parent: str, family: str, skip: int, last_block: int, hole_count: int
    ) -> tuple[int, int]:
        """Returns the position after `skip` rows of a list: a position to start at, and the rows to skip from
        there.

        `last_block`: the last position of the list. `hole_count`: the number of removed rows.
        """
        block, rest = 0, skip
        for level in range(_LEVELS, 0, -1):
            block *= _FANOUT
            if (size := _FANOUT**level) < last_block:  # otherwise the first block contains the whole list
                end = block + (rest + hole_count) // size + 1
                block, rest, hole_count = await self._descend(parent, family, level, block, end, rest)
        return _start(block, rest, hole_count)

    async def _descend(
        self, parent: str, family: str, level: int, block: int, end: int, remaining_rows: int
    ) -> tuple[int, int, int]:
        """Moves forward by `remaining_rows` rows from the beginning of a block.

        Returns the block reached, the remaining rows, and the number of holes in this block. A result at or
        beyond `end` is not reliable.
        """
        size = _FANOUT**level
        for holed, count in await self._session.all(HOLES, parent, family, level, block, end):
            rows = (holed - block + 1) * size - count
            if remaining_rows < rows:
                reached = block + remaining_rows // size
                return reached, remaining_rows % size, count if reached == holed else 0
            remaining_rows -= rows
            block = holed + 1
        return block + remaining_rows // size, remaining_rows % size, 0


def _start(block: int, remaining_rows: int, hole_count: int) -> tuple[int, int]:
    """Returns the position to start at in a block of the lowest level, and the number of rows to skip from
    there."""
    return (block * _FANOUT + 1, remaining_rows) if hole_count else (block * _FANOUT + remaining_rows + 1, 0)


class ListChanges(ListTable):
    __slots__ = ()
    _session: ChangeSession

    async def _holes_before(self, parent: str, family: str, hole_count: int, block: int) -> int:
        """Returns the number of holes without the cache, because this transaction's removals may be rolled
        back."""
        self._sums.clear()
        return await super()._holes_before(parent, family, hole_count, block)

    async def place(self, parent: str, family: str) -> tuple[int, int]:
        """Returns the next position in a list, and the creation time for the new resource.

        The times of siblings differ by at least a millisecond, so that they show the order of creation.
        """
        place = await self._session.one(TAKE_POSITION, parent, family, self._session.now)
        assert place is not None
        return place[0], place[1]

    async def remove(self, parent: str, family: str, position: int) -> None:
        """Removes a resource from the counts of its list."""
        await self._session.all(COUNT_REMOVAL, parent, family)
        for level in range(1, _LEVELS + 1):
            block = (position - 1) // _FANOUT**level
            await self._session.all(HOLE_ADD, parent, family, level, block)

    async def delete_of(self, parent: str) -> None:
        """Removes all lists of a parent."""
        await self._session.all(DELETE_OF_PARENT, parent)
        await self._session.all(DELETE_HOLES_OF_PARENT, parent)
