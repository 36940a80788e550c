"""One declarative file for each resource family; files in this folder are found automatically."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache

from windlass.core.declare.registry import Actions, AnyOf, Declared, Registry, StandaloneOperation
from windlass.core.declare.resource import Family, ServiceActions


@cache
def registry() -> Registry:
    return registry_of(*declared())


def registry_of(*things: Declared) -> Registry:
    """Returns the registry of these. A thing that several files import counts once."""
    once = list({id(thing): thing for thing in things}.values())
    return Registry(
        [thing for thing in once if isinstance(thing, Family)],
        [thing for thing in once if isinstance(thing, StandaloneOperation)],
        [thing for thing in once if isinstance(thing, AnyOf)],
        [thing for thing in once if isinstance(thing, Actions)],
        [thing for thing in once if isinstance(thing, ServiceActions)],
    )


def declared() -> Iterator[Declared]:
    for module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        for thing in vars(importlib.import_module(f"{__name__}.{module}")).values():
            if isinstance(thing, Declared):
                yield thing
