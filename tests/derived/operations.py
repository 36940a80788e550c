"""The operations of the registry, and tables with a row for each of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from tests.marks import either
from tests.tables import table
from windlass.core.declare.operations import Operation
from windlass.core.declare.resource import Family, Verb
from windlass.families import registry

OPERATIONS = registry().operations


def path_of(operation: Operation, ids: Iterable[str]) -> str:
    path = operation.path
    for param, id in zip(operation.params, ids, strict=True):
        path = path.replace(f"{{{param}}}", id, 1)
    return path


def operation_of(verb: str, family: Family, parent: Family | None) -> Operation:
    return next(
        operation
        for operation in OPERATIONS
        if operation.family is family
        and operation.parent is parent
        and operation.handler == f"{family.name}.{verb}"
    )


def adding_to(listing: Operation) -> Operation | None:
    """The action that adds an entry to a list: a deploy to deployments, for example. Whatever is in the list
    of a family that can be created is created instead."""
    is_resources = listing.handler.endswith(".list")
    if is_resources and listing.family and Verb.CREATE in listing.family.verbs:
        return None
    if not is_resources and listing.itself is None:
        return None  # a summary of each resource, and not a list that grows by an action
    holder = listing.parent if is_resources else listing.family
    return next(
        (
            action
            for action in OPERATIONS
            if (action.family, action.answer, action.listing) == (holder, listing.answer, False)
            and action.method == "POST"
            and holder
        ),
        None,
    )


def for_operations(chosen: Callable[[Operation], object] = lambda operation: True) -> Callable[[Any], Any]:
    """A table with a row for each operation of this sort."""
    return _roomy(table("operation", filter(chosen, OPERATIONS), lambda operation: operation.id))


def for_some_operations(
    chosen: Callable[[Operation], object] = lambda operation: True, every: int = 8
) -> Callable[[Any], Any]:
    """A table with a row for every eighth operation of this sort, and for each in the nightly run: one place
    keeps the promise for all of them."""
    found = [*filter(chosen, OPERATIONS)][:: either(every, 1)]
    return for_operations(found.__contains__)


def for_families(chosen: Callable[[Family], object]) -> Callable[[Any], Any]:
    """A table with a row for each family of this sort."""
    return _roomy(table("family", filter(chosen, registry().families.values()), lambda family: family.name))


def _roomy(tabled: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Makes room on the plot before each row."""

    def decorate(test: Any) -> Any:
        @functools.wraps(test)
        async def in_room(*arguments: Any, **fixtures: Any) -> None:
            fixtures["stage"].plot.make_room()
            await test(*arguments, **fixtures)

        return tabled(in_room)

    return decorate
