"""The webhook of a service's repository, and the account of its pushes."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from windlass.base.clock import stamp
from windlass.base.errors import Conflict, Forbidden
from windlass.control.context.call import Call, Reply, encode, reads, results, writes
from windlass.control.context.context import Context
from windlass.control.records.deployments import name_of
from windlass.control.records.git_webhooks import add_webhook, address_of, renew_secret
from windlass.control.records.recording import emit_asked
from windlass.control.request.paths import target
from windlass.control.request.permissions import allows
from windlass.core.access import Scope
from windlass.core.declare.document import Document
from windlass.core.words.events import Event
from windlass.core.words.git_pushes import FOUND_BY_LOOKING, RESULT_SENTENCES, PushResult
from windlass.families.environment import environment
from windlass.sources.git import GitError
from windlass.sources.git_servers.repositories import repository_key
from windlass.store import Reads, Row, Tx
from windlass.store.tables.git_pushes import MAX_KEPT_PUSHES, GitPushRow
from windlass.store.tables.git_webhooks import GitWebhookRow

MAX_WEBHOOKS: Final = 1000
"""The number of webhooks of an organization."""
_LOCAL: Final = "localhost"


async def services_of_repository(ctx: Context, reads: Reads, org: str, repository: str) -> list[Row]:
    """Returns the services of an organization that are built from a repository."""
    return [
        row
        for family in ctx.kinds
        for row in await reads.resources.of_org(org, family)
        if key_of_service(ctx, row) == repository
    ]


def key_of_service(ctx: Context, service: Row) -> str:
    """Returns the key of a service's repository; empty without one."""
    repository = ctx.kinds[service.family].repository(service)
    if repository is None or not repository.url:
        return ""
    try:
        return repository_key(repository.url)
    except GitError:
        return ""


def require_repository(ctx: Context, service: Row) -> str:
    if key := key_of_service(ctx, service):
        return key
    raise Conflict(f"Choose a service that is built from a repository: {name_of(service)} has none")


async def may_for_all(ctx: Context, reads: Reads, call: Call, required_scope: Scope, repository: str) -> bool:
    """Returns whether the caller has a scope for all services of a repository, which share its webhook. The
    address of a repository can be written into any service, so that it gives no rights."""
    service = await target(reads, call)
    return all(
        [
            await allows(reads, call.actor, required_scope, row)
            for row in await services_of_repository(ctx, reads, service.org, repository)
        ]
    )


async def require_all_services(ctx: Context, reads: Reads, call: Call, repository: str) -> None:
    if not await may_for_all(ctx, reads, call, call.operation.need, repository):
        raise Forbidden(
            "Use a token with this right on all services that are built from the repository: they share its "
            "webhook, and this token is limited to some of them"
        )


async def find_or_add_webhook(ctx: Context, tx: Tx, service: Row, repository: str) -> GitWebhookRow:
    """Returns the webhook of a service's repository. Creates it with a new secret if there is none."""
    if found := await tx.git_webhooks.of_repository(service.org, repository):
        return found
    if await tx.git_webhooks.count(service.org) >= MAX_WEBHOOKS // 2:
        await _make_room(ctx, tx, service)
    return await add_webhook(ctx, tx, service.org, repository)


async def _make_room(ctx: Context, tx: Tx, service: Row) -> None:
    """Removes the webhooks of repositories from which no service is built any more. Raises Conflict if the
    project of the service would leave too few webhooks to the others of its organization.

    A token may be limited to a project, in which it can create any number of environments.
    """
    home = await tx.resources.get(service.parent)
    projects = await _projects_of_repositories(ctx, tx, service.org)
    kept = own = 0
    for webhook in await tx.git_webhooks.of_organization(service.org):
        if webhook.repository in projects:
            kept += 1
            own += home is not None and projects[webhook.repository] == {home.parent}
        else:
            await _forget(tx, webhook)
    if own and own + 1 > MAX_WEBHOOKS - kept:
        raise Conflict(
            f"Remove a git webhook of this project first: an organization has {MAX_WEBHOOKS} of them, and a "
            f"project as many as are left for others; this one has {own}"
        )


async def _projects_of_repositories(ctx: Context, reads: Reads, org: str) -> Mapping[str, set[str]]:
    """Returns the repositories from which services are built, with the projects of these services."""
    homes = {row.id: row.parent for row in await reads.resources.of_org(org, environment.name)}
    projects: dict[str, set[str]] = {}
    for family in ctx.kinds:
        for row in await reads.resources.of_org(org, family):
            projects.setdefault(key_of_service(ctx, row), set()).add(homes[row.parent])
    return projects


async def _forget(tx: Tx, webhook: GitWebhookRow) -> None:
    await tx.git_webhooks.delete(webhook.id)
    await tx.git_pushes.delete_of_webhook(webhook.id)


@reads("service.gitWebhook")
async def read_webhook(ctx: Context, call: Call) -> Reply:
    service = await target(ctx.store.reads, call)
    repository = require_repository(ctx, service)
    webhook = await ctx.store.reads.git_webhooks.of_repository(service.org, repository)
    return Reply(encode(_shown_webhook(ctx, repository, webhook)))


@writes("service.renewGitWebhook")
async def renew_webhook(ctx: Context, tx: Tx, call: Call) -> Reply:
    service = await target(tx, call)
    repository = require_repository(ctx, service)
    await require_all_services(ctx, tx, call, repository)
    webhook = await find_or_add_webhook(ctx, tx, service, repository)
    secret = await renew_secret(ctx, tx, webhook)
    await emit_asked(ctx, tx, Event.GIT_WEBHOOK_RENEWED, service, call, {"repository": repository})
    return Reply(encode({**_shown_webhook(ctx, repository, webhook), "secret": secret}))


@writes("service.removeGitWebhook")
async def remove_webhook(ctx: Context, tx: Tx, call: Call) -> Reply:
    service = await target(tx, call)
    repository = require_repository(ctx, service)
    await require_all_services(ctx, tx, call, repository)
    webhook = await tx.git_webhooks.of_repository(service.org, repository)
    if webhook is not None:
        await _forget(tx, webhook)
    await emit_asked(ctx, tx, Event.GIT_WEBHOOK_REMOVED, service, call, {"repository": repository})
    return Reply()


def _shown_webhook(ctx: Context, repository: str, webhook: GitWebhookRow | None) -> Document:
    shown: Document = {
        "repository": repository,
        "events": ["push", "pull_request", "issue_comment"],
        "content_type": "application/json",
    }
    if webhook is not None:
        shown |= {"url": address_of(ctx, webhook), "created_at": stamp(webhook.created)}
    if warning := unreachable_address(ctx):
        shown["warning"] = warning
    return shown


def unreachable_address(ctx: Context) -> str:
    """Returns why a git server elsewhere cannot reach this server; empty if nothing is known against it."""
    host = urlsplit(ctx.settings.url).hostname or ""
    try:
        is_local = not ip_address(host).is_global
    except ValueError:
        is_local = host == _LOCAL or host.endswith(f".{_LOCAL}")
    if not is_local:
        return ""
    return (
        f"Set public_url to the address under which the git server reaches Windlass: {ctx.settings.url} is "
        "an address of this machine or its network alone"
    )


@reads("service.gitPush")
async def list_pushes(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    service = await target(source, call)
    repository = key_of_service(ctx, service)
    webhook = await source.git_webhooks.of_repository(service.org, repository) if repository else None
    if webhook is not None and not await may_for_all(ctx, source, call, Scope.READ, repository):
        webhook = None  # deliveries that are no push of this service are for those who see all services
    rows = await source.git_pushes.of_service(service.id, webhook.id if webhook else "", MAX_KEPT_PUSHES)
    return Reply(results([encode(_shown_push(row)) for row in rows]))


def _shown_push(row: GitPushRow) -> Document:
    sentence = RESULT_SENTENCES[row.result]
    notes = [row.note] if row.note else []
    if not row.webhook:
        notes.append(FOUND_BY_LOOKING)
    return {
        # Rows that count deliveries of one kind have no id of their own.
        "id": row.id if ":" not in row.id else row.webhook,
        "arrived_at": stamp(row.arrived),
        "found_by": "WEBHOOK" if row.webhook else "LOOKING",
        "event": row.event,
        "branch": row.branch,
        "commit_id": row.commit_id,
        "result": PushResult(row.result).value,
        "message": f"{sentence} ({'; '.join(notes)})" if notes else sentence,
        "times": row.times,
    }
