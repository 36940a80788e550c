"""The authors of the newest commits in an application's branch."""

from __future__ import annotations

from windlass.control.context.call import Call, Reply, encode, reads, results
from windlass.control.context.context import Context
from windlass.control.services.services import newest_commits
from windlass.core.declare.document import Document
from windlass.sources.git import GitCommit


@reads("application.contributor")
async def list_contributors(ctx: Context, call: Call) -> Reply:
    authors: dict[str, GitCommit] = {}
    for commit in await newest_commits(ctx, call):
        authors.setdefault(_key(commit), commit)
    return Reply(results([encode(_contributor(commit)) for commit in authors.values()]))


def _key(commit: GitCommit) -> str:
    return commit.author_email.lower() or commit.author_name


def _contributor(commit: GitCommit) -> Document:
    first, _, last = commit.author_name.partition(" ")
    return {"first_name": first, "last_name": last, "email": commit.author_email}
