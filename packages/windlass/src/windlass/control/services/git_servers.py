"""Repositories and branches that git tokens see, and the webhooks at git servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from windlass.base.errors import Conflict, Failure, Invalid, Missing, TooMany, Unavailable, Unprocessable
from windlass.control.context.call import Call, Reply, encode, prepares, reads, results, writes
from windlass.control.context.context import Context
from windlass.control.records.git_webhooks import WEBHOOK_PATH, address_of, secret_of
from windlass.control.records.recording import emit_asked
from windlass.control.request.paths import target
from windlass.control.request.permissions import is_visible
from windlass.control.services.deployment_rules import gives_previews
from windlass.control.services.git_webhooks import (
    find_or_add_webhook,
    require_all_services,
    require_repository,
)
from windlass.control.workloads.repositories import api_access, is_at_host_of, why_not_sent
from windlass.core.declare.document import Document
from windlass.core.declare.shapes import GitRepositoryRequest, repository_parts
from windlass.core.words.events import Event
from windlass.families.environment import environment
from windlass.families.git_server import BranchesQuery, RepositoriesQuery
from windlass.families.git_token import GitToken, git_token
from windlass.sources.git_servers.client import GitServerClient
from windlass.sources.git_servers.failures import GitServerFailure, GitServerProblem
from windlass.sources.git_servers.forms import InstalledWebhook, ServerRepository
from windlass.sources.git_servers.repositories import repository_key, repository_path
from windlass.store import Reads, Row, Tx
from windlass.store.tables.git_webhooks import GitWebhookRow

T = TypeVar("T")
_KINDS: Final = {"github": "GITHUB", "gitlab": "GITLAB", "bitbucket": "BITBUCKET"}
_STATUS: Final = "git_webhook"
"""The prepared value with the answer of a synchronization."""


_PUSH, _PULL_REQUEST, _COMMENT = "push", "pull_request", "issue_comment"
_EFFECTS: Final = {
    _PUSH: "it sends no pushes, so that they are found only once a minute",
    _PULL_REQUEST: "it sends no pull requests, so that previews follow them only once a minute",
    _COMMENT: "it sends no comments, so that commands in comments of pull requests have no effect",
}
"""What the lack of each event means."""
_BY_HAND: Final = (
    "Choose a git token that may manage webhooks of the repository, or enter the webhook by hand: "
    "`windlass service renew-git-webhook` shows address and secret"
)


# Repositories and branches


@reads(*(f"organization.{kind}Repositories" for kind in _KINDS))
async def list_repositories(ctx: Context, call: Call) -> Reply:
    token = await _chosen_token(ctx, call, call.asked(RepositoriesQuery).gitTokenId or "")
    if token is None:
        return Reply(results([]))
    found = await _ask(ctx, token, lambda client: client.repositories())
    return Reply(results([encode(_shown_repository(one)) for one in found]))


@reads(*(f"organization.{kind}Branches" for kind in _KINDS))
async def list_branches(ctx: Context, call: Call) -> Reply:
    query = call.asked(BranchesQuery)
    token = await _chosen_token(ctx, call, query.gitTokenId or "")
    if token is None or not query.name:
        return Reply(results([]))
    names = await _ask(ctx, token, lambda client: client.branches(query.name))
    return Reply(results([encode({"name": name}) for name in names]))


@reads("organization.gitAuthProviders")
async def list_providers(ctx: Context, call: Call) -> Reply:
    tokens = await _visible_tokens(ctx.store.reads, call)
    return Reply(results([encode(_shown_provider(row)) for row in tokens]))


_OPERATIONS_OF_PEOPLE: Final = [
    f"list{name}{what}" for name in ("Github", "Gitlab", "Bitbucket") for what in ("Repositories", "Branches")
]


@reads("listGitAuthProviders", *_OPERATIONS_OF_PEOPLE)
async def list_nothing(ctx: Context, call: Call) -> Reply:
    """Returns the empty list: people link no accounts of git servers."""
    return Reply(results([]))


async def _visible_tokens(reads: Reads, call: Call) -> list[Row]:
    organization = await target(reads, call)
    rows = await reads.resources.of_org(organization.id, git_token.name)
    return [row for row in rows if await is_visible(reads, call.actor, row)]


async def _chosen_token(ctx: Context, call: Call, id: str) -> Row | None:
    """Returns the git token of a request; None if it names none."""
    kind = _KINDS[call.operation.path.split("/account/")[1].split("/")[0]]
    tokens = await _visible_tokens(ctx.store.reads, call)
    if not id:
        return None
    row = next((row for row in tokens if row.id == id), None)
    if row is None:
        raise Missing("gitTokenId: no git token here has this id: list them to find it")
    if row.read(GitToken).type != kind:
        raise Invalid(f"gitTokenId: must be a git token of type {kind}")
    return row


def _shown_provider(row: Row) -> Document:
    spec = row.read(GitToken)
    return {"id": row.id, "name": spec.type, "owner": spec.workspace or spec.name, "use_bot": False}


def _shown_repository(repository: ServerRepository) -> Document:
    shown: Document = {"id": repository.id, "name": repository.name, "url": repository.url}
    if repository.default_branch:
        shown["default_branch"] = repository.default_branch
    if repository.is_private is not None:
        shown["is_private"] = repository.is_private
    return shown


# The APIs of git servers


async def _ask(ctx: Context, token: Row, query: Callable[[GitServerClient], Awaitable[T]]) -> T:
    try:
        with ctx.git_servers.client(ctx.out, token.org, api_access(ctx, token)) as client:
            return await query(client)
    except GitServerFailure as failure:
        raise _answer_of(failure) from failure


def _answer_of(failure: GitServerFailure) -> Failure:
    if failure.problem is GitServerProblem.RATE_LIMIT:
        return Unavailable(str(failure), {"retry-after": str(failure.retry_after)})
    return Conflict(str(failure))


# The webhook of a service


@reads("service.gitWebhookStatus")
async def read_status(ctx: Context, call: Call) -> Reply:
    source = ctx.store.reads
    service = await target(source, call)
    repository = _repository_of(ctx, service)
    webhook = await source.git_webhooks.of_repository(service.org, require_repository(ctx, service))
    return Reply(encode(await _status_of(ctx, service, repository, webhook)))


@prepares("service.gitWebhookSync")
async def sync_webhook(ctx: Context, call: Call) -> None:
    """Sets up or repairs the webhook at the git server, before the transaction that records it."""
    service = await target(ctx.store.reads, call)
    repository, key = _repository_of(ctx, service), require_repository(ctx, service)
    await require_all_services(ctx, ctx.store.reads, call, key)
    token = await token_of(ctx.store.reads, service, repository)
    webhook = await ctx.store.write(lambda tx: find_or_add_webhook(ctx, tx, service, key))
    if token is None:
        status = await _status_of(ctx, service, repository, webhook)
        call.prepared[_STATUS] = {**status, "message": _BY_HAND}
        return
    try:
        with ctx.git_servers.client(ctx.out, service.org, api_access(ctx, token)) as client:
            path = repository_path(repository.url)
            former = _find_ours(await client.webhooks(path), webhook)
            await client.install_webhook(path, address_of(ctx, webhook), secret_of(ctx, webhook), former)
            installed = await client.webhooks(path)
    except GitServerFailure as failure:
        call.prepared[_STATUS] = _sync_failure(failure, repository)
    else:
        missing = await _missing_events(ctx, service, _find_ours(installed, webhook))
        call.prepared[_STATUS] = _compared(ctx, repository, webhook, installed, missing)


@writes("service.gitWebhookSync")
async def record_sync(ctx: Context, tx: Tx, call: Call) -> Reply:
    service = await target(tx, call)
    data = {"repository": require_repository(ctx, service)}
    await emit_asked(ctx, tx, Event.GIT_WEBHOOK_RENEWED, service, call, data)
    return Reply(encode(call.prepared[_STATUS]))


def _sync_failure(failure: GitServerFailure, repository: GitRepositoryRequest) -> Document:
    """Returns the status if the git server did not answer. Raises if it has refused the webhook."""
    match failure.problem:
        case GitServerProblem.RATE_LIMIT:
            raise TooMany(str(failure), {"retry-after": str(failure.retry_after)}) from failure
        case GitServerProblem.ADDRESS | GitServerProblem.UNREACHABLE | GitServerProblem.NOT_A_SERVER:
            return {**_status("UNABLE_TO_VERIFY", repository), "message": str(failure)}
        case _:
            raise Unprocessable(str(failure)) from failure


def _repository_of(ctx: Context, service: Row) -> GitRepositoryRequest:
    require_repository(ctx, service)
    repository = ctx.kinds[service.family].repository(service)
    assert repository is not None
    return repository


async def token_of(reads: Reads, service: Row, repository: GitRepositoryRequest) -> Row | None:
    """Returns the git token of a service, if it may be sent to the host of the repository."""
    if not (id := repository.git_token_id):
        return None
    row = await reads.resources.find(git_token.name, id)
    if row is None or row.org != service.org or why_not_sent(row, repository.url):
        return None
    # A token is not sent to an address of ssh, but its API would get the secret of the webhook.
    return row if is_at_host_of(row, repository_key(repository.url)) else None


async def _status_of(
    ctx: Context, service: Row, repository: GitRepositoryRequest, webhook: GitWebhookRow | None
) -> Document:
    if webhook is None:
        return _status("NOT_CONFIGURED", repository)
    token = await token_of(ctx.store.reads, service, repository)
    try:
        if token is not None:
            with ctx.git_servers.client(ctx.out, service.org, api_access(ctx, token)) as client:
                installed = await client.webhooks(repository_path(repository.url))
            missing = await _missing_events(ctx, service, _find_ours(installed, webhook))
            return _compared(ctx, repository, webhook, installed, missing)
    except GitServerFailure:
        pass  # the git server may still have the webhook, which its deliveries show
    return _status("ACTIVE" if webhook.provider else "UNABLE_TO_VERIFY", repository)


async def _missing_events(ctx: Context, service: Row, own_webhook: InstalledWebhook | None) -> list[str]:
    """Returns the events that our webhook does not send. Pull requests and comments matter only to
    previews."""
    if own_webhook is None:
        return []
    base = await ctx.store.reads.resources.find(environment.name, service.parent)
    wants_pulls = base is not None and gives_previews(base)
    missing = [] if own_webhook.has_pushes else [_PUSH]
    if wants_pulls and not own_webhook.has_pull_requests:
        missing.append(_PULL_REQUEST)
    if wants_pulls and not own_webhook.has_comments:
        missing.append(_COMMENT)
    return missing


def _compared(
    ctx: Context,
    repository: GitRepositoryRequest,
    webhook: GitWebhookRow,
    installed_webhooks: list[InstalledWebhook],
    missing: list[str],
) -> Document:
    """Returns the status of our webhook among those at the git server."""
    ours = _find_ours(installed_webhooks, webhook)
    if ours is None:
        return _status("NOT_CONFIGURED", repository)
    shown = _status("ACTIVE", repository)
    if missing:
        shown["missing_events"] = missing
        shown["message"] = _explain_missing(missing)
    if missing or not ours.is_active or ours.url != address_of(ctx, webhook):
        shown["status"] = "MISCONFIGURED"
    return shown


def _explain_missing(missing: list[str]) -> str:
    effects = "; ".join(_EFFECTS[event] for event in missing)
    return f"Set the webhook up again, here or with `windlass service git-webhook-sync`: {effects}"


def _find_ours(installed_webhooks: list[InstalledWebhook], webhook: GitWebhookRow) -> InstalledWebhook | None:
    """Returns our webhook at the git server, although it may have the address of a former `public_url`."""
    return next((one for one in installed_webhooks if one.url.endswith(f"{WEBHOOK_PATH}{webhook.id}")), None)


def _status(status: str, repository: GitRepositoryRequest) -> Document:
    provider, _, _ = repository_parts(repository.url)
    return {"status": status, "provider": repository.provider or provider}
