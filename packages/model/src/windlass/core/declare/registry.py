"""The registry of all operations, which are derived from the families. Routes, the OpenAPI document, the
scope matrix, the command line and tests are derived from the registry.

An invalid declaration, such as a second family with the same name, prevents the start with an error message.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from windlass.core.declare.actions import WORD_PARAMETER, Action, Itself, SubAction, Trait
from windlass.core.declare.operations import Operation as Operation
from windlass.core.declare.operations import PathId, action_id, of_action, of_verbs
from windlass.core.declare.queries import DEFAULT_PAGE_SIZE as DEFAULT_PAGE_SIZE
from windlass.core.declare.queries import MAX_PAGE_SIZE as MAX_PAGE_SIZE
from windlass.core.declare.queries import Paging as Paging
from windlass.core.declare.resource import Family, ServiceLists
from windlass.core.declare.traits import DEPLOYABLE_TRAIT
from windlass.core.words.audit import AuditNames
from windlass.core.words.naming import to_words

_PARAM_PATTERN: Final = re.compile(r"\{(\w+)\}")


class AnyOf(Struct, frozen=True):
    """A union of all families with a trait, at one path, such as services of any kind at `/service/{id}`."""

    name: str
    """The name in paths and in the `ids` of actions."""
    trait: Trait
    noun: str

    @property
    def segment(self) -> str:
        return self.name

    @property
    def param(self) -> str:
        return f"{self.name}_id"

    @property
    def title(self) -> str:
        return self.name[0].upper() + self.name[1:]


class Actions(Struct, frozen=True):
    """Actions that another module declares for a family, a union of families, or all families with a
    trait."""

    of: Family | AnyOf | Trait
    group: str
    actions: tuple[Action, ...]


class StandaloneOperation(Struct, frozen=True, kw_only=True):
    """An operation that belongs to no resource, such as a catalogue. Its path is declared explicitly."""

    path: str
    group: str
    action: Action


Declared: TypeAlias = Family | StandaloneOperation | AnyOf | Actions | ServiceLists


class Registry:
    def __init__(
        self,
        families: Iterable[Family],
        standalone: Iterable[StandaloneOperation] = (),
        unions: Iterable[AnyOf] = (),
        other_actions: Iterable[Actions] = (),
        service_lists: Iterable[ServiceLists] = (),
    ) -> None:
        self.unions = {union.name: union for union in unions}
        self.families = _by_name(families, self.unions.values())
        self._refuse_duplicate_segments()
        self._more = tuple(other_actions)
        self._service_lists = {lists.base: lists.build(self.services) for lists in service_lists}
        declared: list[Operation] = [
            *(self._standalone_operation(declared) for declared in standalone),
            *(operation for family in self.families.values() for operation in self._operations(family)),
            *(operation for union in self.unions.values() for operation in self._operations_of_union(union)),
        ]
        _refuse_duplicate_operations(declared)
        self.operations = [operation for operation in declared if not operation.is_raw]
        self.raw = [operation for operation in declared if operation.is_raw]
        """Operations that open websockets or receive a stream of bytes."""
        self._by_id = {operation.id: operation for operation in self.operations}
        self._by_handler: dict[str, list[Operation]] = {}
        for operation in self.operations:
            self._by_handler.setdefault(operation.handler, []).append(operation)
        for family in self.families.values():
            self._check_names(family)

    def __getitem__(self, name: str) -> Family:
        return self.families[name]

    def operation(self, id: str) -> Operation:
        return self._by_id[id]

    def handled_by(self, handler: str) -> Sequence[Operation]:
        """Returns the operations with the same handler, such as `secret.list`: one for each parent family."""
        return self._by_handler.get(handler, ())

    def parents(self, family: Family) -> Sequence[Family | None]:
        """Returns the parents of a family. If the parent is a trait, returns all families with that trait."""
        match family.parent:
            case Trait() as trait:
                return self.carriers(trait)
            case parent:
                return [parent]

    def children(self, family: Family) -> list[Family]:
        return [child for child in self.families.values() if family in self.parents(child)]

    @cached_property
    def services(self) -> tuple[Family, ...]:
        """The families of services, which can be deployed."""
        return tuple(family for family in self.families.values() if is_service(family))

    @cached_property
    def services_and_above(self) -> tuple[Family, ...]:
        """The families of services, preceded by the families that contain services in an organization."""
        by_name: dict[str, Family] = {}
        for family in self.services:
            while isinstance(family.parent, Family):
                by_name[family.name] = family
                family = family.parent
        return tuple(sorted(by_name.values(), key=self.services.__contains__))

    def service_of_type(self, service_type: str) -> Family:
        """Returns the service family with this value of `service_type`."""
        return next(family for family in self.services if family.enum_value == service_type)

    def carriers(self, trait: Trait) -> list[Family]:
        return [family for family in self.families.values() if trait in family.traits]

    @cached_property
    def audit(self) -> AuditNames:
        return AuditNames({family.name: family.audit for family in self.families.values()})

    # From declarations to operations

    def _standalone_operation(self, declared: StandaloneOperation) -> Operation:
        action = declared.action
        operation = of_action(action, declared.path, action.id or action.name, action.name, declared.group)
        return self._resolve_path_ids(operation, action.ids)

    def _operations_of_union(self, union: AnyOf) -> Iterator[Operation]:
        if not self.carriers(union.trait):
            raise ValueError(f"{union.name} stands for every family with {union.trait.name}, and none has it")
        for action, group in self._additional_actions(union):
            handler = f"{union.name}.{action.name}"
            operation = of_action(
                action, _item_path(union), action_id(action, union.title), handler, group, union.noun
            )
            yield self._resolve_path_ids(
                operation, {union.param: union.name, **action.ids}, itself=union.param
            )

    def _operations(self, family: Family) -> Iterator[Operation]:
        actions = [*((action, family.group) for action in family.actions), *self._additional_actions(family)]
        for parent in self.parents(family):
            prefix = parent.title if parent and isinstance(family.parent, Trait) else ""
            collection = f"{_item_path(parent)}/{family.segment}" if parent else f"/{family.segment}"
            item = f"{collection}/{{{family.param}}}" if family.nested else _item_path(family)
            ids = {family.param: family.name} | ({parent.param: parent.name} if parent else {})
            above = parent.param if parent else ""
            for operation in of_verbs(family, parent, prefix, collection, item):
                yield self._resolve_path_ids(operation, ids, family.param, above)
            for action, group in actions:
                path = collection if action.on_collection else _item_path(family) if action.unnested else item
                title = prefix + family.title
                handler = f"{family.name}.{action.name}"
                operation = of_action(
                    action, path, action_id(action, title), handler, group, family.spoken or to_words(title)
                )
                answer = family.view if action.answer is Itself else action.answer
                operation = replace(operation, family=family, parent=parent, answer=answer)
                yield self._resolve_path_ids(operation, {**ids, **action.ids}, family.param, above)

    def _additional_actions(self, subject: Family | AnyOf) -> Iterator[tuple[Action, str]]:
        """Yields the actions that other modules declare for a family or union, each with its group."""
        traits = subject.traits if isinstance(subject, Family) else ()
        for more in self._more:
            if more.of is subject or more.of in traits:
                yield from ((action, more.group) for action in more.actions)

    def _resolve_path_ids(
        self, operation: Operation, ids: Mapping[str, str], itself: str = "", prefix: str = ""
    ) -> Operation:
        """Returns the operation with its path parameters resolved to families."""
        params: list[str] = _PARAM_PATTERN.findall(operation.path)
        if len(set(params)) < len(params):
            raise ValueError(f"{operation.id}: two parameters of {operation.path} have the same name")
        lists = self._service_lists
        body, answer = (
            lists.get(struct, struct)  # type: ignore[arg-type]
            for struct in (operation.declared_body, operation.answer)
        )
        placed = {
            param: self._path_id(operation, param, position, ids) for position, param in enumerate(params)
        }
        return replace(
            operation,
            ids=tuple(placed.values()),
            itself=placed.get(itself),
            above=placed.get(prefix),
            declared_body=body,
            answer=answer,
        )

    def _path_id(self, operation: Operation, param: str, position: int, ids: Mapping[str, str]) -> PathId:
        if param not in ids:
            raise ValueError(
                f"{operation.id}: say in `ids` what {{{param}}} in {operation.path} is the id of"
            )
        name = ids[param]
        if name == WORD_PARAMETER:
            return PathId(param, position, param.replace("_", " "), ())
        if union := self.unions.get(name):
            return PathId(param, position, union.noun, tuple(self.carriers(union.trait)), name)
        if family := self.families.get(name):
            return PathId(param, position, family.spoken or to_words(name), (family,), name)
        raise ValueError(
            f"{operation.id}: {{{param}}} is the id of {name}, and no family or union has this name"
        )

    # Checks

    def _refuse_duplicate_segments(self) -> None:
        families: dict[tuple[Family | None, str], Family] = {}
        for family in self.families.values():
            for parent in self.parents(family):
                other = families.setdefault((parent, family.segment), family)
                if other is not family:
                    where = f"below {parent.name}" if parent else "at the top"
                    twins = f"the families {other.name} and {family.name}"
                    raise ValueError(f"{twins} have the same segment, {family.segment}, {where}")

    def _check_names(self, family: Family) -> None:
        """Raises ValueError if a declaration names a field or family that does not exist."""
        names = {field.name for field in family.sent_fields}
        for secret, addresses in family.sent_to.items():
            if unknown := {address for address in addresses if address.partition(".")[0] not in names}:
                raise ValueError(f"{family.name}.{secret} is sent to {', '.join(unknown)}: no such field")
        for path, reference in family.references.items():
            if reference.family not in self.families:
                raise ValueError(f"{family.name}.{path} refers to {reference.family}: no such family")
        for field, other in family.reference_lists.items():
            if other not in self.families:
                raise ValueError(f"{family.name}.{field} refers to {other}: no such family")
        for other, field in family.counts.items():
            if other not in {child.name for child in self.children(family)}:
                raise ValueError(f"{family.name}.{field} counts {other}: no family below it has this name")


def _by_name(families: Iterable[Family], unions: Iterable[AnyOf]) -> dict[str, Family]:
    """Returns the families by name. Raises ValueError if two families have the same name, because the
    operations of one would replace the other's."""
    by_name: dict[str, Family] = {}
    for family in families:
        other = by_name.setdefault(family.name, family)
        if other is not family:
            files = f"{other.spec.__module__} and {family.spec.__module__}"
            raise ValueError(
                f"two families are named {family.name}, in {files}: rename one of them. "
                "Families below different parents may share a `segment`"
            )
    for union in unions:
        if union.name in by_name:
            raise ValueError(
                f"{union.name} is the name of a family and of a union of families: rename one of them"
            )
    return by_name


def _refuse_duplicate_operations(operations: Sequence[Operation]) -> None:
    for first, other in _find_duplicates(operations, lambda operation: operation.id):
        raise ValueError(
            f"{first.path} and {other.path} have the same operation id, {first.id}: rename one of them"
        )
    for first, other in _find_duplicates(
        operations, lambda operation: (operation.method, _PARAM_PATTERN.sub("{}", operation.path))
    ):
        raise ValueError(f"{first.id} and {other.id} have the same route, {first.method} {first.path}")


def _find_duplicates(
    operations: Iterable[Operation], key: Callable[[Operation], Any]
) -> list[tuple[Operation, Operation]]:
    """Returns pairs of operations with equal keys."""
    first: dict[Any, Operation] = {}
    pairs = [(first.setdefault(key(operation), operation), operation) for operation in operations]
    return [(first, other) for first, other in pairs if first is not other]


def is_service(family: Family) -> bool:
    return any(trait.name == DEPLOYABLE_TRAIT for trait in family.traits)


def runs_once(family: Family) -> bool:
    return any(trait.runs_once for trait in family.traits)


def sub_actions_of(family: Family) -> Mapping[str, SubAction]:
    """Returns the parts of a deployment that can be requested separately, keyed by their value in the
    status."""
    return {action.word: action for trait in family.traits for action in trait.sub_actions}


def _item_path(family: Family | AnyOf) -> str:
    return f"/{family.segment}/{{{family.param}}}"
