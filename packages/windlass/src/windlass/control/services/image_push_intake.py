"""Takes deliveries of container registries: what came is stored, and passed on to the services as work.

Anyone who knows the address of a webhook can send to it. So the number of deliveries in progress is limited
in total, for each organization and for each webhook, and unsigned ones are counted in one row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from windlass.base import ids
from windlass.base.clock import SECOND
from windlass.control.context.context import Context
from windlass.control.records.registry_webhooks import IMAGE_PUSH_WORK, work_of
from windlass.control.services.push_intake import counted
from windlass.core.words.image_pushes import ImagePushResult
from windlass.registries.push_payloads import ImageDelivery, ImageEvent, PushedTag
from windlass.store import Tx
from windlass.store.tables.image_pushes import ImagePushRow
from windlass.store.tables.registry_webhooks import RegistryWebhookRow

MAX_IMAGE_PUSH_BYTES: Final = 1024 * 1024
"""The largest body. GitHub sends the readme of a package with it."""
MAX_IMAGE_DELIVERIES, MAX_IMAGE_DELIVERIES_OF_WEBHOOK = 64, 16
"""The number of deliveries in progress: in total, and of one webhook. An organization may have as many as it
leaves free."""
PASS_ON_INTERVAL: Final = 1 * SECOND
"""The time between two looks at what came to a webhook. A first push is passed on at once."""
_MAX_REMEMBERED_WEBHOOKS: Final = 10_000
_COUNTED_RESULTS: Final = frozenset(
    {ImagePushResult.WRONG_SECRET, ImagePushResult.NO_SECRET, ImagePushResult.OTHER_EVENT}
)
"""Results whose deliveries are counted in one row of the webhook, so that they displace no others."""
_RESULTS: Final = {
    ImageEvent.PUSH: ImagePushResult.RECEIVED,
    ImageEvent.PING: ImagePushResult.PING,
    ImageEvent.OTHER: ImagePushResult.OTHER_EVENT,
}


class ImagePushIntake:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._in_progress: Counter[str] = Counter()
        """The number of deliveries in progress by webhook and by organization."""
        self._passed_on: dict[str, int] = {}
        """When the pushes of a webhook are passed on next, or were last."""

    @contextmanager
    def place(self, webhook: RegistryWebhookRow) -> Iterator[None]:
        """Counts a delivery in progress. Raises TooMany if there are too many."""
        with counted(self._in_progress, webhook, MAX_IMAGE_DELIVERIES, MAX_IMAGE_DELIVERIES_OF_WEBHOOK):
            yield

    async def refuse(self, webhook: RegistryWebhookRow, result: ImagePushResult) -> None:
        """Stores that a delivery was refused."""
        await self._ctx.store.write(
            lambda tx: _add(tx, webhook, ImageDelivery("", ImageEvent.OTHER, ""), result)
        )

    async def take(self, webhook: RegistryWebhookRow, delivery: ImageDelivery) -> ImagePushResult:
        """Stores a delivery of the registry. Returns its first result."""
        result = _RESULTS[delivery.event]

        async def change(tx: Tx) -> None:
            if await tx.image_pushes.is_repeated(webhook.id, delivery.id):
                return
            await _add(tx, webhook, delivery, result)
            if result is ImagePushResult.RECEIVED:
                due = self._due(webhook.id, tx.now)
                await tx.work.schedule(IMAGE_PUSH_WORK, work_of(webhook.id), due, webhook.org)

        await self._ctx.store.write(change)
        return result

    def _due(self, webhook: str, now: int) -> int:
        due = max(now, self._passed_on.get(webhook, 0) + PASS_ON_INTERVAL)
        if due > now:
            return due
        if len(self._passed_on) >= _MAX_REMEMBERED_WEBHOOKS:
            self._passed_on = {id: at for id, at in self._passed_on.items() if at + PASS_ON_INTERVAL > now}
        self._passed_on[webhook] = now
        return now


async def _add(tx: Tx, webhook: RegistryWebhookRow, delivery: ImageDelivery, result: ImagePushResult) -> None:
    is_counted = result in _COUNTED_RESULTS
    tags: Sequence[PushedTag] = delivery.tags or [PushedTag("", "")]
    rows = [
        ImagePushRow(
            f"{webhook.id}:{result}" if is_counted else ids.new_id(),
            webhook.id,
            "",
            # A delivery of several tags is repeated as a whole.
            delivery.id if not is_counted and not number else "",
            tx.now,
            delivery.sender,
            tag.image,
            tag.tag,
            tag.digest,
            result,
        )
        for number, tag in enumerate(tags)
    ]
    await tx.image_pushes.add(rows)
