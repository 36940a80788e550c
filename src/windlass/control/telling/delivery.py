"""Couriers bring what is on its way to receivers: one for each webhook, in order for each service.

A receiver that does not take something gets it again later, and meanwhile nothing else of that service. One
that takes nothing at all is sent one thing at a time, and is looked for twice a minute: as soon as it is
back, everything that waits is sent. What a courier did not write down before it was killed is sent once
more, with the same id.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress

from msgspec.structs import replace

from windlass.base.clock import DAY, HOUR, MINUTE, SECOND, stamp
from windlass.base.http_out import HttpResult
from windlass.base.signing import signature
from windlass.control.request.context import Context, encode
from windlass.control.request.hidden import decrypt_hidden
from windlass.control.request.outbox import payload_of
from windlass.control.request.recording import record
from windlass.control.telling.webhooks import (
    DELIVERED,
    FAILED,
    SECRET,
    StoredAttempt,
    address_of,
    attempts_of,
    keys_of,
    mark_of,
    reencrypted,
)
from windlass.core.access import SYSTEM
from windlass.core.declare.document import veil
from windlass.core.declare.stored import rewritten
from windlass.core.words.events import Event
from windlass.core.words.webhook_payload import Subscription, rendered
from windlass.families.webhook import WebhookShown, webhook
from windlass.store import Claim, DeliveryRow, Receiver, Tx

WAITS = (5 * SECOND, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR)
"""After the first failure, the second, and so on; the last one for all that follow."""
GIVEN_UP_AFTER = 5 * DAY
LOOKED_FOR_EVERY = 30 * SECOND
LOST_AFTER = 3
"""Failures in a row, of whatever service, after which a receiver is taken for one that takes nothing."""
SIDE_BY_SIDE = 16
"""Services of one webhook that are told at the same time."""
EACH, MOST = 50, 1000
"""Deliveries of a service, and in all, that are read at once."""
TRIED, REMEMBERED = 15.0, 20
"""Seconds that a receiver may take; attempts that are kept of a delivery."""
TOGETHER = 0.02
"""Seconds in which results come together to be written down at once, while others are still on their way."""
LONGEST_WAIT, _DIGITS = HOUR, 9
"""The longest wait that a receiver may ask for, and the most digits that are read of it."""
SHOWN = 4096
"""Characters kept of an answer."""
_CHANCE = random.SystemRandom()
_GONE = 410
_AWAY = {408, 425, 429, 500, 502, 503, 504}


async def deliver(ctx: Context, claim: Claim) -> None:
    id = claim.id.partition(":")[2]
    await WebhookSender(ctx, claim, id).work()
    await ctx.store.write(lambda tx: _come_back(tx, claim, id))


async def _come_back(tx: Tx, claim: Claim, id: str) -> None:
    """Schedules the next delivery, and before it a check of the receiver."""
    row = await tx.resources.find(webhook.name, id)
    if row is None:
        await tx.receivers.forget(id)
    due = await tx.deliveries.next(id) if row and row.read(Subscription).enabled else None
    if due is None:
        await tx.work.done(claim)
        return
    if (await tx.receivers.get(id)).failing:
        due = min(due, tx.now + _about(LOOKED_FOR_EVERY))
    await tx.work.again(claim, due)


class WebhookSender:
    def __init__(self, ctx: Context, claim: Claim, webhook: str) -> None:
        self._ctx = ctx
        self._claim = claim
        self._webhook = webhook
        self._book = DeliveryResults(ctx, claim, webhook)
        self._subscription: Subscription
        """As of the last look; see `_is_wanted`."""
        self._url = ""
        """The whole address; the document holds the part that all callers may see."""
        self._fixed: dict[str, str] = {}
        """Headers that every delivery has."""
        self._keys: list[bytes] = []

    async def work(self) -> None:
        """Sends until nothing is due, or every delivery fails."""
        self._book.receiver = await self._ctx.store.reads.receivers.get(self._webhook)
        if self._book.receiver.failing and await self._is_wanted():
            await self._look()
        while not self._book.over and await self._is_wanted():
            due = await self._due()
            if not due:
                return
            await self._send_all(due)

    async def _is_wanted(self) -> bool:
        """Reads the present webhook, so that a change takes effect before all due deliveries are sent."""
        row = await self._ctx.store.reads.resources.find(webhook.name, self._webhook)
        if row is None:
            return False
        subscription = self._subscription = row.read(Subscription)
        self._url = address_of(self._ctx, row)
        self._book.address = mark_of(self._ctx, row, self._url)
        self._fixed = {"Content-Type": "application/json"}
        self._keys = []
        if subscription.kind != "SLACK":
            hidden = decrypt_hidden(self._ctx, row)
            self._keys = keys_of(hidden, self._ctx.clock.now())
            if subscription.send_secret and SECRET in hidden:
                self._fixed["Qovery-Signature"] = hidden[SECRET]
        return subscription.enabled

    async def _due(self) -> list[DeliveryRow]:
        each, most = (1, 1) if self._book.receiver.failing else (EACH, MOST)
        reads, now = self._ctx.store.reads, self._ctx.clock.now()
        return await reads.deliveries.due(self._webhook, now, each, most)

    async def _send_all(self, due: Sequence[DeliveryRow]) -> None:
        lanes: defaultdict[str, list[DeliveryRow]] = defaultdict(list)
        for delivery in due:
            lanes[delivery.lane].append(delivery)
        room = asyncio.Semaphore(SIDE_BY_SIDE)
        try:
            async with asyncio.TaskGroup() as group:
                for lane in lanes.values():
                    group.create_task(self._send_lane(lane, room))
        finally:
            await self._book.written()

    async def _send_lane(self, lane: Sequence[DeliveryRow], room: asyncio.Semaphore) -> None:
        async with room:
            for delivery in lane:
                if self._book.over or not await self._send(delivery):
                    return

    async def _send(self, delivery: DeliveryRow) -> bool:
        """Returns whether the next delivery of this lane may follow."""
        now = self._ctx.clock.now()
        body = encode(rendered(self._subscription, payload_of(delivery), self._ctx.settings.url))
        attempt = StoredAttempt(now, veil(self._url), self._subscription.kind, 0)
        headers = self._headers(delivery, now, body)
        began = time.monotonic()
        try:
            answer = await self._ctx.out.send("POST", self._url, body, headers, seconds=TRIED)
        except OSError as error:
            attempt = replace(attempt, error=str(error), duration_in_ms=_since(began))
            return self._book.note(delivery, attempt)
        said = answer.body[:SHOWN].decode(errors="replace")
        attempt = replace(attempt, status_code=answer.status, body=said, duration_in_ms=_since(began))
        return self._book.note(delivery, attempt, _asked_to_wait(answer))

    def _headers(self, delivery: DeliveryRow, now: int, body: bytes) -> dict[str, str]:
        if self._subscription.kind == "SLACK":
            return self._fixed
        seconds = now // SECOND
        headers = {**self._fixed, "webhook-id": delivery.id, "webhook-timestamp": str(seconds)}
        if self._keys:
            headers["webhook-signature"] = signature(self._keys, delivery.id, seconds, body)
        return headers

    async def _look(self) -> None:
        """Asks a receiver that took nothing whether it is there. If it always was, that says nothing of
        whether it takes something now: the usual waits are kept to."""
        here = await self._is_here()
        receiver = self._book.receiver
        if here == bool(receiver.silent):
            await self._book.correct(replace(receiver, silent=int(not here)), hurry=here)

    async def _is_here(self) -> bool:
        try:
            answer = await self._ctx.out.send("HEAD", self._url, seconds=TRIED)
        except OSError:
            return False
        return answer.status not in _AWAY


class DeliveryResults:
    """Results of deliveries, stored in the background while the next ones are sent."""

    def __init__(self, ctx: Context, claim: Claim, webhook: str) -> None:
        self._ctx = ctx
        self._claim = claim
        self._webhook = webhook
        self.receiver = Receiver()
        self.address = ""
        """The mark of where deliveries are sent now."""
        self.over = False
        """True once no more deliveries may be sent."""
        self._why_disabled = ""
        self._changed: list[DeliveryRow] = []
        self._held: list[tuple[str, int]] = []
        self._recovered = False
        self._writing: asyncio.Task[None] | None = None
        self._at_once = asyncio.Event()

    def note(self, delivery: DeliveryRow, attempt: StoredAttempt, wanted_wait: int | None = None) -> bool:
        """Returns whether the next delivery of this lane may follow."""
        if 200 <= attempt.status_code < 300:
            self._well()
            self._put(replace(delivery, state=DELIVERED), attempt)
            return True
        self._badly(attempt)
        now = self._ctx.clock.now()
        if not self.receiver.failing and now - delivery.created >= GIVEN_UP_AFTER:
            self._put(replace(delivery, state=FAILED), attempt)
            return True
        wait = wanted_wait or _about(WAITS[min(delivery.attempts, len(WAITS) - 1)])
        self._held.append((delivery.lane, now + wait))
        self._put(replace(delivery, due=now + wait), attempt)
        return False

    def _well(self) -> None:
        self._recovered |= bool(self.receiver.failing)
        self.receiver = Receiver()

    def _badly(self, attempt: StoredAttempt) -> None:
        before, now, silent = self.receiver, self._ctx.clock.now(), attempt.status_code == 0
        fails = before.fails + 1
        lost = before.failing or silent or fails >= LOST_AFTER
        self.receiver = Receiver(
            failing=(before.failing or now) if lost else 0,
            fails=fails,
            silent=before.silent if before.failing else int(silent),
        )
        self.over = self.over or bool(lost)
        if attempt.status_code == _GONE:
            self._why_disabled = "The receiver answered 410 Gone: it wants no more"
        elif lost and now - self.receiver.failing >= GIVEN_UP_AFTER:
            days = GIVEN_UP_AFTER // DAY
            self._why_disabled = f"The receiver has taken nothing for {days} days: {_why(attempt)}"
        self.over = self.over or bool(self._why_disabled)

    def _put(self, delivery: DeliveryRow, attempt: StoredAttempt) -> None:
        story = [*attempts_of(delivery.story), attempt][-REMEMBERED:]
        sent = replace(delivery, attempts=delivery.attempts + 1, story=encode(story), address=self.address)
        self._changed.append(sent)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())

    async def written(self) -> None:
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
        try:
            while True:
                changed, self._changed = self._changed, []
                held, self._held = self._held, []
                recovered, self._recovered = self._recovered, False
                receiver, why = self.receiver, self._why_disabled

                async def change(
                    tx: Tx,
                    changed: Sequence[DeliveryRow] = changed,
                    held: Sequence[tuple[str, int]] = held,
                    recovered: bool = recovered,
                    receiver: Receiver = receiver,
                    why: str = why,
                ) -> bool:
                    if not await tx.work.held(self._claim):
                        return False
                    await tx.deliveries.change(changed)
                    for lane, due in held:
                        await tx.deliveries.hold(self._webhook, lane, due)
                    if recovered:
                        await tx.deliveries.hurry(self._webhook)
                    await self._mark(tx, receiver, why)
                    return True

                if not await self._ctx.store.write(change):
                    self.over = True  # Another replica goes on with it.
                with suppress(TimeoutError):
                    async with asyncio.timeout(TOGETHER):
                        await self._at_once.wait()
                if not self._changed:
                    self._writing = None
                    return
        except BaseException:
            self.over = True
            raise

    async def _mark(self, tx: Tx, receiver: Receiver, why_disabled: str) -> None:
        """Updates the webhook's fields about its receiver."""
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
            new = reencrypted(self._ctx, row, rewritten(row.body, changes), decrypt_hidden(self._ctx, row))
            await tx.resources.change(new)
            await record(
                self._ctx, tx, Event.WEBHOOK_DISABLED, new, SYSTEM, None, before=row.body, after=new.body
            )
        elif row.read(WebhookShown).failing_since != since:
            await tx.resources.rewrite(row.id, rewritten(row.body, {"failing_since": since}))


def _asked_to_wait(answer: HttpResult) -> int | None:
    text = answer.headers.get("retry-after", "").strip()
    if not (text.isdecimal() and text.isascii()):
        return None
    seconds = int(text.lstrip("0")[:_DIGITS] or 1)
    return min(seconds * SECOND, LONGEST_WAIT)


def _why(attempt: StoredAttempt) -> str:
    return f"it answers {attempt.status_code}" if attempt.status_code else attempt.error


def _since(began: float) -> int:
    return round((time.monotonic() - began) * SECOND)


def _about(wait: int) -> int:
    """Adds jitter, so that deliveries do not all come at once."""
    return round(wait * _CHANCE.uniform(0.8, 1.2))
