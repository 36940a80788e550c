"""Locks of Node, with the package manager and version of each; packages that are needed to run."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

_END: Final = re.compile(r"[\s=&|;()'\"]+")
_PACKAGE: Final = re.compile(r"(?:@[\w.-]++/)?[\w.-]++")


def needs_development(commands: Iterable[str], development: Collection[str]) -> bool:
    """Returns whether one of these commands names a package for development."""
    if not development:
        return False
    words = (word for command in commands for word in _END.split(command))
    names = (match[0] for word in words if (match := _PACKAGE.match(word)))
    return any(name in development for name in names)


LOCKS: Final = (
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("bun.lock", "bun"),
    ("bun.lockb", "bun"),
    ("package-lock.json", "npm"),
    ("npm-shrinkwrap.json", "npm"),
)
"""Files with their manager; the first existing file counts."""
BEGINNING: Final = 4096
"""Bytes of a lock that are read: its form stands there, and the rest may be large."""
NEWEST_PNPM: Final = "10"
_PNPM: Final = re.compile(r"^lockfileVersion:[ \t]*+['\"]?(\d++)", re.MULTILINE)
_PNPM_BY_FORM: Final = {"5": "7", "6": "8", "9": NEWEST_PNPM}
_BERRY: Final = re.compile(r"^__metadata:\s*+version:[ \t]*+['\"]?(\d++)", re.MULTILINE)
"""Matches lock files of Yarn 2 and later."""


def version_by_lock(lock: str, beginning: str) -> str:
    """Returns the major version that follows the lock with this name; empty if any does."""
    if lock == "pnpm-lock.yaml":
        form = _PNPM.search(beginning)
        return _PNPM_BY_FORM.get(form[1], "") if form else ""
    if lock == "yarn.lock":
        form = _BERRY.search(beginning)
        if form is None:
            return "1"
        return "4" if int(form[1][:4]) >= 8 else "3"
    return ""
