"""Webhooks of container registries: one address with a sealed secret for each registry."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from windlass.store.tables.table import ChangeSession, Table, columns, places


class RegistryWebhookRow(Struct, frozen=True, gc=False):
    id: str
    """The random part of the address."""
    org: str
    registry: str
    created: int
    sealed: bytes
    """The secret."""


_COLUMNS: Final = columns(RegistryWebhookRow)
GET: Final = f"SELECT {_COLUMNS} FROM registry_webhook WHERE id = $1"
OF_REGISTRY: Final = f"SELECT {_COLUMNS} FROM registry_webhook WHERE registry = $1"
ADD: Final = f"""
INSERT INTO registry_webhook ({_COLUMNS}) VALUES ({places(len(RegistryWebhookRow.__struct_fields__))})"""
SET_SECRET: Final = "UPDATE registry_webhook SET sealed = $1 WHERE id = $2"
DELETE: Final = "DELETE FROM registry_webhook WHERE id = $1"
DELETE_OF_REGISTRY: Final = "DELETE FROM registry_webhook WHERE registry = $1"


class RegistryWebhookTable(Table):
    __slots__ = ()

    async def get(self, id: str) -> RegistryWebhookRow | None:
        row = await self._session.one(GET, id)
        return _webhook(*row) if row else None

    async def of_registry(self, registry: str) -> RegistryWebhookRow | None:
        row = await self._session.one(OF_REGISTRY, registry)
        return _webhook(*row) if row else None


class RegistryWebhookChanges(RegistryWebhookTable):
    __slots__ = ()
    _session: ChangeSession

    async def add(self, webhook: RegistryWebhookRow) -> None:
        await self._session.all(ADD, *msgspec.structs.astuple(webhook))

    async def set_secret(self, id: str, sealed_value: bytes) -> None:
        await self._session.all(SET_SECRET, sealed_value, id)

    async def remove(self, id: str) -> None:
        await self._session.all(DELETE, id)

    async def delete_of(self, registry: str) -> None:
        """Removes the webhook of a registry that is deleted."""
        await self._session.all(DELETE_OF_REGISTRY, registry)


def _webhook(id: str, org: str, registry: str, created_at: int, sealed_value: bytes) -> RegistryWebhookRow:
    return RegistryWebhookRow(id, org, registry, created_at, bytes(sealed_value))
