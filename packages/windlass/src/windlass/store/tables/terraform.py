"""The state of Terraform services: sealed versions, and the lock.

A version never changes, except that its list of resources is added later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from windlass.store.tables.table import ChangeSession, Table, columns, places


class StateVersion(Struct, frozen=True, gc=False):
    """The metadata of one version of a service's state."""

    id: str
    org: str
    service: str
    number: int
    created: int
    deployment: str
    restored: int
    """The number of the version whose content was restored; 0 if a run wrote this version."""
    bytes: int
    digest: str


class StateLock(Struct, frozen=True, gc=False):
    """The lock on a service's state. It is released by its owner, or by a person with force."""

    service: str
    id: str
    deployment: str
    operation: str
    owner: str
    created: int
    info: bytes
    """The lock information that Terraform has sent, which is returned to it."""


_VERSION: Final = columns(StateVersion)
_LOCK: Final = columns(StateLock)

NEWEST: Final = f"SELECT {_VERSION} FROM terraform_state WHERE service = $1 ORDER BY number DESC LIMIT 1"
VERSION: Final = f"SELECT {_VERSION} FROM terraform_state WHERE service = $1 AND number = $2"
VERSIONS: Final = f"SELECT {_VERSION} FROM terraform_state WHERE service = $1 ORDER BY number DESC LIMIT $2"
GET_CONTENT: Final = "SELECT sealed FROM terraform_state WHERE id = $1"
GET_SHOWN_RESOURCES: Final = "SELECT shown FROM terraform_state WHERE id = $1"
ADD: Final = f"INSERT INTO terraform_state ({_VERSION}, sealed) VALUES ({places(10)})"
SET_SHOWN_RESOURCES: Final = "UPDATE terraform_state SET shown = $1 WHERE id = $2"
DELETE_UP_TO: Final = "DELETE FROM terraform_state WHERE service = $1 AND number <= $2"
GET_LOCK: Final = f"SELECT {_LOCK} FROM terraform_lock WHERE service = $1"
ADD_LOCK: Final = f"INSERT INTO terraform_lock ({_LOCK}) VALUES ({places(7)})"
DELETE_LOCK: Final = "DELETE FROM terraform_lock WHERE service = $1"
DELETE_OF_SERVICE: Final = tuple(
    f"DELETE FROM {table} WHERE service = $1" for table in ("terraform_state", "terraform_lock")
)


def _lock(row: Sequence[Any]) -> StateLock:
    """Converts a row to a lock. The databases return bytes as different types."""
    values: Any = (*row[:-1], bytes(row[-1]))
    return StateLock(*values)


class TerraformTable(Table):
    __slots__ = ()

    async def newest(self, service: str) -> StateVersion | None:
        """Returns the current version of the state."""
        row = await self._session.one(NEWEST, service)
        return StateVersion(*row) if row else None

    async def version(self, service: str, number: int) -> StateVersion | None:
        row = await self._session.one(VERSION, service, number)
        return StateVersion(*row) if row else None

    async def versions(self, service: str, limit: int) -> list[StateVersion]:
        """Returns the latest versions, the newest first."""
        return [StateVersion(*row) for row in await self._session.all(VERSIONS, service, limit)]

    async def content(self, id: str) -> bytes | None:
        """Returns the sealed content of a version."""
        row = await self._session.one(GET_CONTENT, id)
        return bytes(row[0]) if row else None

    async def shown(self, id: str) -> bytes | None:
        """Returns the sealed list of resources of a version; None if it is not stored yet."""
        row = await self._session.one(GET_SHOWN_RESOURCES, id)
        return bytes(row[0]) if row and row[0] is not None else None

    async def lock(self, service: str) -> StateLock | None:
        row = await self._session.one(GET_LOCK, service)
        return _lock(row) if row else None


class TerraformChanges(TerraformTable):
    __slots__ = ()
    _session: ChangeSession

    async def add(self, version: StateVersion, sealed_value: bytes, keep_count: int) -> None:
        """Adds the newest version, and removes all but the last `keep_count` versions."""
        values = (getattr(version, name) for name in StateVersion.__struct_fields__)
        await self._session.all(ADD, *values, sealed_value)
        await self._session.all(DELETE_UP_TO, version.service, version.number - keep_count)

    async def record_shown(self, id: str, sealed_value: bytes) -> None:
        await self._session.all(SET_SHOWN_RESOURCES, sealed_value, id)

    async def take_lock(self, lock: StateLock) -> None:
        await self._session.all(ADD_LOCK, *(getattr(lock, name) for name in StateLock.__struct_fields__))

    async def release_lock(self, service: str) -> None:
        await self._session.all(DELETE_LOCK, service)

    async def delete_of(self, service: str) -> None:
        for statement in DELETE_OF_SERVICE:
            await self._session.all(statement, service)
