"""The webhook of a container registry, and the account of its pushes."""

from __future__ import annotations

from windlass.base.clock import stamp
from windlass.control.context.call import Call, Reply, encode, reads, results, writes
from windlass.control.context.context import Context
from windlass.control.records.recording import emit_asked
from windlass.control.records.registry_webhooks import address_of, renew_webhook
from windlass.control.request.paths import target
from windlass.control.request.permissions import is_visible
from windlass.control.services.git_webhooks import unreachable_address
from windlass.core.declare.document import Document
from windlass.core.words.events import Event
from windlass.core.words.image_pushes import IMAGE_PUSH_SENTENCES
from windlass.families.container_registry import container_registry
from windlass.store import Tx
from windlass.store.tables.image_pushes import MAX_KEPT_IMAGE_PUSHES, ImagePushRow
from windlass.store.tables.registry_webhooks import RegistryWebhookRow


@reads(f"{container_registry.name}.registryWebhook")
async def read_webhook(ctx: Context, call: Call) -> Reply:
    registry = await target(ctx.store.reads, call)
    return Reply(encode(_shown(ctx, await ctx.store.reads.registry_webhooks.of_registry(registry.id))))


@writes(f"{container_registry.name}.renewRegistryWebhook")
async def renew(ctx: Context, tx: Tx, call: Call) -> Reply:
    registry = await target(tx, call)
    webhook, secret = await renew_webhook(ctx, tx, registry.org, registry.id)
    await emit_asked(ctx, tx, Event.REGISTRY_WEBHOOK_RENEWED, registry, call, {})
    shown = {"secret": secret, "secret_url": f"{address_of(ctx, webhook)}/{secret}"}
    return Reply(encode(_shown(ctx, webhook) | shown))


@writes(f"{container_registry.name}.removeRegistryWebhook")
async def remove(ctx: Context, tx: Tx, call: Call) -> Reply:
    registry = await target(tx, call)
    webhook = await tx.registry_webhooks.of_registry(registry.id)
    if webhook is not None:
        await tx.registry_webhooks.remove(webhook.id)
        await tx.image_pushes.delete_of_webhook(webhook.id)
    await emit_asked(ctx, tx, Event.REGISTRY_WEBHOOK_REMOVED, registry, call, {})
    return Reply()


def _shown(ctx: Context, webhook: RegistryWebhookRow | None) -> Document:
    shown: Document = {}
    if webhook is not None:
        shown |= {"url": address_of(ctx, webhook), "created_at": stamp(webhook.created)}
    if warning := unreachable_address(ctx):
        shown["warning"] = warning
    return shown


@reads(f"{container_registry.name}.imagePush")
async def list_pushes(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    registry = await target(source, call)
    webhook = await source.registry_webhooks.of_registry(registry.id)
    rows = await source.image_pushes.of_webhook(webhook.id) if webhook else []
    shown = []
    for row in rows:
        if row.service:
            service = await source.resources.get(row.service)
            if service is None or not await is_visible(source, call.actor, service):
                continue
        shown.append(encode(_shown_push(row)))
    return Reply(results(shown[:MAX_KEPT_IMAGE_PUSHES]))


def _shown_push(row: ImagePushRow) -> Document:
    sentence = IMAGE_PUSH_SENTENCES[row.result]
    shown: Document = {
        # Rows that count deliveries of one kind have no id of their own.
        "id": row.id if ":" not in row.id else row.webhook,
        "arrived_at": stamp(row.arrived),
        "sender": row.sender,
        "image_name": row.image,
        "tag": row.tag,
        "digest": row.digest,
        "result": row.result,
        "message": f"{sentence} ({row.note})" if row.note else sentence,
        "times": row.times,
    }
    return shown | ({"service_id": row.service} if row.service else {})
