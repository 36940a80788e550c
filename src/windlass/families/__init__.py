"""One declarative file for each resource family, found by being there."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache

from windlass.core.registry import Endpoint, Registry
from windlass.core.resource import Family


@cache
def registry() -> Registry:
    return registry_of(*declared())


def registry_of(*things: Family | Endpoint) -> Registry:
    families = dict.fromkeys(thing for thing in things if isinstance(thing, Family))
    return Registry(families, [thing for thing in things if isinstance(thing, Endpoint)])


def declared() -> Iterator[Family | Endpoint]:
    for module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        for thing in vars(importlib.import_module(f"{__name__}.{module}")).values():
            if isinstance(thing, Family | Endpoint):
                yield thing
