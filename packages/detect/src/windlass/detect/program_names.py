"""Chooses among several programs of one repository by their names: the server comes before its tools."""

from __future__ import annotations

import re
from typing import Final

_SERVERS: Final = ("server", "web", "api", "http", "app", "site", "service", "main")
_WORDS: Final = re.compile(r"[-_.]")


def server_rank(name: str, own: str = "") -> int:
    """Returns a lower number the likelier a program of this name serves; `own` is the name of the whole."""
    words = _WORDS.split(name.lower())
    for rank, usual in enumerate(_SERVERS):
        if usual in words or words[-1].endswith("server"):
            return rank
    return len(_SERVERS) + (name != own)
