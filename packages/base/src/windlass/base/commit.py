"""Finds the git commit of this code. Imports nothing of Windlass, because package builds use this module.

A package contains the commit in a file. In a checkout, the module reads the folder `.git` without the git
program, and ignores uncommitted changes.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

COMMIT_FILE: Final = "commit.txt"
"""The file with the commit in an installed package, in the folder `windlass/base`."""
UNKNOWN_COMMIT: Final = "unknown"
_PACKAGE: Final = Path(__file__).parent
_HASH_PATTERN: Final = re.compile(r"[0-9a-f]{40,64}")
_SHOWN_DIGITS: Final = 12


@cache
def commit() -> str:
    """Returns the first digits of the commit, or `unknown`. Reads it once and caches it."""
    return (_read_text(_PACKAGE / COMMIT_FILE) or commit_of(_PACKAGE.parents[4]))[
        :_SHOWN_DIGITS
    ] or UNKNOWN_COMMIT


def commit_of(checkout: Path) -> str:
    """Returns the commit of a checkout; empty if the folder is not a checkout, or if git stores its branches
    in another format."""
    git = checkout / ".git"
    if link := _read_text(git).removeprefix("gitdir:").strip():  # a linked working tree or a submodule
        git = checkout / link
    common = git / (_read_text(git / "commondir") or ".")
    head = _read_text(git / "HEAD")
    if head.startswith("ref:"):
        branch = head.removeprefix("ref:").strip()
        head = _read_text(git / branch) or _read_text(common / branch) or _packed_commit(common, branch)
    return head if _HASH_PATTERN.fullmatch(head) else ""


def _packed_commit(git: Path, branch: str) -> str:
    """Returns the commit of a branch from `packed-refs`."""
    for line in _read_text(git / "packed-refs").splitlines():
        commit, _, name = line.partition(" ")
        if name == branch:
            return commit
    return ""


def _read_text(file: Path) -> str:
    """Returns the content of a file; empty if the file is missing or cannot be read."""
    try:
        return file.read_text().strip()
    except (OSError, ValueError):
        return ""
