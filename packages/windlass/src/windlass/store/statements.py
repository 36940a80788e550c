"""Every statement of the tables by its name, such as `resources.FIND`. Found by being there.

Placeholders are `$1`, `$2`, …, first used in that order: SQLite numbers named parameters by their first
appearance, so the same text takes the same arguments on both databases. A test prepares each on each.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Final

from windlass.store import tables

_LOOKING, _CHANGING = {"SELECT", "WITH"}, {"INSERT", "UPDATE", "DELETE"}


def _statements() -> Iterator[tuple[str, str]]:
    for module in pkgutil.iter_modules(tables.__path__):
        for name, value in vars(importlib.import_module(f"{tables.__name__}.{module.name}")).items():
            if name.startswith("_") or not name.isupper():
                continue
            named = value if isinstance(value, dict) else {"": value}
            for key, text in named.items():
                if isinstance(text, str) and text.split()[0] in _LOOKING | _CHANGING:
                    yield f"{module.name}.{name}.{key}".rstrip("."), text


ALL: Final = dict(_statements())
LOOKING: Final = frozenset(text for text in ALL.values() if text.split()[0] in _LOOKING)
"""Statements that change nothing."""
