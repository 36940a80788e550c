"""Commands in comments of pull requests, such as `/windlass preview`. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

COMMAND_PREFIX: Final = "/windlass"


class CommentCommand(StrEnum):
    PREVIEW = "preview"
    """Makes a preview, or deploys the newest commit in it again."""
    STOP = "stop"
    DELETE = "delete"


def command_in(text: str) -> CommentCommand | None:
    """Returns the command in the first line of a comment; None if it has none."""
    first, *_ = text.strip().splitlines() or [""]
    words = first.split()
    if len(words) != 2 or words[0] != COMMAND_PREFIX or words[1] not in {*CommentCommand}:
        return None
    return CommentCommand(words[1])
