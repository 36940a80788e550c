"""The deployed commit of a service, as shown in fields of its repository."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UnsetType

from windlass.core.declare.document import Document
from windlass.core.declare.shapes import GitRepository, GitRepositoryRequest
from windlass.core.deploy.progress import CommitRecord

_PREFIX: Final = "deployed_commit"


def commit_fields(commit: CommitRecord) -> Document:
    """Returns the repository fields that show the deployed commit."""
    return {
        f"{_PREFIX}_id": commit.git_commit_id,
        f"{_PREFIX}_date": commit.created_at,
        f"{_PREFIX}_contributor": commit.author_name,
        f"{_PREFIX}_tag": commit.tag,
    }


def with_deployed_commit(
    new_repository: GitRepositoryRequest, shown: GitRepository | UnsetType | None
) -> Document:
    """Returns the document of a changed repository. It keeps the deployed commit if the address has not
    changed."""
    document: Document = msgspec.to_builtins(new_repository)
    if shown and shown.url == new_repository.url:
        stored = msgspec.to_builtins(shown)
        document |= {name: value for name, value in stored.items() if name.startswith(_PREFIX)}
    return document
