"""Resources: each is a row with the document that the API returns.

`lists` counts resources and finds pages, `tree` follows parents and children, and `links` contains
references.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from windlass.core.declare.stored import read
from windlass.store.tables import lists
from windlass.store.tables.table import STORE_COST, ChangeSession, Table, columns, places

R = TypeVar("R", bound=Struct)


class Row(Struct, frozen=True, gc=False):
    """A resource. `body` is the document that the API returns."""

    id: str
    family: str
    org: str
    parent: str
    pos: int
    name: str | None
    created: int
    tag: str
    body: bytes
    sealed: bytes | None = None

    def read(self, struct: type[R]) -> R:
        """Decodes the fields of the document that a struct declares, as in `row.read(Application)`."""
        return read(self.body, struct)


_COLUMNS: Final = columns(Row)
FIND: Final = f"SELECT {_COLUMNS} FROM resource WHERE id = $1 AND family = $2"
GET: Final = f"SELECT {_COLUMNS} FROM resource WHERE id = $1"
CHILD_BY_NAME: Final = f"SELECT {_COLUMNS} FROM resource WHERE parent = $1 AND family = $2 AND name = $3"
OF_ORG: Final = f"SELECT {_COLUMNS} FROM resource WHERE org = $1 AND family = $2 ORDER BY created, id"
OF_PARENT: Final = f"SELECT {_COLUMNS} FROM resource WHERE parent = $1 AND family = $2 ORDER BY pos"
FIRST: Final = f"{OF_PARENT} LIMIT 1"
_BATCH: Final = 100
PARENTS_OF: Final = f"SELECT id, parent FROM resource WHERE id IN ({places(_BATCH)})"
PARENTS: Final = "SELECT DISTINCT parent FROM resource WHERE org = $1 AND family = $2 ORDER BY parent"
_SIZE: Final = "LENGTH(body) + COALESCE(LENGTH(sealed), 0)"
_LARGE: Final = f"{_SIZE} > $3 AND id <> $4"
LARGE_OF_PARENT: Final = f"SELECT SUM({_SIZE}) FROM resource WHERE parent = $1 AND family = $2 AND {_LARGE}"
LARGE_OF_ORG: Final = f"SELECT SUM({_SIZE}) FROM resource WHERE org = $1 AND family = $2 AND {_LARGE}"
ADD: Final = f"INSERT INTO resource ({_COLUMNS}) VALUES ({places(len(Row.__struct_fields__))})"
UPDATE: Final = "UPDATE resource SET name = $1, tag = $2, body = $3, sealed = $4 WHERE id = $5"
UPDATE_BODY: Final = "UPDATE resource SET body = $1 WHERE id = $2"
DELETE: Final = "DELETE FROM resource WHERE id = $1"


class ResourceTable(Table):
    __slots__ = ()

    async def find(self, family: str, id: str) -> Row | None:
        row = await self._session.one(FIND, id, family)
        return Row(*row) if row else None

    async def get(self, id: str) -> Row | None:
        row = await self._session.one(GET, id)
        return Row(*row) if row else None

    async def named(self, parent: str, family: str, name: str) -> Row | None:
        row = await self._session.one(CHILD_BY_NAME, parent, family, name)
        return Row(*row) if row else None

    async def first(self, parent: str, family: str) -> Row | None:
        row = await self._session.one(FIRST, parent, family)
        return Row(*row) if row else None

    async def of_org(self, org: str, family: str) -> list[Row]:
        return [Row(*row) for row in await self._session.all(OF_ORG, org, family)]

    async def of_parent(self, parent: str, family: str) -> list[Row]:
        return [Row(*row) for row in await self._session.all(OF_PARENT, parent, family)]

    async def parents(self, org: str, family: str) -> list[str]:
        """Returns the ids of an organization's resources with children of a family."""
        return [row[0] for row in await self._session.all(PARENTS, org, family)]

    async def parents_of(self, ids: Sequence[str]) -> dict[str, str]:
        """Returns the parents of resources, without those of ids that do not exist."""
        found: dict[str, str] = {}
        for first in range(0, len(ids), _BATCH):
            batch = ids[first : first + _BATCH]
            rows = await self._session.all(PARENTS_OF, *batch, *[""] * (_BATCH - len(batch)))
            found |= {row[0]: row[1] for row in rows}
        return found

    async def large_beside(self, row: Row, minimum: int) -> tuple[int, int]:
        """Returns how many bytes the other resources of this family have that are larger than `minimum`:
        those of the same parent, and those of the same organization."""
        of_parent = await self._session.one(LARGE_OF_PARENT, row.parent, row.family, minimum, row.id)
        of_org = await self._session.one(LARGE_OF_ORG, row.org, row.family, minimum, row.id)
        return (of_parent and of_parent[0]) or 0, (of_org and of_org[0]) or 0


class ResourceChanges(ResourceTable):
    """The changes of resources, with a cache for the changes of one group.

    The cache saves reads because resources that are created together usually have the same parents.
    """

    __slots__ = ("_known",)
    _session: ChangeSession

    def __init__(self, session: ChangeSession) -> None:
        super().__init__(session)
        self._known: dict[str, Row] = {}

    def read_again(self) -> None:
        """Clears the cache after a failed change, which may have read its own writes."""
        self._known.clear()

    async def find(self, family: str, id: str) -> Row | None:
        row = self._known.get(id)
        if row is not None:
            return row if row.family == family else None
        row = await super().find(family, id)
        if row is not None:
            self._known[id] = row
        return row

    async def add(self, row: Row) -> None:
        """Adds a resource at its position. Raises `NameTaken` if a sibling has the same name."""
        self._session.spend(STORE_COST + (len(row.body) >> 10))
        await self._session.all(ADD, *msgspec.structs.astuple(row))

    async def change(self, row: Row) -> None:
        """Replaces a resource. Raises `NameTaken` if a sibling has the new name."""
        self._session.spend(STORE_COST)
        self._known.pop(row.id, None)
        await self._session.all(UPDATE, row.name, row.tag, row.body, row.sealed, row.id)
        await self._session.all(lists.COUNT_EDIT, row.parent, row.family)

    async def rewrite(self, id: str, body: bytes) -> None:
        """Changes fields that the server itself maintains. The tag does not change, so that clients'
        `If-Match` stays valid."""
        self._known.pop(id, None)
        await self._session.all(UPDATE_BODY, body, id)

    async def delete_of(self, id: str) -> None:
        """Removes only this row. `Tx.remove` removes a resource from all tables."""
        self._known.pop(id, None)
        await self._session.all(DELETE, id)
