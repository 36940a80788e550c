"""Git tokens: each belongs to one host, and is sent to no other."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from windlass.base.errors import Invalid
from windlass.base.http_out import AddressRefused
from windlass.base.http_out.url import place as api_place
from windlass.builders.git import GitError, GitSource
from windlass.builders.git.source import place as repository_place
from windlass.control.request.behaviour import Behaviour, Draft, behaves
from windlass.control.request.context import Context
from windlass.control.request.hidden import decrypt_hidden
from windlass.core.declare.document import Document
from windlass.families.git_token import git_token
from windlass.store.store import Reads, Row, Tx

_API: Final = "api."
"""GitHub and Bitbucket serve the API of example.com at api.example.com."""


@behaves(git_token)
class GitTokens(Behaviour):
    async def creating(self, ctx: Context, tx: Tx, draft: Draft) -> None:
        _check_api(draft.spec.git_api_url)

    async def updating(
        self, ctx: Context, tx: Tx, row: Row, before: Document, spec: Any, extras: Document
    ) -> None:
        _check_api(spec.git_api_url)

    def refuses(self, document: Document, address: str) -> str:
        return why_not_sent(document, address)


async def source_of(ctx: Context, source: Reads, service: Row, commit: str | None) -> GitSource:
    """The repository of a service, with the token that opens it."""
    return await source_at(
        ctx, source, service.org, msgspec.json.decode(service.body)["git_repository"], commit
    )


async def source_at(
    ctx: Context, source: Reads, org: str, repository: Document, commit: str | None
) -> GitSource:
    token = None
    if id := repository.get("git_token_id"):
        row = await source.find(git_token.name, id)
        if row is None or row.org != org:
            raise GitError("git_repository.git_token_id: this git token is no more. Choose another.")
        # Judged again: the address may have been stored before addresses were judged.
        if why := why_not_sent(msgspec.json.decode(row.body), repository["url"]):
            raise GitError(f"git_repository.git_token_id: {why}.")
        token = decrypt_hidden(ctx, row)["token"]
    return GitSource(
        repository["url"], repository.get("branch"), commit, repository.get("root_path") or "/", token
    )


def why_not_sent(token: Document, url: str) -> str:
    """Why a git token is not sent to a repository, or an empty text."""
    try:
        repository = repository_place(url)
        api = api_place(token["git_api_url"])
    except GitError as error:
        return f"the git token is sent to no address like this one. {error}".rstrip(".")
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


def _check_api(address: str) -> None:
    try:
        api_place(address)
    except AddressRefused as error:
        raise Invalid(f"git_api_url: {error}") from error
