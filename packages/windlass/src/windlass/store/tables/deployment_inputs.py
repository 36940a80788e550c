"""The settings and variables with which deployments ran.

Each document is stored once for all deployments that used it, as a version of its resource, which its id and
its tag identify. The inputs of a deployment refer to versions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from windlass.store.tables.table import ChangeSession, Table, columns, places


class ResourceVersionRow(Struct, frozen=True, gc=False):
    """A resource as it was when it had this tag."""

    id: str
    tag: str
    holder: str
    """The resource with which the version is removed: the service itself, or the level of a variable."""
    org: str
    family: str
    body: bytes
    sealed: bytes | None = None
    """The encrypted fields; None if there are none, and after the deletion of a secret."""


_COLUMNS: Final = columns(ResourceVersionRow)
GET: Final = f"SELECT {_COLUMNS} FROM resource_version WHERE id = $1 AND tag = $2"
OF_HOLDER: Final = f"SELECT {_COLUMNS} FROM resource_version WHERE holder = $1 AND family = $2"
ADD: Final = f"""
INSERT INTO resource_version ({_COLUMNS}) VALUES ({places(len(ResourceVersionRow.__struct_fields__))})
ON CONFLICT (id, tag) DO NOTHING"""
# The condition `family = $2` occurs once for each statement, because lists are no parameters in SQLite.
ADD_OF_LEVEL: Final = f"""
INSERT INTO resource_version ({_COLUMNS})
SELECT id, tag, parent, org, family, body, sealed FROM resource WHERE parent = $1 AND family = $2
ON CONFLICT (id, tag) DO NOTHING"""
SEAL: Final = "UPDATE resource_version SET sealed = $1 WHERE id = $2 AND tag = $3"
ERASE: Final = "UPDATE resource_version SET sealed = NULL WHERE id = $1 AND sealed IS NOT NULL"
DELETE_OF_HOLDER: Final = "DELETE FROM resource_version WHERE holder = $1"
GET_INPUTS: Final = "SELECT body FROM deployment_inputs WHERE deployment = $1"
SET_INPUTS: Final = """
INSERT INTO deployment_inputs (deployment, service, body) VALUES ($1, $2, $3)
ON CONFLICT (deployment) DO UPDATE SET body = excluded.body"""
FORGOTTEN_AT_ONCE: Final = 20
"""Maximum number of deployments whose inputs one change removes."""
FORGET_INPUTS: Final = f"""
DELETE FROM deployment_inputs WHERE deployment IN (
    SELECT old.id FROM deployment_inputs AS inputs CROSS JOIN deployment AS old
    WHERE inputs.service = $1 AND old.id = inputs.deployment AND old.number <= $2
    AND NOT EXISTS (SELECT 1 FROM status WHERE status.id = $1 AND status.serving = old.id)
    ORDER BY old.number LIMIT {FORGOTTEN_AT_ONCE}
) RETURNING body"""
NEXT_INPUTS: Final = """
SELECT inputs.body FROM deployment AS later CROSS JOIN deployment_inputs AS inputs
WHERE later.service = $1 AND later.number > $2 AND inputs.deployment = later.id
ORDER BY later.number LIMIT 1"""
INPUTS_OF_SERVICE: Final = "SELECT body FROM deployment_inputs WHERE service = $1"
DELETE_VERSION: Final = "DELETE FROM resource_version WHERE id = $1 AND tag = $2 AND holder = $3"
DELETE_INPUTS_OF_SERVICE: Final = "DELETE FROM deployment_inputs WHERE service = $1"


class DeploymentInputsTable(Table):
    __slots__ = ()

    async def get(self, deployment: str) -> bytes | None:
        """Returns the encoded inputs of a deployment; None if an earlier version of Windlass kept none."""
        row = await self._session.one(GET_INPUTS, deployment)
        return bytes(row[0]) if row else None

    async def version(self, id: str, tag: str) -> ResourceVersionRow | None:
        row = await self._session.one(GET, id, tag)
        return ResourceVersionRow(*row) if row else None

    async def next(self, service: str, number: int) -> bytes | None:
        """Returns the inputs of the first deployment of a service after number `number` that has some."""
        row = await self._session.one(NEXT_INPUTS, service, number)
        return bytes(row[0]) if row else None

    async def of_service(self, service: str) -> list[bytes]:
        """Returns the inputs of all deployments of a service that are kept."""
        return [bytes(row[0]) for row in await self._session.all(INPUTS_OF_SERVICE, service)]

    async def of_holder(self, holder: str, family: str) -> list[ResourceVersionRow]:
        """Returns all kept versions of the resources of a family at a level."""
        return [ResourceVersionRow(*row) for row in await self._session.all(OF_HOLDER, holder, family)]


class DeploymentInputsChanges(DeploymentInputsTable):
    __slots__ = ()
    _session: ChangeSession

    async def set(self, deployment: str, service: str, body: bytes) -> None:
        await self._session.all(SET_INPUTS, deployment, service, body)

    async def add(self, version: ResourceVersionRow) -> None:
        """Keeps a version, unless it is kept already."""
        await self._session.all(ADD, *msgspec.structs.astuple(version))

    async def add_of_level(self, level: str, families: Collection[str]) -> None:
        """Keeps the present versions of all resources of these families at a level."""
        for family in families:
            await self._session.all(ADD_OF_LEVEL, level, family)

    async def seal(self, versions: Iterable[ResourceVersionRow]) -> None:
        """Replaces the encrypted fields of versions."""
        rows: Sequence[Sequence[object]] = [(version.sealed, version.id, version.tag) for version in versions]
        await self._session.many(SEAL, rows)

    async def forget(self, service: str, newest_number: int) -> list[bytes]:
        """Removes the inputs of deployments of a service up to number `newest_number`, a few at once, but not
        of the serving one. Returns them."""
        return [bytes(row[0]) for row in await self._session.all(FORGET_INPUTS, service, newest_number)]

    async def delete_versions(self, holder: str, versions: Iterable[tuple[str, str]]) -> None:
        """Removes versions of a service and its variables: ids with tags."""
        await self._session.many(DELETE_VERSION, [(id, tag, holder) for id, tag in versions])

    async def delete_of(self, id: str) -> None:
        """Removes the inputs and versions of a service or level, and erases the value of a secret."""
        await self._session.all(DELETE_INPUTS_OF_SERVICE, id)
        await self._session.all(DELETE_OF_HOLDER, id)
        await self._session.all(ERASE, id)
