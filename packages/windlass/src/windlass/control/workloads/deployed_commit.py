"""The commit that runs, as the document of a service shows it: in fields of its repository."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UnsetType

from windlass.core.declare.document import Document
from windlass.core.declare.shapes import GitRepository, GitRepositoryRequest
from windlass.core.deploy.progress import CommitRecord

_PREFIX: Final = "deployed_commit"


def commit_fields(commit: CommitRecord) -> Document:
    """Returns the fields of a repository that show the commit that runs."""
    return {
        f"{_PREFIX}_id": commit.git_commit_id,
        f"{_PREFIX}_date": commit.created_at,
        f"{_PREFIX}_contributor": commit.author_name,
        f"{_PREFIX}_tag": commit.tag,
    }


def with_deployed_commit(new: GitRepositoryRequest, shown: GitRepository | UnsetType | None) -> Document:
    """Returns a changed repository. It shows the commit that runs, if its address is the same as before."""
    document: Document = msgspec.to_builtins(new)
    if shown and shown.url == new.url:
        stored = msgspec.to_builtins(shown)
        document |= {name: value for name, value in stored.items() if name.startswith(_PREFIX)}
    return document
