"""Pushes of images: deliveries to webhooks of container registries, and their results.

A row without a service is a delivery. A push that concerns a service has a row of the service.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from windlass.core.words.image_pushes import ImagePushResult
from windlass.store.tables.table import ChangeSession, Table, columns, places


class ImagePushRow(Struct, frozen=True, gc=False):
    id: str
    webhook: str
    service: str
    delivery: str
    """The id that the registry gave the delivery; empty if it gave none."""
    arrived: int
    sender: str
    image: str
    """The name relative to the registry."""
    tag: str
    digest: str
    result: str
    note: str = ""
    times: int = 1
    """How many such deliveries this row stands for."""


MAX_KEPT_IMAGE_PUSHES: Final = 100
"""The number of deliveries that are kept of a webhook, and of rows of its services."""

_COLUMNS: Final = columns(ImagePushRow)
# Deliveries of one kind that are counted together have one id.
ADD: Final = f"""
INSERT INTO image_push ({_COLUMNS}) VALUES ({places(len(ImagePushRow.__struct_fields__))})
ON CONFLICT (id) DO UPDATE SET
    arrived = excluded.arrived, sender = excluded.sender, times = image_push.times + excluded.times"""
COUNT_REPETITION: Final = """
UPDATE image_push SET times = times + 1 WHERE webhook = $1 AND service = '' AND delivery = $2 RETURNING id"""
WAITING: Final = f"""
SELECT {_COLUMNS} FROM image_push WHERE webhook = $1 AND service = '' AND result = $2
ORDER BY arrived, id LIMIT $3"""
SET_RESULT: Final = "UPDATE image_push SET result = $1, note = $2 WHERE id = $3 AND result = $4"
OF_WEBHOOK: Final = f"""
SELECT {_COLUMNS} FROM image_push WHERE webhook = $1 AND result <> $2 ORDER BY arrived DESC, id LIMIT $3"""
_TRIM = """
DELETE FROM image_push WHERE id IN (
    SELECT id FROM image_push WHERE webhook = $1 AND {0} ORDER BY arrived DESC, id LIMIT 1000 OFFSET $2
)"""
TRIM_DELIVERIES: Final = _TRIM.format("service = ''")
TRIM_OF_SERVICES: Final = _TRIM.format("service <> ''")
DELETE_OF_SERVICE: Final = "DELETE FROM image_push WHERE service = $1"
DELETE_OF_WEBHOOK: Final = "DELETE FROM image_push WHERE webhook = $1"
DELETE_ORPHANS: Final = """
DELETE FROM image_push
WHERE NOT EXISTS (SELECT 1 FROM registry_webhook WHERE registry_webhook.id = image_push.webhook)"""


class ImagePushTable(Table):
    __slots__ = ()

    async def waiting(self, webhook: str, limit: int) -> list[ImagePushRow]:
        """Returns the oldest pushes that were not passed on to services yet."""
        rows = await self._session.all(WAITING, webhook, ImagePushResult.RECEIVED, limit)
        return [ImagePushRow(*row) for row in rows]

    async def of_webhook(self, webhook: str) -> list[ImagePushRow]:
        """Returns the deliveries to a webhook, and what they meant for services, newest first."""
        limit = 2 * MAX_KEPT_IMAGE_PUSHES
        rows = await self._session.all(OF_WEBHOOK, webhook, ImagePushResult.PASSED_ON, limit)
        return [ImagePushRow(*row) for row in rows]


class ImagePushChanges(ImagePushTable):
    __slots__ = ()
    _session: ChangeSession

    async def add(self, rows: Sequence[ImagePushRow]) -> None:
        """Adds rows, and removes the oldest ones of their webhooks beyond `MAX_KEPT_IMAGE_PUSHES`."""
        await self._session.many(ADD, [msgspec.structs.astuple(row) for row in rows])
        for webhook in {row.webhook for row in rows if not row.service}:
            await self._session.all(TRIM_DELIVERIES, webhook, MAX_KEPT_IMAGE_PUSHES)
        for webhook in {row.webhook for row in rows if row.service}:
            await self._session.all(TRIM_OF_SERVICES, webhook, MAX_KEPT_IMAGE_PUSHES)

    async def is_repeated(self, webhook: str, delivery: str) -> bool:
        """Returns whether a delivery with this id came before, and counts it."""
        return bool(delivery and await self._session.all(COUNT_REPETITION, webhook, delivery))

    async def settle(self, rows: Iterable[ImagePushRow], result: ImagePushResult, note: str = "") -> None:
        """Sets the result of rows that are RECEIVED."""
        values = [(result, note, row.id, ImagePushResult.RECEIVED) for row in rows]
        await self._session.many(SET_RESULT, values)

    async def delete_of(self, service: str) -> None:
        if service:
            await self._session.all(DELETE_OF_SERVICE, service)

    async def delete_of_webhook(self, webhook: str) -> None:
        await self._session.all(DELETE_OF_WEBHOOK, webhook)

    async def delete_orphans(self) -> None:
        await self._session.all(DELETE_ORPHANS)
