"""Webhooks of git servers: one address with a sealed secret for each repository of an organization."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from windlass.store.tables.table import ChangeSession, Table, columns, places


class GitWebhookRow(Struct, frozen=True, gc=False):
    id: str
    """The random part of the address."""
    org: str
    repository: str
    """The key of the repository; see `repository_key`."""
    provider: str
    """The kind of git server that sent the last delivery; empty before the first."""
    created: int
    sealed: bytes
    """The secret of the signatures."""


_COLUMNS: Final = columns(GitWebhookRow)
GET: Final = f"SELECT {_COLUMNS} FROM git_webhook WHERE id = $1"
OF_REPOSITORY: Final = f"SELECT {_COLUMNS} FROM git_webhook WHERE org = $1 AND repository = $2"
OF_ORGANIZATION: Final = f"SELECT {_COLUMNS} FROM git_webhook WHERE org = $1"
COUNT: Final = "SELECT count(*) FROM git_webhook WHERE org = $1"
ADD: Final = f"""
INSERT INTO git_webhook ({_COLUMNS}) VALUES ({places(len(GitWebhookRow.__struct_fields__))})"""
SET_SECRET: Final = "UPDATE git_webhook SET sealed = $1 WHERE id = $2"
SET_PROVIDER: Final = "UPDATE git_webhook SET provider = $1 WHERE id = $2"
DELETE: Final = "DELETE FROM git_webhook WHERE id = $1"
DELETE_ORPHANS: Final = """
DELETE FROM git_webhook WHERE NOT EXISTS (SELECT 1 FROM resource WHERE resource.id = git_webhook.org)"""


class GitWebhookTable(Table):
    __slots__ = ()

    async def get(self, id: str) -> GitWebhookRow | None:
        row = await self._session.one(GET, id)
        return _webhook(*row) if row else None

    async def of_repository(self, org: str, repository: str) -> GitWebhookRow | None:
        row = await self._session.one(OF_REPOSITORY, org, repository)
        return _webhook(*row) if row else None

    async def of_organization(self, org: str) -> list[GitWebhookRow]:
        return [_webhook(*row) for row in await self._session.all(OF_ORGANIZATION, org)]

    async def count(self, org: str) -> int:
        row = await self._session.one(COUNT, org)
        return int(row[0]) if row else 0


class GitWebhookChanges(GitWebhookTable):
    __slots__ = ()
    _session: ChangeSession

    async def add(self, webhook: GitWebhookRow) -> None:
        await self._session.all(ADD, *msgspec.structs.astuple(webhook))

    async def set_secret(self, id: str, sealed_value: bytes) -> None:
        await self._session.all(SET_SECRET, sealed_value, id)

    async def set_provider(self, id: str, provider: str) -> None:
        await self._session.all(SET_PROVIDER, provider, id)

    async def delete(self, id: str) -> None:
        await self._session.all(DELETE, id)

    async def delete_orphans(self) -> None:
        """Removes the webhooks of organizations that are gone."""
        await self._session.all(DELETE_ORPHANS)


def _webhook(
    id: str, org: str, repository: str, provider: str, created_at: int, sealed_value: bytes
) -> GitWebhookRow:
    return GitWebhookRow(id, org, repository, provider, created_at, bytes(sealed_value))
