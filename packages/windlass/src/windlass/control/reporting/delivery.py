"""Sends deliveries to the receivers of webhooks. Each webhook has one sender, and the deliveries of a service
are sent in order.

If a receiver rejects a delivery, it is retried later, and the other deliveries of that service wait. If a
receiver rejects all deliveries, they are sent one at a time, and the receiver is probed twice a minute. As
soon as it responds, all waiting deliveries are sent. A delivery whose result was not stored before the server
was killed is sent again with the same id.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence

from msgspec.structs import replace

from windlass.base.clock import HOUR, SECOND
from windlass.base.http_out import HttpResult
from windlass.base.signing import signature
from windlass.base.trace import TRACE_HEADER, stored_trace
from windlass.control.context.call import encode
from windlass.control.context.context import Context
from windlass.control.records.outbox import payload_of
from windlass.control.reporting.delivery_results import DeliveryResults, about
from windlass.control.reporting.webhooks import (
    SECRET,
    StoredAttempt,
    address_of,
    keys_of,
    mark_of,
)
from windlass.control.request.hidden_fields import decrypt_hidden
from windlass.core.declare.document import redact
from windlass.core.words.webhook_payload import Subscription, render
from windlass.families.webhook import webhook
from windlass.store import Claim, DeliveryRow, Tx

PROBE_INTERVAL = 30 * SECOND
MAX_CONCURRENT_SERVICES = 16
"""The number of services of one webhook whose deliveries are sent concurrently."""
MAX_DELIVERIES_OF_SERVICE, MAX_DELIVERIES = 50, 1000
"""The largest numbers of deliveries that are read at once: of one service, and in total."""
TURN = 60.0
"""Seconds after which a webhook with further deliveries gives its place to those of other organizations."""
RECEIVER_TIMEOUT = 15.0
"""The timeout of a receiver in seconds."""
MAX_WAIT, _DIGITS = HOUR, 9
"""The longest wait that a receiver may request, and the number of digits of the request that are parsed."""
MAX_STORED_BODY_LENGTH = 4096
"""The number of characters of a response that are stored."""
_RETRIED_STATUSES = {408, 425, 429, 500, 502, 503, 504}


async def deliver(ctx: Context, claim: Claim) -> None:
    id = claim.id.partition(":")[2]
    await WebhookSender(ctx, claim, id).work()
    await ctx.store.write(lambda tx: _schedule_next(tx, claim, id))


async def _schedule_next(tx: Tx, claim: Claim, id: str) -> None:
    """Schedules the next delivery, or an earlier probe of a failing receiver."""
    row = await tx.resources.find(webhook.name, id)
    if row is None:
        await tx.receivers.delete_of(id)
    due = await tx.deliveries.next(id) if row and row.read(Subscription).enabled else None
    if due is None:
        await tx.work.done(claim)
        return
    if (await tx.receivers.get(id)).failing:
        due = min(due, tx.now + about(PROBE_INTERVAL))
    await tx.work.reschedule(claim, due)


class WebhookSender:
    def __init__(self, ctx: Context, claim: Claim, webhook: str) -> None:
        self._ctx = ctx
        self._claim = claim
        self._webhook = webhook
        self._results = DeliveryResults(ctx, claim, webhook)
        self._subscription: Subscription
        """The subscription at the last check; see `_is_wanted`."""
        self._url = ""
        """The unredacted address. The document contains only the part that all callers may see."""
        self._fixed: dict[str, str] = {}
        """The headers of every delivery."""
        self._keys: list[bytes] = []
        self._until = time.monotonic() + TURN

    @property
    def _is_over(self) -> bool:
        return self._results.over or time.monotonic() >= self._until

    async def work(self) -> None:
        """Sends deliveries until none is due, the receiver fails, or its turn is over."""
        self._results.receiver = await self._ctx.store.reads.receivers.get(self._webhook)
        if self._results.receiver.failing and await self._is_wanted():
            await self._check_receiver()
        while not self._is_over and await self._is_wanted():
            due = await self._due()
            if not due:
                return
            await self._send_all(due)

    async def _is_wanted(self) -> bool:
        """Reads the current webhook, so that changes take effect between deliveries. Returns whether it is
        enabled."""
        row = await self._ctx.store.reads.resources.find(webhook.name, self._webhook)
        if row is None:
            return False
        subscription = self._subscription = row.read(Subscription)
        self._url = address_of(self._ctx, row)
        self._results.address = mark_of(self._ctx, row, self._url)
        self._fixed = {"Content-Type": "application/json"}
        self._keys = []
        if subscription.kind != "SLACK":
            hidden = decrypt_hidden(self._ctx, row)
            self._keys = keys_of(hidden, self._ctx.clock.now())
            if subscription.send_secret and SECRET in hidden:
                self._fixed["Qovery-Signature"] = hidden[SECRET]
        return subscription.enabled

    async def _due(self) -> list[DeliveryRow]:
        most_each, most = (
            (1, 1) if self._results.receiver.failing else (MAX_DELIVERIES_OF_SERVICE, MAX_DELIVERIES)
        )
        reads, now = self._ctx.store.reads, self._ctx.clock.now()
        return await reads.deliveries.due(self._webhook, now, most_each, most)

    async def _send_all(self, due_deliveries: Sequence[DeliveryRow]) -> None:
        lanes: defaultdict[str, list[DeliveryRow]] = defaultdict(list)
        for delivery in due_deliveries:
            lanes[delivery.lane].append(delivery)
        room = asyncio.Semaphore(MAX_CONCURRENT_SERVICES)
        try:
            async with asyncio.TaskGroup() as group:
                for lane in lanes.values():
                    group.create_task(self._send_lane(lane, room))
        finally:
            await self._results.finish_writing()

    async def _send_lane(self, lane: Sequence[DeliveryRow], slots: asyncio.Semaphore) -> None:
        async with slots:
            for delivery in lane:
                if self._is_over or not await self._send(delivery):
                    return

    async def _send(self, delivery: DeliveryRow) -> bool:
        """Sends a delivery. Returns whether the next delivery of the same service may follow."""
        now = self._ctx.clock.now()
        body = encode(render(self._subscription, payload_of(delivery), self._ctx.settings.url))
        attempt = StoredAttempt(now, redact(self._url), self._subscription.kind, 0)
        headers = self._headers(delivery, now, body)
        began = time.monotonic()
        try:
            answer = await self._ctx.out.send("POST", self._url, body, headers, seconds=RECEIVER_TIMEOUT)
        except OSError as error:
            attempt = replace(attempt, error=str(error), duration_in_ms=_since(began))
            return self._results.note(delivery, attempt)
        beginning = answer.body[:MAX_STORED_BODY_LENGTH].decode(errors="replace")
        attempt = replace(attempt, status_code=answer.status, body=beginning, duration_in_ms=_since(began))
        return self._results.note(delivery, attempt, _requested_wait(answer))

    def _headers(self, delivery: DeliveryRow, now: int, body: bytes) -> dict[str, str]:
        if self._subscription.kind == "SLACK":
            return self._fixed
        trace = stored_trace(delivery.trace)
        traced = {TRACE_HEADER: trace.header()} if trace else {}
        seconds = now // SECOND
        headers = {**self._fixed, **traced, "webhook-id": delivery.id, "webhook-timestamp": str(seconds)}
        if self._keys:
            headers["webhook-signature"] = signature(self._keys, delivery.id, seconds, body)
        return headers

    async def _check_receiver(self) -> None:
        """Probes a failing receiver, and updates its state if its reachability has changed. A receiver that
        was reachable all the time may still reject deliveries, so its usual waits apply."""
        here = await self._is_reachable()
        receiver = self._results.receiver
        if here == bool(receiver.silent):
            await self._results.correct(replace(receiver, silent=int(not here)), hurry=here)

    async def _is_reachable(self) -> bool:
        try:
            answer = await self._ctx.out.send("HEAD", self._url, seconds=RECEIVER_TIMEOUT)
        except OSError:
            return False
        return answer.status not in _RETRIED_STATUSES


def _requested_wait(answer: HttpResult) -> int | None:
    text = answer.headers.get("retry-after", "").strip()
    if not (text.isdecimal() and text.isascii()):
        return None
    seconds = int(text.lstrip("0")[:_DIGITS] or 1)
    return min(seconds * SECOND, MAX_WAIT)


def _since(started_at: float) -> int:
    return round((time.monotonic() - started_at) * SECOND)
