"""Repositories of services and their git tokens. A token is sent only to its own host."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from windlass.base.http_out import AddressRefused
from windlass.base.http_out.url import parse_url as api_place
from windlass.control.context.context import Context
from windlass.control.request.hidden_fields import decrypt_hidden
from windlass.core.declare.shapes import PUSHED_REPOSITORY, GitRepositoryRequest
from windlass.families.git_token import GitToken, GitTokenShown, git_token
from windlass.sources.git import GitError, GitSource
from windlass.sources.git.source import place as repository_place
from windlass.sources.git_servers.client import GitServerAccess
from windlass.sources.git_servers.failures import GitServerFailure, GitServerProblem
from windlass.sources.git_servers.github_app import AppInstallation
from windlass.store import Claim, Queue, Reads, Row, Tx

COPY_REPOSITORY: Final = "copy repository"
_MAX_COPIES: Final = 20
"""The longest chain of copied applications that is followed to a repository."""
_API: Final = "api."
"""Prefix of API host names: GitHub and Bitbucket serve their API at `api.` followed by the host name."""


async def source_of(ctx: Context, reads: Reads, service: Row, commit: str | None) -> GitSource:
    """Returns the repository of a service, with its git token."""
    return await source_in(ctx, reads, service, ctx.kinds[service.family].repository(service), commit)


async def source_in(
    ctx: Context, reads: Reads, service: Row, repository: GitRepositoryRequest | None, commit: str | None
) -> GitSource:
    """Returns a repository that a service names, with its git token, or that of the service itself."""
    if repository is not None and repository.url == PUSHED_REPOSITORY:
        return await _pushed_source(ctx, reads, service.id, repository, commit)
    return await source_at(ctx, reads, service.org, repository, commit)


async def _pushed_source(
    ctx: Context, reads: Reads, service: str, repository: GitRepositoryRequest, commit: str | None
) -> GitSource:
    """Returns the repository to which an application is pushed."""
    await provide_repository(ctx, reads, service)
    branch, root = repository.branch or None, repository.root_path or "/"
    return GitSource(push_url(ctx, service), branch, commit, root, pushed=service)


async def provide_repository(ctx: Context, reads: Reads, application: str) -> None:
    """Makes sure that the repository of an application is here, if there is one. That of a copied application
    begins as a copy of the original's. Raises GitError if another server holds it."""
    if not ctx.pushed.exists(application):
        await _copy_original(ctx, reads, application)
        await check_holder(ctx, reads, application)


async def ask_for_copy(tx: Tx, application: str, original: str, org: str) -> None:
    """Schedules the copy of the repository at once, so that it has nothing that is pushed to the original
    later."""
    await tx.facts.set(copied_fact(application), original.encode())
    work = f"{COPY_REPOSITORY}:{application}"
    await tx.work.schedule(COPY_REPOSITORY, work, org=org, queue=Queue.BRANCHES)


async def copy_repository(ctx: Context, claim: Claim) -> None:
    """Copies the repository for a copied application. If another server holds it, that one copies it at its
    first use."""
    application = claim.id.removeprefix(f"{COPY_REPOSITORY}:")
    original = await ctx.store.reads.facts.get(copied_fact(application)) or b""
    is_elsewhere = False
    try:
        await check_holder(ctx, ctx.store.reads, original.decode())
        await provide_repository(ctx, ctx.store.reads, application)
    except GitError:
        is_elsewhere = True

    async def change(tx: Tx) -> None:
        if not is_elsewhere:  # what the original has later is not copied, even if it had nothing
            await tx.facts.set(copied_fact(application), b"")
        await tx.work.done(claim)

    await ctx.store.write(change)


async def _copy_original(ctx: Context, reads: Reads, application: str) -> None:
    """Copies the repository of the application from which one was copied, or of that one's original."""
    original = application
    for _ in range(_MAX_COPIES):
        found = await reads.facts.get(copied_fact(original))
        if not found:
            return
        original = found.decode()
        if ctx.pushed.exists(original):
            await ctx.pushed.copy(original, application)
            return


def push_url(ctx: Context, application: str) -> str:
    return f"{ctx.settings.url}/git/{application}.git"


def copied_fact(application: str) -> str:
    """Returns the name of the fact with the application from which one was copied."""
    return f"repository copied to {application}"


def holder_fact(application: str) -> str:
    """Returns the name of the fact with the server that holds the repository of an application."""
    return f"repository of {application}"


async def check_holder(ctx: Context, reads: Reads, application: str) -> None:
    """Raises GitError if another server took the pushes of an application. Servers with data directories of
    their own do not share repositories."""
    holder = await reads.facts.get(holder_fact(application))
    if holder and holder.decode() != ctx.server:
        raise GitError(
            "Push and deploy at the server that took the first push: the repository of this application is "
            "in the data directory of another server. If that server is gone, choose another "
            "git_repository, and then windlass://push again"
        )


async def source_at(
    ctx: Context, reads: Reads, org: str, repository: GitRepositoryRequest | None, commit: str | None
) -> GitSource:
    if repository is None:
        raise GitError("Choose a service that is built from a repository: this one has none.")
    token = None
    if id := repository.git_token_id:
        row = await reads.resources.find(git_token.name, id)
        if row is None or row.org != org:
            raise GitError("git_repository.git_token_id: this git token is gone. Choose another.")
        # Checked again, because the address may have been stored before such checks existed.
        if why := why_not_sent(row, repository.url):
            raise GitError(f"git_repository.git_token_id: {why}.")
        token = await _git_password(ctx, row)
    return GitSource(repository.url, repository.branch or None, commit, repository.root_path or "/", token)


def git_access(ctx: Context, token: Row) -> GitServerAccess:
    """Returns the API of a git token, and its secret."""
    spec, secret = token.read(GitToken), decrypt_hidden(ctx, token)["token"]
    app = None
    if spec.github_app_id and spec.github_installation_id:
        app = AppInstallation(spec.github_app_id, spec.github_installation_id)
    return GitServerAccess(spec.type, spec.git_api_url or "", secret, spec.workspace or "", app)


def api_access(ctx: Context, token: Row) -> GitServerAccess:
    """The same, to call the API. Raises GitServerFailure if that would send the token in clear."""
    access = git_access(ctx, token)
    if urlsplit(access.api_url).scheme == "http" and not ctx.settings.outbound_allow:
        raise GitServerFailure(
            GitServerProblem.ADDRESS,
            "git_api_url: use https://: http:// shows the git token to everyone on the way",
        )
    return access


async def _git_password(ctx: Context, token: Row) -> str:
    """Returns what git sends as password. The API is called only for the token of an app."""
    access = git_access(ctx, token)
    if access.app is None:
        return access.token
    try:
        return await ctx.git_servers.git_password(ctx.out, api_access(ctx, token))
    except GitServerFailure as failure:
        raise GitError(f"git_repository.git_token_id: {failure}.") from failure


def why_not_sent(token: Row, url: str) -> str:
    """Returns the reason why a git token must not be sent to a repository; empty if it may."""
    try:
        repository = repository_place(url)
        api = api_place(token.read(GitTokenShown).git_api_url)
    except GitError as error:
        return f"the git token is not sent to such an address. {error}".rstrip(".")
    except AddressRefused as error:
        return f"git_api_url of the git token does not name a host. {error}".rstrip(".")
    if repository.scheme not in ("http", "https"):
        return ""  # ssh and files take no token
    if repository.shown in (api.shown, api.shown.removeprefix(_API)):
        return ""
    host = api.shown.removeprefix(_API)
    return (
        f"this git token is for {host}, and the repository is on {repository.shown}: choose a git token "
        f"whose git_api_url is on {repository.shown}, or none"
    )


def is_at_host_of(token: Row, repository: str) -> bool:
    """Returns whether the key of a repository names the host of a git token's API."""
    try:
        api = api_place(token.read(GitTokenShown).git_api_url)
    except AddressRefused:
        return False
    return repository.partition("/")[0] in (api.shown, api.shown.removeprefix(_API))
