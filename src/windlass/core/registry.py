"""All operations, derived from the families: the one list from which routes, OpenAPI, the scope
matrix, the command line and the tests are made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import fields, replace

from windlass.core.access import Scope
from windlass.core.resource import Action, Family, Spec, Trait, Verb, extra_of, spaced

PAGE, MOST_PER_PAGE = 100, 1000
_REPLACE = (
    "Replaces it: a field that is left out goes back to its default. What has no default, is sealed or was "
    "chosen for good is kept. To change some fields only, use PATCH."
)
_MERGE_PATCH = (
    "A JSON merge patch (RFC 7396): only the fields that are named change. An object is merged into the "
    "present one, a list replaces the present one, and null removes a value or sets it to its default."
)


class Paging(Spec):
    page: Annotated[int, Meta(ge=1, le=2**31 - 1, description="Which page, from 1")] = 1
    page_size: Annotated[int, Meta(ge=1, le=MOST_PER_PAGE, description="How many results on a page")] = PAGE


class Endpoint(Struct, frozen=True, kw_only=True):
    """An operation that belongs to no resource, such as a catalogue."""

    path: str
    group: str
    action: Action


class Operation(Struct, frozen=True, kw_only=True, eq=False):
    """One method on one path, with everything that is known about it."""

    id: str
    """Its name in the OpenAPI document and on the command line."""
    method: str
    path: str
    group: str
    summary: str
    need: Scope
    handler: str
    status: int
    also: tuple[int, ...] = ()
    """Other statuses with which it may answer."""
    family: Family | None = None
    parent: Family | None = None
    body: type[Spec] | None = None
    query: type[Spec] | None = None
    answer: type[Struct] | None = None
    listing: bool = False
    paged: bool = False
    streams: bool = False
    """Whether the answer is never anything but server-sent events, each with an `answer` as its data."""
    outside: bool = False
    """Whether it ends when the caller hangs up, because programs or other machines are busy with it."""
    tagged: bool = False
    """Whether the answer is one resource, with an ETag."""
    once: frozenset[str] = frozenset()
    """Fields of the answer that are shown once."""
    conditional: bool = False
    """Whether `If-Match` is honoured."""
    description: str = ""

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    @property
    def params(self) -> list[str]:
        return [piece[1:-1] for piece in self.path.split("/") if piece.startswith("{")]


class Registry:
    def __init__(self, families: Iterable[Family], endpoints: Iterable[Endpoint]) -> None:
        self.families: dict[str, Family] = {family.name: family for family in families}
        self.operations: list[Operation] = [
            *(_endpoint(endpoint) for endpoint in endpoints),
            *(operation for family in self.families.values() for operation in self._operations(family)),
        ]
        self.operations = [_with_once(operation) for operation in self.operations]
        self._refuse_twins()
        for family in self.families.values():
            self._check_addresses(family)

    def __getitem__(self, name: str) -> Family:
        return self.families[name]

    def operation(self, id: str) -> Operation:
        return next(operation for operation in self.operations if operation.id == id)

    def parents(self, family: Family) -> Sequence[Family | None]:
        """Where it hangs: a trait stands for every family that carries it."""
        match family.parent:
            case Trait() as trait:
                return [other for other in self.families.values() if trait in other.traits]
            case parent:
                return [parent]

    def children(self, family: Family) -> list[Family]:
        return [child for child in self.families.values() if family in self.parents(child)]

    def _operations(self, family: Family) -> Iterator[Operation]:
        for parent in self.parents(family):
            title = (parent.title if isinstance(family.parent, Trait) and parent else "") + family.title
            plural = (parent.title if isinstance(family.parent, Trait) and parent else "") + family.plural
            collection = f"{_item_path(parent)}/{family.name}" if parent else f"/{family.name}"
            item = f"{collection}/{{{family.param}}}" if family.nested else _item_path(family)
            yield from _verbs(family, parent, title, plural, collection, item)
            for action in family.actions:
                yield _action(family, parent, title, action, collection if action.on_collection else item)

    def _refuse_twins(self) -> None:
        ids = [operation.id for operation in self.operations]
        routes = [(operation.method, operation.path) for operation in self.operations]
        for seen in (ids, routes):
            twins = {str(one) for one in seen if seen.count(one) > 1}  # type: ignore[arg-type]
            if twins:
                raise ValueError(f"declared twice: {', '.join(sorted(twins))}")

    def _check_addresses(self, family: Family) -> None:
        """Refuses `sent_to` and `opens` with fields that do not exist."""
        names = {fact.name for fact in family.facts}
        for secret, addresses in family.sent_to.items():
            if unknown := set(addresses) - names:
                raise ValueError(f"{family.name}.{secret} is sent to {', '.join(unknown)}: no such field")
        for path, reference in family.references.items():
            if reference.family not in self.families:
                raise ValueError(f"{family.name}.{path} refers to {reference.family}: no such family")


def _with_once(operation: Operation) -> Operation:
    once = _shown_once(operation.answer) if operation.answer else frozenset()
    return replace(operation, once=once) if once else operation


@cache
def _shown_once(answer: type[Struct]) -> frozenset[str]:
    """The fields of an answer that are shown this once. Many operations have the same answer."""
    return frozenset(field.encode_name for field in fields(answer) if "once" in extra_of(field.type))


def _item_path(family: Family | None) -> str:
    return f"/{family.name}/{{{family.param}}}" if family else ""


def _verbs(
    family: Family, parent: Family | None, title: str, plural: str, collection: str, item: str
) -> Iterator[Operation]:
    name = family.title.lower() if family.title.isupper() else spaced(family.title)
    removal = Scope.ADMIN
    table = {
        Verb.LIST: ("list", "GET", collection, Scope.READ, f"List {spaced(family.plural)}", 200),
        Verb.CREATE: ("create", "POST", collection, family.write_need, f"Create {_a(name)}", family.created),
        Verb.READ: ("get", "GET", item, Scope.READ, f"Read {_a(name)}", 200),
        Verb.UPDATE: ("edit", "PUT", item, family.write_need, f"Replace {_a(name)}", 200),
        Verb.PATCH: ("patch", "PATCH", item, family.write_need, f"Change some fields of {_a(name)}", 200),
        Verb.DELETE: ("delete", "DELETE", item, removal, f"Delete {_a(name)}", 204),
    }
    for verb, (word, method, path, need, summary, status) in table.items():
        if (Verb.UPDATE if verb is Verb.PATCH else verb) not in family.verbs:
            continue
        yield Operation(
            id=word + (plural if verb is Verb.LIST else title),
            method=method,
            path=path,
            group=family.group,
            summary=summary,
            need=need,
            handler=f"{family.name}.{verb}",
            status=status,
            family=family,
            parent=parent,
            body={Verb.CREATE: family.spec, Verb.UPDATE: family.edit, Verb.PATCH: family.patch}.get(verb),
            query=Paging if verb is Verb.LIST and family.paged else None,
            answer={Verb.CREATE: family.fresh, Verb.DELETE: None}.get(verb, family.view),
            listing=verb is Verb.LIST,
            paged=verb is Verb.LIST and family.paged,
            tagged=verb in {Verb.CREATE, Verb.READ, Verb.UPDATE, Verb.PATCH},
            conditional=verb in {Verb.UPDATE, Verb.PATCH, Verb.DELETE},
            description={Verb.CREATE: family.about, Verb.UPDATE: _REPLACE, Verb.PATCH: _MERGE_PATCH}.get(
                verb, ""
            ),
        )


def _action(family: Family, parent: Family | None, title: str, action: Action, path: str) -> Operation:
    return Operation(
        id=action.id or _action_id(action.name, title),
        method=action.method,
        path=path + action.suffix,
        group=family.group,
        summary=f"{action.summary} ({spaced(title)})",
        need=action.need,
        handler=f"{family.name}.{action.name}",
        status=action.status,
        also=action.also,
        family=family,
        parent=parent,
        body=action.body,
        query=action.query or (Paging if action.listing and action.paged else None),
        answer=family.view if action.answers_itself else action.answer,
        tagged=action.answers_itself,
        listing=action.listing,
        paged=action.listing and action.paged,
        streams=action.streams,
        outside=action.outside,
        description=action.description,
    )


def _endpoint(endpoint: Endpoint) -> Operation:
    action = endpoint.action
    return Operation(
        id=action.name,
        method=action.method,
        path=endpoint.path,
        group=endpoint.group,
        summary=action.summary,
        need=action.need,
        handler=action.name,
        status=action.status,
        also=action.also,
        body=action.body,
        query=action.query or (Paging if action.listing and action.paged else None),
        answer=action.answer,
        listing=action.listing,
        paged=action.listing and action.paged,
        description=action.description,
    )


def _action_id(name: str, title: str) -> str:
    """`deploy` is deployApplication; what reads is getApplicationStatus."""
    return f"get{title}{name[0].upper()}{name[1:]}" if name in {"status", "log"} else f"{name}{title}"


def _a(name: str) -> str:
    return f"an {name}" if name[0].lower() in "aeiou" else f"a {name}"
