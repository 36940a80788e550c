"""Addresses and secrets of the webhooks of container registries."""

from __future__ import annotations

import re
import secrets
from typing import Final

from windlass.control.context.context import Context
from windlass.store import Tx
from windlass.store.tables.registry_webhooks import RegistryWebhookRow
from windlass.store.tables.sealed import REGISTRY_WEBHOOK

REGISTRY_WEBHOOK_PATH: Final = "/registry-webhook/"
"""The path of the addresses that registries send to."""
IMAGE_PUSH_WORK: Final = "image push"
"""The kind of work that passes pushes of images on to services."""
_ID_PATTERN: Final = re.compile(r"[0-9a-f]{32}\Z")


def is_webhook_id(text: str) -> bool:
    return _ID_PATTERN.match(text) is not None


def address_of(ctx: Context, webhook: RegistryWebhookRow) -> str:
    return f"{ctx.settings.url}{REGISTRY_WEBHOOK_PATH}{webhook.id}"


def secret_of(ctx: Context, webhook: RegistryWebhookRow) -> str:
    owner = REGISTRY_WEBHOOK.owner(org=webhook.org, id=webhook.id)
    return ctx.encryption.decrypt(webhook.sealed, *owner).decode()


def work_of(webhook: str) -> str:
    return f"{IMAGE_PUSH_WORK}:{webhook}"


def webhook_of_work(work: str) -> str:
    return work.removeprefix(f"{IMAGE_PUSH_WORK}:")


async def renew_webhook(ctx: Context, tx: Tx, org: str, registry: str) -> tuple[RegistryWebhookRow, str]:
    """Gives the webhook of a registry a new secret, and creates it if there is none. Returns it with the
    secret."""
    present = await tx.registry_webhooks.of_registry(registry)
    id, secret = present.id if present else secrets.token_hex(16), secrets.token_urlsafe(32)
    sealed = ctx.encryption.encrypt(secret.encode(), *REGISTRY_WEBHOOK.owner(org=org, id=id))
    webhook = RegistryWebhookRow(id, org, registry, present.created if present else tx.now, sealed)
    if present:
        await tx.registry_webhooks.set_secret(id, sealed)
    else:
        await tx.registry_webhooks.add(webhook)
    return webhook, secret
