"""The supported languages. Each module in this folder declares one and is discovered automatically; see
`detect.language`."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from windlass.detect.language import Language


@cache
def languages() -> tuple[Language, ...]:
    """Returns all languages, ordered by rank."""
    modules = (
        importlib.import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)
    )
    declared = [thing for module in modules for thing in vars(module).values() if isinstance(thing, Language)]
    return tuple(sorted(declared, key=lambda language: (language.rank, language.name)))
