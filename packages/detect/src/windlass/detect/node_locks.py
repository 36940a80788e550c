"""Lock files of Node: the package manager and version of each."""

from __future__ import annotations

import re
from typing import Final

from windlass.base.lazy import lazy_pattern

LOCK_FILES: Final = (
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("bun.lock", "bun"),
    ("bun.lockb", "bun"),
    ("package-lock.json", "npm"),
    ("npm-shrinkwrap.json", "npm"),
)
"""Lock files and their package managers. The first existing file decides."""
MAX_LOCK_BYTES: Final = 4096
"""Maximum bytes of a lock file that are read. The format version is at the beginning, and the rest may be
large."""
NEWEST_PNPM: Final = "10"
_PNPM_LOCK_PATTERN: Final = lazy_pattern(r"^lockfileVersion:[ \t]*+['\"]?(\d++)", re.MULTILINE)
_PNPM_BY_FORM: Final = {"5": "7", "6": "8", "9": NEWEST_PNPM}
_BERRY_LOCK_PATTERN: Final = lazy_pattern(r"^__metadata:\s*+version:[ \t]*+['\"]?(\d++)", re.MULTILINE)
"""Matches lock files of Yarn 2 and later."""


def version_by_lock(lock: str, beginning: str) -> str:
    """Returns the major version of the package manager that wrote the lock file; empty if any version can
    read it."""
    if lock == "pnpm-lock.yaml":
        form = _PNPM_LOCK_PATTERN.search(beginning)
        return _PNPM_BY_FORM.get(form[1], "") if form else ""
    if lock == "yarn.lock":
        form = _BERRY_LOCK_PATTERN.search(beginning)
        if form is None:
            return "1"
        return "4" if int(form[1][:4]) >= 8 else "3"
    return ""
