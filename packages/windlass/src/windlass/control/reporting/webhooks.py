"""Handlers for webhooks: secrets, addresses, deliveries, tests, and manual replays.

`outbox` stores deliveries, and `delivery` sends them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from windlass.base import ids, signing
from windlass.base.clock import DAY, HOUR, stamp
from windlass.base.errors import Conflict, Missing
from windlass.base.segments import moment
from windlass.control.context.call import Call, Reply, encode, reads, results, writes
from windlass.control.context.context import Context
from windlass.control.records.outbox import DELIVERY_WORK, add_deliveries, named_id, payload_of, work_of
from windlass.control.records.recording import record
from windlass.control.request.behaviour import Behaviour, Change, Draft, behaves
from windlass.control.request.changing import check_tag
from windlass.control.request.hidden_fields import decrypt_hidden, encrypt_hidden, whole_addresses
from windlass.control.request.paths import target
from windlass.control.request.reading import paging
from windlass.core.declare.document import Document
from windlass.core.declare.stored import rewritten
from windlass.core.words.events import Event
from windlass.core.words.webhook_payload import NamedId, Subscription, WebhookPayload, render
from windlass.families.organization import organization
from windlass.families.webhook import Replay, Rotation, Webhook, check_sendable, webhook
from windlass.store import DeliveryRow, Receiver, Row, Tx

SECRET, PREVIOUS, PREVIOUS_UNTIL = "target_secret", "previous_secret", "previous_until"
TEST_LANE: Final = "test"
"""The lane of test deliveries. Each lane is sent in order and independently of other lanes; every service has
its own lane."""
DELIVERY_RETENTION = 14 * DAY
_AT_ONCE: Final = 1000
MAX_WEBHOOKS: Final = 50
"""The largest number of webhooks of one organization."""

WAITING, DELIVERED, FAILED = "WAITING", "DELIVERED", "FAILED"


class StoredAttempt(Struct, frozen=True):
    """A delivery attempt as the API shows it. `kind` and `target_url` are those of the webhook at that
    time."""

    at: int
    target_url: str
    kind: str
    status_code: int
    body: str = ""
    error: str = ""
    duration_in_ms: int = 0


attempts_of = msgspec.json.Decoder(list[StoredAttempt]).decode


@behaves(webhook)
class Webhooks(Behaviour[Webhook]):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft[Webhook]) -> None:
        if await tx.lists.length(draft.org, webhook.name) >= MAX_WEBHOOKS:
            raise Conflict(
                f"Delete a webhook first: an organization has at most {MAX_WEBHOOKS}, and each change of an "
                "environment is reported to all of them"
            )

    async def updating(self, ctx: Context, tx: Tx, change: Change[Webhook]) -> None:
        """Resets the failure state of a webhook that is enabled again or has a new address, so that it is
        tried at once. Waiting deliveries are sent to the new address, except tests, which fail."""
        row, spec = change.row, change.spec
        moved = spec.target_url != change.before.target_url
        if moved:
            await tx.deliveries.fail(row.id, TEST_LANE)
        if spec.enabled and (moved or not change.before.enabled):
            change.extras |= {"failing_since": None, "disabled_reason": ""}
            await tx.receivers.set(row.id, Receiver())
            await tx.deliveries.hurry(row.id)
        await tx.work.schedule(DELIVERY_WORK, work_of(row.id), org=row.org)

    async def deleting(self, ctx: Context, tx: Tx, row: Row) -> None:
        await tx.deliveries.delete_of(row.id)
        await tx.receivers.delete_of(row.id)


@reads("webhook.event")
async def deliveries(ctx: Context, call: Call) -> Reply:
    row = await target(ctx.store.reads, call)
    page, size = paging(call)
    rows, total = await ctx.store.reads.deliveries.page(row.id, (page - 1) * size, size)
    subscription = row.read(Subscription)
    return Reply(
        results([encode(_shown_webhook(ctx, call, subscription, row)) for row in rows], page, size, total)
    )


@writes("webhook.test")
async def test(ctx: Context, tx: Tx, call: Call) -> Reply:
    row = await target(tx, call)
    subscription = row.read(Subscription)
    if not subscription.enabled:
        raise Conflict("This webhook is disabled: set `enabled` to true first")
    news = await _example(ctx, tx, row, subscription.events[0])
    (id,) = await add_deliveries(tx, [row], TEST_LANE, news, call.trace)
    delivery = await tx.deliveries.get(row.id, id)
    assert delivery is not None
    await record(ctx, tx, Event.WEBHOOK_TESTED, row, call.actor, call)
    return Reply(encode(_shown_webhook(ctx, call, subscription, delivery)))


async def _example(ctx: Context, tx: Tx, row: Row, kind: str) -> WebhookPayload:
    org = await tx.resources.find(organization.name, row.org)
    assert org is not None
    failed = kind == Event.DEPLOYMENT_FAILED
    return WebhookPayload(
        kind=kind,
        at=stamp(tx.now),
        family=ctx.registry.services[0].name,
        service=NamedId(ids.new_id(), "example"),
        environment=NamedId(ids.new_id(), "production"),
        mode="PRODUCTION",
        project=NamedId(ids.new_id(), "example"),
        organization=named_id(org),
        deployment=ids.new_id(),
        number=1,
        action="DEPLOY",
        status="FAILED" if failed else "SUCCEEDED",
        message="This only tests the webhook: nothing was deployed",
        test=True,
    )


@writes("webhook.replay")
async def replay(ctx: Context, tx: Tx, call: Call) -> Reply:
    row = await target(tx, call)
    asked = call.sent(Replay)
    if not row.read(Subscription).enabled:
        raise Conflict("This webhook is disabled: set `enabled` to true first")
    address = mark_of(ctx, row, address_of(ctx, row))
    if asked.event_id:
        await _replay_one(tx, row, asked.event_id, address)
        count = 1
    else:
        since = moment(asked.since) if asked.since else 0
        count = await tx.deliveries.repeat(row.id, since, address, only_failed=asked.only_failed)
    await tx.work.schedule(DELIVERY_WORK, work_of(row.id), org=row.org)
    await record(ctx, tx, Event.WEBHOOK_REPLAYED, row, call.actor, call)
    return Reply(encode({"replayed": count}))


async def _replay_one(tx: Tx, row: Row, id: str, address: str) -> None:
    delivery = await tx.deliveries.get(row.id, id)
    if delivery is None:
        raise Missing("List the deliveries of this webhook to find the id: no delivery has this id")
    if delivery.state != WAITING and delivery.address != address:
        raise Conflict(
            "event_id: choose a delivery to the present address: this one was sent to another, which the "
            "webhook had before, and is sent to no other one"
        )
    await tx.deliveries.repeat_one(row.id, id)


@writes("webhook.rotateSecret")
async def rotate(ctx: Context, tx: Tx, call: Call) -> Reply:
    """Replaces the secret of a webhook. Both secrets sign deliveries until the previous one expires."""
    row = await target(tx, call)
    check_tag(call, row)
    asked = call.sent(Rotation)
    secret = asked.target_secret or signing.new_secret()
    if row.read(Subscription).send_secret:
        check_sendable(secret)
    hidden = decrypt_hidden(ctx, row)
    until = tx.now + asked.overlap_in_hours * HOUR
    if old := hidden.get(SECRET):
        hidden |= {PREVIOUS: old, PREVIOUS_UNTIL: str(until)}
    body = rewritten(row.body, {"target_secret_set": True, "updated_at": stamp(tx.now)})
    new = reencrypt(ctx, row, body, hidden | {SECRET: secret})
    await tx.resources.change(new)
    await record(ctx, tx, Event.UPDATED, new, call.actor, call, old_body=row.body, new_body=new.body)
    return Reply(
        encode(
            {
                "target_secret": "" if asked.target_secret else secret,
                "previous_valid_until": stamp(until) if old else None,
            }
        )
    )


def address_of(ctx: Context, row: Row) -> str:
    """Returns the unredacted address of a webhook."""
    return str(whole_addresses(ctx, row)["target_url"])


def mark_of(ctx: Context, row: Row, address: str) -> str:
    """Returns a digest that identifies an address of a webhook, so that addresses can be compared without
    being stored in plain text."""
    return ctx.encryption.mark(b"address", row.id.encode(), address.encode())


def reencrypt(ctx: Context, row: Row, body: bytes, hidden_values: Mapping[str, str]) -> Row:
    tag = ids.new_tag()
    return replace(row, tag=tag, body=body, sealed=encrypt_hidden(ctx, row.org, row.id, tag, hidden_values))


def keys_of(hidden_values: Mapping[str, str], now: int) -> list[bytes]:
    """Returns the keys that sign deliveries: the newest one, and during a rotation the previous one, too."""
    secrets = [hidden_values.get(SECRET)]
    if now < int(hidden_values.get(PREVIOUS_UNTIL, 0)):
        secrets.append(hidden_values[PREVIOUS])
    return [signing.key_of(secret) for secret in secrets if secret]


def _shown_webhook(ctx: Context, call: Call, subscription: Subscription, row: DeliveryRow) -> Document:
    story = attempts_of(row.story)
    last = story[-1] if story else StoredAttempt(0, subscription.target_url, subscription.kind, 0)
    as_sent = replace(subscription, kind=last.kind)
    return {
        "id": row.id,
        "created_at": stamp(row.created),
        "kind": last.kind,
        "matched_event": call.dialect.event(row.kind),
        "status": row.state,
        "target_url_used": last.target_url,
        "request": render(as_sent, payload_of(row), ctx.settings.url),
        "target_response_status_code": last.status_code,
        "target_response_body": last.body or last.error,
        "next_attempt_at": stamp(row.due) if row.state == WAITING else None,
        "attempts": [
            {
                "at": stamp(attempt.at),
                "target_url": attempt.target_url,
                "status_code": attempt.status_code,
                "body": attempt.body,
                "error": attempt.error,
                "duration_in_ms": attempt.duration_in_ms,
            }
            for attempt in story
        ],
    }
