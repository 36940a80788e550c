"""Chooses between a repository's programs by their names. Servers come before tools."""

from __future__ import annotations

import re
from typing import Final

_SERVER_WORDS: Final = ("server", "web", "api", "http", "rest", "app", "site", "service", "main")
_WORDS_PATTERN: Final = re.compile(r"[-_.]")


def server_rank(name: str, project_name: str = "") -> int:
    """Returns a rank for a program's name: the lower, the more likely it is a server. `project_name`: the
    project's name."""
    words = _WORDS_PATTERN.split(name.lower())
    for rank, usual in enumerate(_SERVER_WORDS):
        if usual in words or words[-1].endswith("server"):
            return rank
    return len(_SERVER_WORDS) + (name != project_name)


def is_server(name: str) -> bool:
    """Returns whether a program's name says that it is a server."""
    return server_rank(name) < len(_SERVER_WORDS)
