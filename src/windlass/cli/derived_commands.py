"""Which commands there are: what follows from the registry. Pure; nothing here prints or asks.

A family gives a group of commands, `windlass environment-variable …`; each of its verbs and actions is one.
Where a trait hangs a family below several others, one command has several ways, one for each path.
An operation of no family is named by its path: `GET /aws/region` is one way of `windlass region list`.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from windlass.core.access import Scope
from windlass.core.declare.operations import Operation, PathId
from windlass.core.declare.registry import Registry
from windlass.core.declare.resource import Family, Verb
from windlass.core.declare.traits import Deployment

_WORDS: Final = {Verb.READ: "get", Verb.PATCH: "edit", Verb.UPDATE: "replace"}


class CommandPath(Struct, frozen=True, kw_only=True):
    """One path that a command can take."""

    operation: Operation
    above: tuple[tuple[str, str], ...]
    """Families above, by name, and the parameters of the path that take their ids."""
    subject: tuple[PathId, ...]
    """Parameters that are given without an option: first the resource itself."""
    choice: str = ""
    """What tells it from other ways that have the same families above: `aws`."""


class DerivedCommand(Struct, frozen=True, kw_only=True):
    """One command."""

    group: str
    word: str
    ways: tuple[CommandPath, ...]

    @property
    def operation(self) -> Operation:
        """Ways differ in their paths and in nothing else."""
        return self.ways[0].operation

    @property
    def family(self) -> Family | None:
        return self.operation.family

    @property
    def own(self) -> bool:
        """Whether without a name it is the caller's own. Nobody deletes that by leaving something out."""
        is_top = self.family is not None and self.family.parent is None
        return is_top and bool(self.ways[0].subject) and self.operation.method != "DELETE"

    @property
    def starts(self) -> bool:
        """Whether it starts something that goes on after its answer: that, and nothing else, needs Deploy."""
        return self.operation.need is Scope.DEPLOY

    @property
    def lists_services(self) -> bool:
        """True if the command lists services, which people want to see with state and address."""
        family = self.family
        return (
            family is not None
            and is_service(family)
            and self.operation.handler == f"{family.name}.{Verb.LIST}"
        )

    @property
    def choices(self) -> list[str]:
        return [way.choice for way in self.ways] if len(self.ways) > 1 and self.ways[0].choice else []

    @property
    def summary(self) -> str:
        """What the ways have in common: `List AWS regions`, `List GCP regions` are `List regions`."""
        said = [way.operation.summary.partition(" (")[0].split() for way in self.ways]
        return " ".join(word for word in said[0] if all(word in other for other in said))


def is_service(family: Family) -> bool:
    """True if resources of this family can be deployed."""
    return not family.nested and any(action.answer is Deployment for action in family.actions)


def deeds(registry: Registry) -> dict[str, dict[str, DerivedCommand]]:
    """Commands, by group and word."""
    found: dict[str, dict[str, list[CommandPath]]] = {}
    for operation in registry.operations:
        found.setdefault(_group(operation), {}).setdefault(_word(operation), []).append(_way(operation))
    return {
        group: {word: _deed(group, word, ways) for word, ways in words.items()}
        for group, words in sorted(found.items())
    }


def ancestry(registry: Registry, family: Family) -> list[Family]:
    """All families that a resource of this one may lie below, nearest first."""
    found: dict[str, Family] = {}
    level: list[Family] = [family]
    while level:
        level = [above for one in level for above in registry.parents(one) if above is not None]
        # Once more at the end: who is above in several ways is above all of them.
        for above in level:
            found.pop(above.name, None)
            found[above.name] = above
    return list(found.values())


def about(deed: DerivedCommand) -> str:
    """What a group is, in the words of the file that declares it."""
    declared = deed.family.spec if deed.family else deed.operation.answer
    said = sys.modules[declared.__module__].__doc__ if declared else None
    return (said or deed.operation.group).strip().partition("\n")[0].rstrip(".")


def kebab(name: str) -> str:
    """`environmentVariable` → `environment-variable`, `git_repository` → `git-repository`"""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", "-", name).lower()


def _deed(group: str, word: str, ways: Sequence[CommandPath]) -> DerivedCommand:
    told = [(way.choice, tuple(name for name, _ in way.above)) for way in ways]
    if len(set(told)) < len(told):
        clashing = ", ".join(way.operation.id for way in ways)
        raise ValueError(f"`windlass {group} {word}` cannot tell these apart: {clashing}")
    return DerivedCommand(group=group, word=word, ways=tuple(ways))


def _group(operation: Operation) -> str:
    return kebab(operation.handler.rpartition(".")[0] or _literals(operation)[-1])


def _word(operation: Operation) -> str:
    owner, _, word = operation.handler.rpartition(".")
    if not owner:
        return re.split(r"(?=[A-Z])", operation.handler)[0]
    return kebab(_WORDS.get(word, word))  # type: ignore[call-overload]


def _way(operation: Operation) -> CommandPath:
    first = operation.itself.place if operation.itself else len(operation.ids)
    above = tuple((id.name or id.param, id.param) for id in operation.ids[:first])
    choice = "" if "." in operation.handler else "/".join(_literals(operation)[:-1])
    return CommandPath(operation=operation, above=above, subject=operation.ids[first:], choice=choice)


def _literals(operation: Operation) -> list[str]:
    """Pieces of the path that no id follows."""
    pieces = [*operation.path.split("/")[1:], ""]
    return [
        piece
        for piece, after in itertools.pairwise(pieces)
        if not piece.startswith("{") and not after.startswith("{")
    ]
