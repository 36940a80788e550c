"""Pushes to repositories: deliveries to webhooks, commits that a branch check found, and their results.

A row without a service is a delivery to a webhook. A push that concerns a service has a row of the service,
which is RECEIVED until the branch has been checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from windlass.core.words.git_pushes import PushResult
from windlass.store.tables.table import ChangeSession, Table, columns, places


class GitPushRow(Struct, frozen=True, gc=False):
    id: str
    webhook: str
    service: str
    delivery: str
    """The id that the git server gave the delivery; empty if it gave none."""
    arrived: int
    event: str
    branch: str
    commit_id: str
    result: str
    note: str = ""
    times: int = 1
    """How many such deliveries this row stands for."""


MAX_KEPT_PUSHES: Final = 100
"""The number of rows that are kept of a webhook, and of a service."""

_COLUMNS: Final = columns(GitPushRow)
# Deliveries of one kind that are counted together have one id.
ADD: Final = f"""
INSERT INTO git_push ({_COLUMNS}) VALUES ({places(len(GitPushRow.__struct_fields__))})
ON CONFLICT (id) DO UPDATE SET
    arrived = excluded.arrived, event = excluded.event, branch = excluded.branch,
    commit_id = excluded.commit_id, note = excluded.note, times = git_push.times + excluded.times"""
COUNT_REPETITION: Final = """
UPDATE git_push SET times = times + 1 WHERE webhook = $1 AND service = '' AND delivery = $2 RETURNING id"""
UNPROCESSED: Final = f"""
SELECT {_COLUMNS} FROM git_push WHERE webhook = $1 AND service = '' AND result = $2 ORDER BY arrived, id"""
PENDING: Final = f"""
SELECT {_COLUMNS} FROM git_push WHERE service = $1 AND result = $2 ORDER BY arrived DESC, id"""
SET_RESULT: Final = "UPDATE git_push SET result = $1, note = $2 WHERE id = $3 AND result = $4"
TURN: Final = "UPDATE git_push SET result = $1 WHERE webhook = $2 AND service = '' AND result = $3"
OF_SERVICE: Final = f"""
SELECT {_COLUMNS} FROM git_push
WHERE service = $1 OR (webhook = $2 AND webhook <> '' AND service = '' AND result <> $3)
ORDER BY arrived DESC, id LIMIT $4"""
_TRIM = """
DELETE FROM git_push WHERE id IN (
    SELECT id FROM git_push WHERE {0} ORDER BY arrived DESC, id LIMIT 1000 OFFSET $2
)"""
TRIM_WEBHOOK: Final = _TRIM.format("webhook = $1 AND service = ''")
TRIM_SERVICE: Final = _TRIM.format("service = $1")
DELETE_OF_SERVICE: Final = "DELETE FROM git_push WHERE service = $1"
DELETE_OF_WEBHOOK: Final = "DELETE FROM git_push WHERE webhook = $1 AND service = ''"
DELETE_ORPHANS: Final = """
DELETE FROM git_push WHERE service = ''
    AND NOT EXISTS (SELECT 1 FROM git_webhook WHERE git_webhook.id = git_push.webhook)"""


class GitPushTable(Table):
    __slots__ = ()

    async def comments(self, webhook: str, limit: int) -> list[GitPushRow]:
        """Returns the comments with commands that came to a webhook and were not read yet, oldest first."""
        rows = await self._session.all(UNPROCESSED, webhook, PushResult.COMMENT)
        return [GitPushRow(*row) for row in rows[:limit]]

    async def waiting(self, webhook: str) -> list[GitPushRow]:
        """Returns the pushes that came to a webhook and were not passed on to services yet."""
        return [
            GitPushRow(*row) for row in await self._session.all(UNPROCESSED, webhook, PushResult.RECEIVED)
        ]

    async def pending(self, service: str) -> list[GitPushRow]:
        """Returns the pushes for which the branch of a service must still be checked, newest first."""
        return [GitPushRow(*row) for row in await self._session.all(PENDING, service, PushResult.RECEIVED)]

    async def of_service(self, service: str, webhook: str, limit: int) -> list[GitPushRow]:
        """Returns the pushes of a service, and other deliveries to the webhook of its repository, newest
        first."""
        rows = await self._session.all(OF_SERVICE, service, webhook, PushResult.PASSED_ON, limit)
        return [GitPushRow(*row) for row in rows]


class GitPushChanges(GitPushTable):
    __slots__ = ()
    _session: ChangeSession

    async def add(self, rows: Sequence[GitPushRow]) -> None:
        """Adds rows, and removes the oldest ones of their services and webhooks beyond `MAX_KEPT_PUSHES`."""
        await self._session.many(ADD, [msgspec.structs.astuple(row) for row in rows])
        for service in {row.service for row in rows if row.service}:
            await self._session.all(TRIM_SERVICE, service, MAX_KEPT_PUSHES)
        for webhook in {row.webhook for row in rows if not row.service}:
            await self._session.all(TRIM_WEBHOOK, webhook, MAX_KEPT_PUSHES)

    async def is_repeated(self, webhook: str, delivery: str) -> bool:
        """Returns whether a delivery with this id came before, and counts it."""
        return bool(delivery and await self._session.all(COUNT_REPETITION, webhook, delivery))

    async def settle(self, rows: Iterable[GitPushRow], result: PushResult, note: str = "") -> None:
        """Sets the result of rows that are RECEIVED."""
        values = [(result, note, row.id, PushResult.RECEIVED) for row in rows]
        await self._session.many(SET_RESULT, values)

    async def settle_comment(self, row: GitPushRow, result: PushResult, note: str) -> None:
        await self._session.many(SET_RESULT, [(result, note, row.id, PushResult.COMMENT)])

    async def turn(self, webhook: str, old_result: PushResult, new_result: PushResult) -> None:
        """Sets the result of all deliveries to a webhook that have another one."""
        await self._session.all(TURN, new_result, webhook, old_result)

    async def delete_of(self, service: str) -> None:
        if service:
            await self._session.all(DELETE_OF_SERVICE, service)

    async def delete_of_webhook(self, webhook: str) -> None:
        await self._session.all(DELETE_OF_WEBHOOK, webhook)

    async def delete_orphans(self) -> None:
        await self._session.all(DELETE_ORPHANS)
