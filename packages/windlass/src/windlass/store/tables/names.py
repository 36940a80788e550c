"""Names: host labels and public ports, each reserved by at most one service. The table is `host`."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from windlass.store.nudges import route_topic
from windlass.store.tables import counters
from windlass.store.tables.table import ChangeSession, Table, columns, places


class NameRow(Struct, frozen=True, gc=False):
    """A name that a service has reserved: a host label, or a public port of the machine."""

    name: str
    service: str
    port: str = ""
    """The service's named port for which the name is reserved; empty for the service itself."""
    wish: str = ""
    """The requested name, if another service has it."""
    number: int = 0
    """Number of the reservation. A later reservation has a greater number."""


_COLUMNS: Final = columns(NameRow)
NAMES_OF_SERVICE: Final = f"SELECT {_COLUMNS} FROM host WHERE service = $1 ORDER BY number, name"
GET: Final = f"SELECT {_COLUMNS} FROM host WHERE name = $1"
NAMES_WITH_PREFIX: Final = "SELECT name FROM host WHERE substr(name, 1, length($1)) = $2"
COUNT_OF_ORG: Final = """
SELECT count(*), count(CASE WHEN resource.parent = $1 THEN 1 END),
    count(CASE WHEN above.parent = (SELECT parent FROM resource WHERE id = $2) THEN 1 END)
FROM resource
JOIN host ON host.service = resource.id
LEFT JOIN resource AS above ON above.id = resource.parent
WHERE resource.org = $3 AND substr(host.name, 1, length($4)) = $5 AND host.name <> $6"""
ADD: Final = f"""
INSERT INTO host ({_COLUMNS}) VALUES ({places(len(NameRow.__struct_fields__))})
ON CONFLICT (name) DO NOTHING RETURNING name"""
DELETE: Final = "DELETE FROM host WHERE name = $1 AND service = $2"
DELETE_OF_SERVICE: Final = "DELETE FROM host WHERE service = $1 RETURNING name"


class HeldCounts(NamedTuple):
    """Numbers of names that services hold."""

    organization: int
    environment: int
    project: int


class NameTable(Table):
    __slots__ = ()

    async def of(self, service: str) -> list[NameRow]:
        """Returns the names of a service in the order of their reservation."""
        return [NameRow(*row) for row in await self._session.all(NAMES_OF_SERVICE, service)]

    async def holder(self, name: str) -> NameRow | None:
        """Returns the reservation of a name; None if no service has it."""
        row = await self._session.one(GET, name)
        return NameRow(*row) if row else None

    async def beginning(self, prefix: str) -> set[str]:
        """Returns all reserved names with a prefix. Reads all names."""
        return {name for (name,) in await self._session.all(NAMES_WITH_PREFIX, prefix, prefix)}

    async def count_others(self, org: str, environment: str, prefix: str, name: str) -> HeldCounts:
        """Returns the number of names with a prefix, except `name`, of the services of an organization, of an
        environment, and of the project of this environment."""
        row = await self._session.one(COUNT_OF_ORG, environment, environment, org, prefix, prefix, name)
        return HeldCounts(*map(int, row)) if row else HeldCounts(0, 0, 0)


class NameChanges(NameTable):
    __slots__ = ()
    _session: ChangeSession

    async def reserve(self, name: str, service: str, port: str = "", wish: str = "") -> NameRow | None:
        """Reserves a name for a service. Returns None if the name is reserved already."""
        row = NameRow(name, service, port, wish, await counters.advance(self._session, "host"))
        added = await self._session.one(ADD, *msgspec.structs.astuple(row))
        return row if added else None

    async def release(self, row: NameRow) -> None:
        await self._session.all(DELETE, row.name, row.service)
        self._session.nudge(route_topic(row.service))

    async def delete_of(self, service: str) -> None:
        if await self._session.all(DELETE_OF_SERVICE, service):
            self._session.nudge(route_topic(service))
