"""Derives commands from the registry. Pure: does not print or call the API.

A family becomes a command group, `windlass environment-variable …`, with a command for each verb and action.
The list of a nested family is also a command of the parent family's group: `windlass job runs nightly`. If a
trait has several parent families, one command has several paths. Commands for operations without a family are
named after the path: `GET /aws/region` is one path of `windlass region list`.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct

from windlass.core.declare.job_runs import JobRun
from windlass.core.declare.operations import Operation, PathId
from windlass.core.declare.registry import Registry, is_service
from windlass.core.declare.resource import Family, Verb
from windlass.core.declare.traits import CancelRequest, Deployment
from windlass.core.words.naming import kebab, plural

_VERB_WORDS: Final = {Verb.READ: "get", Verb.PATCH: "edit", Verb.UPDATE: "replace"}


class CommandPath(Struct, frozen=True, kw_only=True):
    """One of the API paths that a command can call."""

    operation: Operation
    above: tuple[tuple[str, str], ...]
    """The parent families, each with the path parameter that contains the parent's id."""
    subject: tuple[PathId, ...]
    """Path parameters that are positional arguments, beginning with the resource itself."""
    choice: str = ""
    """The word that distinguishes paths with the same parent families: `aws`."""


class DerivedCommand(Struct, frozen=True, kw_only=True):
    """A command that is derived from the registry."""

    group: str
    word: str
    paths: tuple[CommandPath, ...]

    @property
    def operation(self) -> Operation:
        """The operation of the first path. The operations of other paths differ only in the path."""
        return self.paths[0].operation

    @property
    def family(self) -> Family | None:
        return self.operation.family

    @property
    def named(self) -> Family | None:
        """The family of the resource that is the positional argument."""
        of_above = self.operation.itself is None and self.paths[0].subject
        return of_above[0].families[0] if of_above and of_above[0].families else self.family

    @property
    def own(self) -> bool:
        """Returns whether the command uses the caller's own resource if the argument is missing. Never true
        for deletion."""
        is_top = self.family is not None and self.family.parent is None
        return is_top and bool(self.paths[0].subject) and self.operation.method != "DELETE"

    @property
    def has_choice(self) -> bool:
        """Returns whether the command reads one service. Its name may be omitted if there is only one
        service."""
        is_of_service = self.family is not None and is_service(self.family)
        return is_of_service and len(self.paths[0].subject) == 1 and self.operation.method == "GET"

    @property
    def takes_versions(self) -> bool:
        """Returns whether the argument is a deployment, which users identify by its version."""
        return self.takes_numbers and self.operation.own_family.shown is Deployment

    @property
    def takes_numbers(self) -> bool:
        """Returns whether the argument is a numbered resource, such as a deployment or a run."""
        is_one = self.operation.itself is not None and bool(self.paths[0].subject)
        return self.family is not None and is_one and is_numbered(self.family)

    @property
    def is_of_newest(self) -> bool:
        """Returns whether the command reads the newest deployment or run if the argument is missing."""
        return self.takes_numbers and self.operation.method == "GET"

    @property
    def starts(self) -> bool:
        """Returns whether the command starts work in a service or environment that continues after the
        response."""
        if not self.operation.starts or self.family is None or self.family.parent is None:
            return False
        answer = self.operation.answer
        return answer is None or self.starts_run or "deployment_request_id" in answer.__struct_fields__

    @property
    def starts_run(self) -> bool:
        """Returns whether the command starts a job run instead of a deployment."""
        answer = self.operation.answer
        return self.operation.starts and answer is not None and issubclass(answer, JobRun)

    @property
    def cancels(self) -> bool:
        """Returns whether the command cancels deployments, which are then expected to end as cancelled."""
        return self.operation.body is CancelRequest

    @property
    def lists_services(self) -> bool:
        """Returns whether the command lists services, which are shown with state and address."""
        family = self.family
        return (
            family is not None
            and is_service(family)
            and self.operation.handler == f"{family.name}.{Verb.LIST}"
        )

    @property
    def choices(self) -> list[str]:
        return [path.choice for path in self.paths] if len(self.paths) > 1 and self.paths[0].choice else []

    @property
    def summary(self) -> str:
        """The words that the summaries of all paths share: `List AWS regions` and `List GCP regions` become
        `List regions`."""
        summaries = [path.operation.summary.partition(" (")[0].split() for path in self.paths]
        shared = " ".join(word for word in summaries[0] if all(word in other for other in summaries))
        return shared.removesuffix(" at")


def is_numbered(family: Family) -> bool:
    """Returns whether resources of a family are identified by numbers instead of names."""
    return family.names is None and "number" in family.shown.__struct_fields__


def commands_of(registry: Registry) -> dict[str, dict[str, DerivedCommand]]:
    """Returns all commands, by group and word."""
    paths: dict[str, dict[str, list[CommandPath]]] = {}
    for operation in registry.operations:
        paths.setdefault(_group_name(operation), {}).setdefault(_command_word(operation), []).append(
            _command_path(operation)
        )
        if above := _listing_parent(operation):
            word = kebab(plural(operation.own_family.segment))
            paths[kebab(above.name)][word] = [_command_path(operation, of_above=True)]
    return {
        group: {word: _derive_command(group, word, some) for word, some in words.items()}
        for group, words in sorted(paths.items())
    }


def ancestry(registry: Registry, family: Family) -> list[Family]:
    """Returns all direct and indirect parent families, nearest first."""
    families: dict[str, Family] = {}
    level: list[Family] = [family]
    while level:
        level = [above for child in level for above in registry.parents(child) if above is not None]
        # A family that is reached on several paths moves to the end, because it is above all of them.
        for above in level:
            families.pop(above.name, None)
            families[above.name] = above
    return list(families.values())


def about(commands: Collection[DerivedCommand]) -> str:
    """Returns the description of a command group: that of its family, or else what its commands have in
    common."""
    first = next(iter(commands))
    own = next(
        (each.family for each in commands if each.family and kebab(each.family.name) == each.group), None
    )
    if own is not None:
        return _first_line(own.spec, first.group)
    subjects = list(dict.fromkeys(each.operation.group for each in commands))
    if len(subjects) > 1:
        return f"A {first.group} of any kind: {', '.join(subjects).lower()}"
    return first.summary if len(commands) == 1 else _first_line(first.operation.answer, first.group)


def _first_line(declared: type | None, default: str) -> str:
    """Returns the first line of the docstring of a struct, or of its module."""
    docstring = (declared.__doc__ or sys.modules[declared.__module__].__doc__) if declared else None
    return (docstring or default).strip().partition("\n")[0].rstrip(".")


def _derive_command(group: str, command_name: str, paths: Sequence[CommandPath]) -> DerivedCommand:
    keys = [(path.choice, tuple(name for name, _ in path.above)) for path in paths]
    if len(set(keys)) < len(keys):
        clashing = ", ".join(path.operation.id for path in paths)
        raise ValueError(f"`windlass {group} {command_name}` cannot tell these apart: {clashing}")
    return DerivedCommand(group=group, word=command_name, paths=tuple(paths))


def _group_name(operation: Operation) -> str:
    return kebab(operation.handler.rpartition(".")[0] or _literal_segments(operation)[-1])


def _command_word(operation: Operation) -> str:
    owner, _, word = operation.handler.rpartition(".")
    if not owner:
        return re.split(r"(?=[A-Z])", operation.handler)[0]
    return kebab(_VERB_WORDS.get(word, word))  # type: ignore[call-overload]


def _listing_parent(operation: Operation) -> Family | None:
    """Returns the parent family whose command group also contains the list of this family."""
    family = operation.family
    if family is None or not family.nested or operation.verb is not Verb.LIST:
        return None
    # An organization is a parent of most families, and users rarely name it.
    return family.parent if isinstance(family.parent, Family) and family.parent.parent else None


def _command_path(operation: Operation, *, of_above: bool = False) -> CommandPath:
    first = operation.itself.position if operation.itself else len(operation.ids) - of_above
    above = tuple((id.name or id.param, id.param) for id in operation.ids[:first])
    choice = "" if "." in operation.handler else "/".join(_literal_segments(operation)[:-1])
    return CommandPath(operation=operation, above=above, subject=operation.ids[first:], choice=choice)


def _literal_segments(operation: Operation) -> list[str]:
    """Returns the path segments that are not followed by an id."""
    pieces = [*operation.path.split("/")[1:], ""]
    return [
        piece
        for piece, after in itertools.pairwise(pieces)
        if not piece.startswith("{") and not after.startswith("{")
    ]
