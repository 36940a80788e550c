"""Packages for development that an application of Node needs to run, such as tsx in `tsx src/index.ts`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

_END: Final = re.compile(r"[\s=&|;()'\"]+")
_PACKAGE: Final = re.compile(r"(?:@[\w.-]++/)?[\w.-]++")


def needs_development(commands: Iterable[str], development: Collection[str]) -> bool:
    """True if one of these commands names a package for development."""
    if not development:
        return False
    words = (word for command in commands for word in _END.split(command))
    names = (match[0] for word in words if (match := _PACKAGE.match(word)))
    return any(name in development for name in names)
