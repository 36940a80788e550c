"""The declarations of resource families, one module each.

Modules in this folder are discovered automatically. Installed packages declare further modules as entry
points of the group `windlass.families`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from windlass.base.entry_points import modules_of
from windlass.core.declare.registry import Actions, AnyOf, Declared, Registry, StandaloneOperation
from windlass.core.declare.resource import Family, ServiceLists


@cache
def registry() -> Registry:
    return registry_of(*find_declarations())


def registry_of(*declarations: Declared) -> Registry:
    """Returns the registry of these declarations. A declaration that several modules import is used once."""
    distinct = list({id(declaration): declaration for declaration in declarations}.values())
    return Registry(
        [declaration for declaration in distinct if isinstance(declaration, Family)],
        [declaration for declaration in distinct if isinstance(declaration, StandaloneOperation)],
        [declaration for declaration in distinct if isinstance(declaration, AnyOf)],
        [declaration for declaration in distinct if isinstance(declaration, Actions)],
        [declaration for declaration in distinct if isinstance(declaration, ServiceLists)],
    )


def find_declarations() -> Iterator[Declared]:
    for module in modules_of(__name__, __path__, "windlass.families"):
        for declaration in vars(module).values():
            if isinstance(declaration, Declared):
                yield declaration
