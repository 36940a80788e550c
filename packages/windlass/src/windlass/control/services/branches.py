"""Chooses the branch of a repository if the request names none: the default branch, if it can be read in
time.

The repository is queried before the transaction, for at most a few seconds, so that a slow git server does
not delay other writes. If that fails, the resource is stored without a branch, and each deployment uses the
default branch of its time.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from windlass.base.errors import Invalid, Unavailable
from windlass.base.log import log
from windlass.control.context.call import Call, prepares
from windlass.control.context.context import Context
from windlass.control.context.git_reader import ReadCaller
from windlass.control.kinds.service_kind import RepositorySettings
from windlass.control.request.paths import parent_of, target
from windlass.control.request.permissions import is_visible
from windlass.control.workloads.repositories import source_at
from windlass.core.declare.document import Document, apply_patch, narrow_document, sent_in
from windlass.core.declare.resource import Verb
from windlass.core.declare.shapes import Branch, GitRepositoryRequest
from windlass.core.declare.spec import Spec
from windlass.core.declare.stored import read_decoded
from windlass.core.declare.validation import convert
from windlass.families import registry
from windlass.families.git_token import git_token
from windlass.sources.git import GitError
from windlass.store import Reads, Row

TIMEOUT: Final = 3.0
_FIELD: Final = "git_repository"
_BUILT_FAMILIES: Final = [
    family.name for family in registry().families.values() if _FIELD in family.view.__struct_fields__
]
_log = log("branches")


@prepares(
    *(f"{family}.{verb}" for family in _BUILT_FAMILIES for verb in (Verb.CREATE, Verb.UPDATE, Verb.PATCH))
)
async def choose_branch(ctx: Context, call: Call) -> None:
    sent = sent_in(call.sent(Spec)).get(_FIELD)
    if not isinstance(sent, dict):
        return
    source = ctx.store.reads
    creates = call.operation.handler.endswith(f".{Verb.CREATE}")
    at = await (parent_of(source, call) if creates else target(source, call))
    repository = _repository_after(call, at, sent)
    if repository.branch or not repository.url or not await _may_read(source, call, at, repository):
        return
    try:
        async with asyncio.timeout(TIMEOUT):
            reading = await source_at(ctx, source, at.org, repository, None)
            name = await ctx.git_reader.default_branch(ReadCaller(at.org, call.actor.subject), reading)
        getattr(call.body, _FIELD).branch = convert(name, Branch)
    except (GitError, Invalid, Unavailable, TimeoutError) as error:
        _log.info("a branch is chosen later", extra={"why": str(error) or "no answer in time"})


def _repository_after(call: Call, service: Row, request_body: Document) -> GitRepositoryRequest:
    """Returns the repository settings that result from this request."""
    if not call.operation.handler.endswith(f".{Verb.PATCH}"):
        return read_decoded(request_body, GitRepositoryRequest)
    repository = service.read(RepositorySettings).git_repository
    stored = narrow_document(msgspec.to_builtins(repository), GitRepositoryRequest) if repository else {}
    return read_decoded(
        {"url": "", **apply_patch(stored, request_body, GitRepositoryRequest)}, GitRepositoryRequest
    )


async def _may_read(reads: Reads, call: Call, service: Row, repository: GitRepositoryRequest) -> bool:
    """Returns whether the caller may use the repository's git token. If not, the write is refused later."""
    if not (id := repository.git_token_id):
        return True
    row = await reads.resources.find(git_token.name, id)
    return row is not None and row.org == service.org and await is_visible(reads, call.actor, row)
