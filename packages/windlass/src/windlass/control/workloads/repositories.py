"""Repositories of services and their git tokens. A token is sent only to its own host."""

from __future__ import annotations

from typing import Final

from windlass.base.http_out import AddressRefused
from windlass.base.http_out.url import parse_url as api_place
from windlass.control.context.context import Context
from windlass.control.request.hidden_fields import decrypt_hidden
from windlass.core.declare.shapes import GitRepositoryRequest
from windlass.families.git_token import GitTokenShown, git_token
from windlass.sources.git import GitError, GitSource
from windlass.sources.git.source import place as repository_place
from windlass.store import Reads, Row

_API: Final = "api."
"""Prefix of API host names: GitHub and Bitbucket serve their API at `api.` followed by the host name."""


async def source_of(ctx: Context, source: Reads, service: Row, commit: str | None) -> GitSource:
    """Returns the repository of a service, with its git token."""
    repository = ctx.kinds[service.family].repository(service)
    return await source_at(ctx, source, service.org, repository, commit)


async def source_at(
    ctx: Context, source: Reads, org: str, repository: GitRepositoryRequest | None, commit: str | None
) -> GitSource:
    if repository is None:
        raise GitError("Choose a service that is built from a repository: this one has none.")
    token = None
    if id := repository.git_token_id:
        row = await source.resources.find(git_token.name, id)
        if row is None or row.org != org:
            raise GitError("git_repository.git_token_id: this git token is gone. Choose another.")
        # Checked again, because the address may have been stored before such checks existed.
        if why := why_not_sent(row, repository.url):
            raise GitError(f"git_repository.git_token_id: {why}.")
        token = decrypt_hidden(ctx, row)["token"]
    return GitSource(repository.url, repository.branch or None, commit, repository.root_path or "/", token)


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
