"""A commit and its metadata, as parsed from the output of git."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from windlass.sources.git.messages import printable

# Format of `git log -z`, which `commits` parses.
LOG_FIELDS: Final = ("%H", "%ct", "%an", "%ae", "%B")
LOG_FORMAT: Final = "%x00".join(LOG_FIELDS)

MAX_MESSAGE_LENGTH: Final = 10_000
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
    # `zip` takes consecutive fields from one iterator, one for each fact of a commit.
    return [_commit(facts, tags) for facts in zip(*[fields] * len(LOG_FIELDS), strict=False)]


def tag_names(answer: str) -> dict[str, str]:
    """Returns the tag names by commit from the output of `git ls-remote --tags`.

    For an annotated tag, git prints a second line with the tagged commit.
    """
    tags: dict[str, str] = {}
    for line in answer.split("\n"):
        commit, _, ref = line.partition("\t")
        tags.setdefault(commit, printable(ref.removeprefix("refs/tags/").removesuffix("^{}")))
    return tags


def _commit(facts: tuple[str, ...], tags: Mapping[str, str]) -> GitCommit:
    name, moment, author, email, message = facts
    return GitCommit(
        id=name,
        message="".join(
            sign for sign in message[:MAX_MESSAGE_LENGTH] if sign.isprintable() or sign in "\n\t"
        ).strip(),
        author_name=printable(author),
        author_email=printable(email),
        created_at=min(max(int(moment or 0), 0), LAST_MOMENT) * 1000,
        tag=tags.get(name, ""),
    )
