"""Addresses and secrets of the webhooks of git servers."""

from __future__ import annotations

import re
import secrets
from typing import Final

from windlass.control.context.context import Context
from windlass.store import Tx
from windlass.store.tables.git_webhooks import GitWebhookRow
from windlass.store.tables.sealed import GIT_WEBHOOK

WEBHOOK_PATH: Final = "/git-webhook/"
"""The path of the addresses that git servers send to."""
PUSH_WORK: Final = "git push"
"""The kind of work that passes pushes on to services."""
COMMENT_WORK: Final = "comment commands"
"""The kind of work that reads comments with commands, and carries them out."""
_ID_PATTERN: Final = re.compile(r"[0-9a-f]{32}\Z")


def is_webhook_id(text: str) -> bool:
    return _ID_PATTERN.match(text) is not None


def address_of(ctx: Context, webhook: GitWebhookRow) -> str:
    return f"{ctx.settings.url}{WEBHOOK_PATH}{webhook.id}"


def secret_of(ctx: Context, webhook: GitWebhookRow) -> str:
    owner = GIT_WEBHOOK.owner(org=webhook.org, id=webhook.id)
    return ctx.encryption.decrypt(webhook.sealed, *owner).decode()


def work_of(webhook: str) -> str:
    return f"{PUSH_WORK}:{webhook}"


def webhook_of_work(work: str) -> str:
    return work.removeprefix(f"{PUSH_WORK}:")


def comment_work_of(webhook: str) -> str:
    return f"{COMMENT_WORK}:{webhook}"


def webhook_of_comment_work(work: str) -> str:
    return work.removeprefix(f"{COMMENT_WORK}:")


async def add_webhook(ctx: Context, tx: Tx, org: str, repository: str) -> GitWebhookRow:
    """Creates the webhook of a repository, with a new secret."""
    id = secrets.token_hex(16)
    webhook = GitWebhookRow(id, org, repository, "", tx.now, _new_secret(ctx, org, id)[1])
    await tx.git_webhooks.add(webhook)
    return webhook


async def renew_secret(ctx: Context, tx: Tx, webhook: GitWebhookRow) -> str:
    """Replaces the secret of a webhook. Returns the new one."""
    secret, sealed = _new_secret(ctx, webhook.org, webhook.id)
    await tx.git_webhooks.set_secret(webhook.id, sealed)
    return secret


def _new_secret(ctx: Context, org: str, id: str) -> tuple[str, bytes]:
    secret = secrets.token_urlsafe(32)
    return secret, ctx.encryption.encrypt(secret.encode(), *GIT_WEBHOOK.owner(org=org, id=id))
