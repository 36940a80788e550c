"""The commit of this code. Imports nothing of Windlass, because the build of a package uses it, too.

A package contains the commit in a file. Of a checkout, the folder `.git` is read, without the program git;
changes that are not committed are not seen.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

FILE: Final = "commit.txt"
"""The file of a package that names its commit, in the folder `windlass/base`."""
UNKNOWN: Final = "unknown"
_PACKAGE: Final = Path(__file__).parent
_HASH: Final = re.compile(r"[0-9a-f]{40,64}")
_SHOWN: Final = 12


@cache
def commit() -> str:
    """Returns the first digits of the commit, or `unknown`. Read once, when it is first asked for."""
    return (_text(_PACKAGE / FILE) or commit_of(_PACKAGE.parents[4]))[:_SHOWN] or UNKNOWN


def commit_of(checkout: Path) -> str:
    """Returns the commit of a checkout; empty if the folder is not a checkout, or stores its branches in
    another way."""
    git = checkout / ".git"
    if link := _text(git).removeprefix("gitdir:").strip():  # a further working tree, or a submodule
        git = checkout / link
    common = git / (_text(git / "commondir") or ".")
    head = _text(git / "HEAD")
    if head.startswith("ref:"):
        branch = head.removeprefix("ref:").strip()
        head = _text(git / branch) or _text(common / branch) or _packed_commit(common, branch)
    return head if _HASH.fullmatch(head) else ""


def _packed_commit(git: Path, branch: str) -> str:
    """Returns the commit of a branch that git has packed with others."""
    for line in _text(git / "packed-refs").splitlines():
        commit, _, name = line.partition(" ")
        if name == branch:
            return commit
    return ""


def _text(file: Path) -> str:
    """Returns the content of a file; empty if there is none that can be read."""
    try:
        return file.read_text().strip()
    except (OSError, ValueError):
        return ""
