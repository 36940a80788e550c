"""Stores the results of deliveries: the health of the receiver, and the time of the next attempt."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

from msgspec.structs import replace

from windlass.base.cleanup import on_failure
from windlass.base.clock import DAY, HOUR, MINUTE, SECOND, may_expire, stamp
from windlass.control.context.call import encode
from windlass.control.context.context import Context
from windlass.control.records.recording import record
from windlass.control.reporting.webhooks import DELIVERED, FAILED, StoredAttempt, attempts_of, reencrypt
from windlass.control.request.hidden_fields import decrypt_hidden
from windlass.core.access import SYSTEM
from windlass.core.declare.stored import rewritten
from windlass.core.words.events import Event
from windlass.core.words.webhook_payload import Subscription
from windlass.families.webhook import WebhookShown, webhook
from windlass.store import Claim, DeliveryRow, Receiver, Tx

RETRY_PAUSES = (5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR)
"""The pauses after the first failure, the second failure, and so on. The last pause is used for all later
failures."""
RECEIVER_TIMEOUT = 5 * DAY
LOST_AFTER = 3
"""The number of consecutive failures, of any service, after which a receiver counts as failing."""
MAX_STORED_ATTEMPTS = 20
"""The number of attempts that are stored for a delivery."""
COLLECT_SECONDS = 0.02
"""Seconds for which results are collected before the next batch is written."""
_RANDOM = random.SystemRandom()
_GONE_STATUS = 410


class DeliveryResults:
    """Results of deliveries, stored in the background while the next deliveries are sent."""

    def __init__(self, ctx: Context, claim: Claim, webhook: str) -> None:
        self._ctx = ctx
        self._claim = claim
        self._webhook = webhook
        self.receiver = Receiver()
        self.address = ""
        """The digest of the present address; see `webhooks.mark_of`."""
        self.over = False
        """Indicates whether sending has to stop."""
        self._why_disabled = ""
        self._changed: list[DeliveryRow] = []
        self._held: list[tuple[str, int]] = []
        self._recovered = False
        self._writing: asyncio.Task[None] | None = None
        self._at_once = asyncio.Event()

    def note(self, delivery: DeliveryRow, attempt: StoredAttempt, wanted_wait: int | None = None) -> bool:
        """Records an attempt. Returns whether the next delivery of the same service may follow."""
        if 200 <= attempt.status_code < 300:
            self._record_success()
            self._ctx.meters.deliveries.count("delivered")
            self._record_attempt(replace(delivery, state=DELIVERED), attempt)
            return True
        self._record_failure(attempt)
        now = self._ctx.clock.now()
        if not self.receiver.failing and self._is_timeout_over(delivery.created):
            self._ctx.meters.deliveries.count("given_up")
            self._record_attempt(replace(delivery, state=FAILED), attempt)
            return True
        self._ctx.meters.deliveries.count("repeated")
        wait = wanted_wait or about(RETRY_PAUSES[min(delivery.attempts, len(RETRY_PAUSES) - 1)])
        self._held.append((delivery.lane, now + wait))
        self._record_attempt(replace(delivery, due=now + wait), attempt)
        return False

    def _is_timeout_over(self, since: int) -> bool:
        """Returns whether a receiver has failed for too long. A clock that has stepped far ahead does not
        tell."""
        return self._ctx.clock.now() - since >= RECEIVER_TIMEOUT and may_expire(self._ctx.clock)

    def _record_success(self) -> None:
        self._recovered |= bool(self.receiver.failing)
        self.receiver = Receiver()

    def _record_failure(self, attempt: StoredAttempt) -> None:
        before, now, silent = self.receiver, self._ctx.clock.now(), attempt.status_code == 0
        fails = before.fails + 1
        lost = before.failing or silent or fails >= LOST_AFTER
        self.receiver = Receiver(
            failing=(before.failing or now) if lost else 0,
            fails=fails,
            silent=before.silent if before.failing else int(silent),
        )
        self.over = self.over or bool(lost)
        if attempt.status_code == _GONE_STATUS:
            self._why_disabled = "The receiver answered 410 Gone: it wants no more deliveries"
        elif lost and self._is_timeout_over(self.receiver.failing):
            days = RECEIVER_TIMEOUT // DAY
            self._why_disabled = f"The receiver has taken nothing for {days} days: {_reason_text(attempt)}"
        self.over = self.over or bool(self._why_disabled)

    def _record_attempt(self, delivery: DeliveryRow, attempt: StoredAttempt) -> None:
        story = [*attempts_of(delivery.story), attempt][-MAX_STORED_ATTEMPTS:]
        sent = replace(delivery, attempts=delivery.attempts + 1, story=encode(story), address=self.address)
        self._changed.append(sent)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())

    async def finish_writing(self) -> None:
        self._at_once.set()
        if self._writing:
            await self._writing
        self._at_once.clear()

    async def correct(self, receiver: Receiver, *, hurry: bool) -> None:
        self.receiver, self._recovered = receiver, hurry
        await self._write()

    async def _write(self) -> None:
        """Stores all results in batches. If that fails, waiting callers get the error, and the deliveries are
        sent again."""
        with on_failure(self._stop):
            await self._write_batch()
            while self._changed:
                await self._write_batch()
            self._writing = None

    def _stop(self) -> None:
        self.over = True

    async def _write_batch(self) -> None:
        """Stores the collected results, then waits for more."""
        changed, self._changed = self._changed, []
        held, self._held = self._held, []
        recovered, self._recovered = self._recovered, False
        receiver, why_disabled = self.receiver, self._why_disabled

        async def change(tx: Tx) -> bool:
            if not await tx.work.held(self._claim):
                return False
            await tx.deliveries.change(changed)
            for lane, due in held:
                await tx.deliveries.postpone(self._webhook, lane, due)
            if recovered:
                await tx.deliveries.hurry(self._webhook)
            await self._mark(tx, receiver, why_disabled)
            return True

        if not await self._ctx.store.write(change):
            self._stop()  # Another replica has the claim.
        with suppress(TimeoutError):
            async with asyncio.timeout(COLLECT_SECONDS):
                await self._at_once.wait()

    async def _mark(self, tx: Tx, receiver: Receiver, why_disabled: str) -> None:
        """Updates the receiver's state and the webhook's fields about it."""
        if receiver == await tx.receivers.get(self._webhook) and not why_disabled:
            return
        await tx.receivers.set(self._webhook, receiver)
        row = await tx.resources.find(webhook.name, self._webhook)
        if row is None:
            return
        since = stamp(receiver.failing) if receiver.failing else None
        if why_disabled and row.read(Subscription).enabled:
            changes = {
                "failing_since": since,
                "enabled": False,
                "disabled_reason": why_disabled,
                "updated_at": stamp(tx.now),
            }
            new = reencrypt(self._ctx, row, rewritten(row.body, changes), decrypt_hidden(self._ctx, row))
            await tx.resources.change(new)
            await record(
                self._ctx, tx, Event.WEBHOOK_DISABLED, new, SYSTEM, None, old_body=row.body, new_body=new.body
            )
        elif row.read(WebhookShown).failing_since != since:
            await tx.resources.rewrite(row.id, rewritten(row.body, {"failing_since": since}))


def _reason_text(attempt: StoredAttempt) -> str:
    return f"it answers {attempt.status_code}" if attempt.status_code else attempt.error


def about(wait: int) -> int:
    """Adds jitter, so that retries are spread over time."""
    return round(wait * _RANDOM.uniform(0.8, 1.2))
