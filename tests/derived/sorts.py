"""Sorts of operations, and tables of those that several modules share."""

from __future__ import annotations

from tests.derived.operations import for_operations
from windlass.core.declare.registry import Operation
from windlass.core.declare.resource import Verb
from windlass.families import registry


def does(operation: Operation, verb: Verb) -> bool:
    return operation.handler.endswith(f".{verb}")


def named(operation: Operation) -> bool:
    return operation.family is not None and operation.family.names is not None


every_naming = for_operations(lambda operation: does(operation, Verb.CREATE) and named(operation))


def families_on_the_way(operation: Operation) -> set[str]:
    """The families of the things that the path leads through, with all above them."""
    last = (
        operation.family if operation.family and operation.params[-1:] == [operation.family.param] else None
    )
    names: set[str] = set()
    at = last if last and not last.nested else operation.parent
    if last:
        names.add(last.name)
    while at is not None:
        names.add(at.name)
        at = registry().parents(at)[0]
    return names


def below_a_limit(operation: Operation) -> bool:
    return bool(operation.params) and not families_on_the_way(operation).isdisjoint(LIMITABLE)


def names_a_level(operation: Operation) -> bool:
    """A field of the body or of the query has the id of the resource that it is about, and not the path."""
    return operation.path.startswith(("/variable", "/environment/")) and not operation.params


def about_the_organization(operation: Operation) -> bool:
    """The path leads to the organization itself, or to one of its lists."""
    return families_on_the_way(operation) == {"organization"}


LIMITABLE = frozenset(family.name for family in registry().services_and_above)
