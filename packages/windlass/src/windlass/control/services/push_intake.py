"""Takes deliveries of git servers: what came is stored in batches, and passed on to the services as work.

Anyone who knows the address of a webhook can send to it. So the number of deliveries in progress is limited
in total and for each webhook, and so are large bodies, of which more is kept in memory. Deliveries that are
stored together and have the same meaning are one row.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from windlass.base import ids
from windlass.base.clock import SECOND
from windlass.base.errors import TooMany
from windlass.control.context.context import Context
from windlass.control.records.git_webhooks import COMMENT_WORK, PUSH_WORK, comment_work_of, work_of
from windlass.core.words.git_pushes import PushResult
from windlass.sources.git_servers.payloads import DeliveryHead, EventKind, PushedBranch
from windlass.store import Tx
from windlass.store.tables.git_pushes import GitPushRow
from windlass.store.tables.git_webhooks import GitWebhookRow
from windlass.store.tables.registry_webhooks import RegistryWebhookRow

MAX_BODY_BYTES: Final = 25 * 1024 * 1024
"""The largest body. GitHub sends none that is larger."""
MAX_SMALL_BODY_BYTES: Final = 64 * 1024
MAX_BUFFERED_BYTES: Final = 1024 * 1024
"""How much of a large body is kept in memory. The rest is hashed as it arrives."""
MAX_DELIVERIES, MAX_DELIVERIES_OF_WEBHOOK = 512, 256
"""The number of deliveries in progress: in total, and of one webhook. An organization may have as many as it
leaves free."""
MAX_LARGE_DELIVERIES, MAX_LARGE_DELIVERIES_OF_WEBHOOK = 32, 8
_ALL: Final = ""
"""The key of the number of all deliveries in progress."""
CHECK_INTERVAL: Final = 1 * SECOND
"""The time between two looks at the branches of a repository. A first push is passed on at once."""
_MAX_REMEMBERED_WEBHOOKS: Final = 10_000
_COUNTED_RESULTS: Final = frozenset(
    {PushResult.WRONG_SIGNATURE, PushResult.NO_SIGNATURE, PushResult.OTHER_EVENT}
)
"""Results whose deliveries are counted in one row of the webhook, so that they displace no others."""
_PASSED_ON: Final = frozenset({PushResult.RECEIVED, PushResult.PULL_REQUEST})
"""Results of deliveries after which services or previews are looked at."""


class TakenDelivery(Struct, frozen=True):
    webhook: GitWebhookRow
    head: DeliveryHead
    result: PushResult
    push: PushedBranch = PushedBranch("", "")
    note: str = ""

    @property
    def row(self) -> GitPushRow:
        is_counted = self.result in _COUNTED_RESULTS
        is_signed = self.result not in {PushResult.WRONG_SIGNATURE, PushResult.NO_SIGNATURE}
        return GitPushRow(
            f"{self.webhook.id}:{self.result}" if is_counted else ids.new_id(),
            self.webhook.id,
            "",
            self.head.id if is_signed and not is_counted else "",
            0,
            self.head.event if is_signed else "?",
            self.push.branch,
            self.push.commit,
            self.result,
            self.note,
        )


class _DeliveryBatch(Struct):
    """Deliveries that are stored in one change."""

    deliveries: list[TakenDelivery] = field(default_factory=list)
    task: asyncio.Task[None] | None = None


class PushIntake:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self._in_progress: Counter[str] = Counter()
        """The number of deliveries in progress by webhook and by organization."""
        self._large: Counter[str] = Counter()
        self._open: _DeliveryBatch | None = None
        """The batch that is stored next."""
        self._storing = asyncio.Lock()
        self._passed_on: dict[str, int] = {}
        """When the pushes of a webhook are passed on next, or were last."""

    @contextmanager
    def place(self, webhook: GitWebhookRow) -> Iterator[None]:
        """Counts a delivery in progress. Raises TooMany if there are too many."""
        with counted(self._in_progress, webhook, MAX_DELIVERIES, MAX_DELIVERIES_OF_WEBHOOK):
            yield

    @contextmanager
    def large_place(self, webhook: GitWebhookRow) -> Iterator[None]:
        with counted(self._large, webhook, MAX_LARGE_DELIVERIES, MAX_LARGE_DELIVERIES_OF_WEBHOOK):
            yield

    async def store(self, delivery: TakenDelivery) -> None:
        """Stores a delivery, together with all that wait. Returns once it is stored."""
        batch = self._open
        if batch is None:
            batch = self._open = _DeliveryBatch()
            batch.task = asyncio.create_task(self._store_batch(batch))
        batch.deliveries.append(delivery)
        assert batch.task is not None
        await asyncio.shield(batch.task)

    async def _store_batch(self, batch: _DeliveryBatch) -> None:
        async with self._storing:
            self._open = None
            await self._ctx.store.write(partial(self._write, deliveries=batch.deliveries))

    async def _write(self, tx: Tx, deliveries: Sequence[TakenDelivery]) -> None:
        fresh = [
            delivery
            for delivery in deliveries
            if delivery.result in _COUNTED_RESULTS
            or not await tx.git_pushes.is_repeated(delivery.webhook.id, delivery.head.id)
        ]
        await tx.git_pushes.add([replace(row, arrived=tx.now) for row in _merged(fresh)])
        for webhook in {delivery.webhook for delivery in fresh if delivery.result in _PASSED_ON}:
            due = self._due(webhook.id, tx.now)
            await tx.work.schedule(PUSH_WORK, work_of(webhook.id), due, webhook.org)
        for webhook in {one.webhook for one in fresh if one.result is PushResult.COMMENT}:
            await tx.work.schedule(COMMENT_WORK, comment_work_of(webhook.id), tx.now, webhook.org)
        providers = {
            delivery.webhook.id: delivery.head.provider
            for delivery in fresh
            if delivery.result in _PASSED_ON | {PushResult.PING}
            and delivery.head.provider != delivery.webhook.provider
        }
        for id, provider in providers.items():
            await tx.git_webhooks.set_provider(id, provider)

    def _due(self, webhook: str, now: int) -> int:
        due = max(now, self._passed_on.get(webhook, 0) + CHECK_INTERVAL)
        if due > now:
            return due
        if len(self._passed_on) >= _MAX_REMEMBERED_WEBHOOKS:
            self._passed_on = {id: at for id, at in self._passed_on.items() if at + CHECK_INTERVAL > now}
        self._passed_on[webhook] = now
        return now


def result_of(kind: EventKind, pushes: Sequence[PushedBranch]) -> PushResult:
    """Returns the first result of a signed delivery."""
    match kind:
        case EventKind.PUSH:
            return PushResult.RECEIVED if pushes else PushResult.NO_BRANCH
        case EventKind.TAG:
            return PushResult.NO_BRANCH
        case EventKind.PULL_REQUEST:
            return PushResult.PULL_REQUEST
        case EventKind.COMMENT:
            return PushResult.OTHER_EVENT
        case EventKind.PING:
            return PushResult.PING
        case EventKind.OTHER:
            return PushResult.OTHER_EVENT


def _merged(deliveries: Sequence[TakenDelivery]) -> list[GitPushRow]:
    """Returns the rows of deliveries: one for each webhook, branch and result, with the newest commit."""
    rows: dict[tuple[str, str, str], GitPushRow] = {}
    for delivery in deliveries:
        row = delivery.row
        key = (row.webhook, row.branch, row.result)
        before = rows.pop(key, None)
        rows[key] = replace(row, times=before.times + 1) if before else row
    return [*rows.values()]


@contextmanager
def counted(
    counter: Counter[str], webhook: GitWebhookRow | RegistryWebhookRow, limit: int, most_of_one: int
) -> Iterator[None]:
    """Counts a delivery. `counter[_ALL]` is the total, since each one counts for several keys."""
    free = limit - counter[_ALL]
    if free <= counter[webhook.org] or counter[webhook.id] >= most_of_one:
        raise TooMany(
            "Send it again in a few seconds: too many deliveries are in progress", {"retry-after": "5"}
        )
    keys = (_ALL, webhook.org, webhook.id)
    counter.update(keys)
    try:
        yield
    finally:
        counter.subtract(keys)
        for key in keys:
            if not counter[key]:
                del counter[key]
