"""A commit and its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from windlass.sources.git.messages import printable

# For `git log -z`; `commits` parses its output.
FACTS: Final = ("%H", "%ct", "%an", "%ae", "%B")
FORMAT: Final = "%x00".join(FACTS)

MESSAGE: Final = 10_000
LAST_MOMENT: Final = 253_402_300_799  # the end of the year 9999


class GitCommit(Struct, frozen=True):
    id: str
    message: str
    author_name: str
    author_email: str
    created_at: int
    tag: str = ""


def commits(answer: str, tags: Mapping[str, str]) -> list[GitCommit]:
    fields = iter(answer.split("\0"))
    # The same iterator for each fact of a commit.
    return [_commit(facts, tags) for facts in zip(*[fields] * len(FACTS), strict=False)]


def tag_names(answer: str) -> dict[str, str]:
    """Returns tags by commit from `git ls-remote --tags`, which lists an annotated tag again with its
    commit."""
    tags: dict[str, str] = {}
    for line in answer.splitlines():
        commit, _, ref = line.partition("\t")
        tags.setdefault(commit, printable(ref.removeprefix("refs/tags/").removesuffix("^{}")))
    return tags


def _commit(facts: tuple[str, ...], tags: Mapping[str, str]) -> GitCommit:
    name, moment, author, email, message = facts
    return GitCommit(
        id=name,
        message="".join(sign for sign in message[:MESSAGE] if sign.isprintable() or sign in "\n\t").strip(),
        author_name=printable(author),
        author_email=printable(email),
        created_at=min(max(int(moment or 0), 0), LAST_MOMENT) * 1000,
        tag=tags.get(name, ""),
    )
