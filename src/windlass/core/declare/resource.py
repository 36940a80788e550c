"""What a resource family is: a declaration from which everything else is derived.

Nothing here runs. A family says which fields a client may send, which the server adds, where it
hangs in the tree and what may be done with it; `registry` turns that into operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache, cached_property
from types import UnionType
from typing import (
    Annotated,
    Any,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import FieldInfo, fields

from windlass.base.errors import Invalid
from windlass.core.access import Scope
from windlass.core.declare.actions import Action as Action
from windlass.core.declare.actions import Trait as Trait
from windlass.core.declare.fields import example
from windlass.core.declare.spec import Base as Base
from windlass.core.declare.spec import Owner as Owner
from windlass.core.declare.spec import Shown as Shown
from windlass.core.declare.spec import Spec as Spec
from windlass.core.words.audit import AUDIT_WORDS, AuditWords
from windlass.core.words.naming import plural, snake, spaced

T = TypeVar("T", bound=Struct)


class Verb(StrEnum):
    CREATE = "create"
    LIST = "list"
    READ = "read"
    UPDATE = "update"
    PATCH = "patch"
    """Comes with `UPDATE`: no family declares it."""
    DELETE = "delete"


ALL = frozenset(Verb)


class ServiceActions(Struct, frozen=True):
    """A shape that has a list for each family of services; the registry makes it, which knows them all."""

    base: type[Struct]
    """What actions name as their body or answer."""
    field: Callable[[Family], tuple[str, Any]]
    """Takes a family of services. Returns the name and the type of its list."""

    def made(self, services: Iterable[Family]) -> type[Struct]:
        declared: list[tuple[Any, ...]] = [(*self.field(family), []) for family in services]
        return _struct(self.base.__name__, declared, self.base)


class Facts(NamedTuple):
    """One field of a struct, with what its annotation says beyond the type."""

    info: FieldInfo
    extra: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.info.encode_name


class ReferenceField(NamedTuple):
    """A field that holds the id of another resource."""

    family: str
    opens: str
    """For a credential: the path of the field with the address that it is sent to."""


Parent: TypeAlias = "Family | Trait | None"


class Family:
    """A kind of resource.

    Title, group, parameter and path segment follow from the name unless they are given: `gitToken` is
    GitToken, in the group GitTokens, at `/gitToken/{git_token_id}`.
    """

    def __init__(
        self,
        name: str,
        spec: type[Spec],
        *,
        parent: Parent,
        segment: str = "",
        param: str = "",
        title: str = "",
        group: str = "",
        about: str = "",
        shown: type[Shown] = Shown,
        verbs: frozenset[Verb] = ALL,
        traits: tuple[Trait, ...] = (),
        actions: tuple[Action, ...] = (),
        nested: bool = False,
        names: str | None = "name",
        created: int = 201,
        write_need: Scope = Scope.WRITE,
        normalise: Callable[[Any], None] = lambda spec: None,
        in_full: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        audit: AuditWords = AUDIT_WORDS,
    ) -> None:
        self.name = name
        """Unique among all families. It names rows, handlers and commands."""
        self.spec = spec
        self.parent = parent
        self.segment = segment or name
        """What stands for it in a path, such as `aws/credentials`. Unique among the children of a parent."""
        self.param = param or f"{snake(name)}_id"
        self.title = title or name[0].upper() + name[1:]
        self.group = group or plural(self.title)
        self.about = about
        self.shown = shown
        self.verbs = verbs
        self.traits = traits
        self.own_actions = actions
        self.nested = nested
        """True if its own path goes through its parent: `/organization/{org_id}/webhook/{webhook_id}`."""
        self.names = names
        """The field whose value is unique among siblings."""
        self.created = created
        """The status that answers a creation."""
        self.write_need = write_need
        self.normalise = normalise
        """Brings a spec into its final form, or raises Invalid: rules between fields."""
        self.in_full = in_full
        """Says a document in the full interface's words, where these are others."""
        self.audit = audit

    def __repr__(self) -> str:
        return f"<Family {self.name}>"

    @cached_property
    def noun(self) -> str:
        """What a person calls it: `environment variable`."""
        return spaced(self.title).removeprefix("organization ") or self.name

    @cached_property
    def actions(self) -> tuple[Action, ...]:
        return tuple(action for trait in self.traits for action in trait.actions) + self.own_actions

    @cached_property
    def facts(self) -> tuple[Facts, ...]:
        return _facts(self.spec)

    @cached_property
    def additions(self) -> tuple[Facts, ...]:
        """What the server adds."""
        return _facts(self.shown)

    @cached_property
    def hidden(self) -> frozenset[str]:
        """Fields that are sealed and never answered."""
        return frozenset(fact.name for fact in self.facts if "hidden" in fact.extra)

    @cached_property
    def exact_names(self) -> bool:
        """True if names that differ in case only are two names."""
        return any(fact.name == self.names and "exact" in fact.extra for fact in self.facts)

    @cached_property
    def counts(self) -> Mapping[str, str]:
        """Families whose resources below it are counted, each with the field that says how many there are."""
        return {fact.extra["counts"]: fact.name for fact in self.additions if "counts" in fact.extra}

    @cached_property
    def flags(self) -> Mapping[str, str]:
        """Hidden field to the field of the answer that says whether it is set."""
        return {fact.name: fact.extra["hidden"] for fact in self.facts if fact.extra.get("hidden")}

    @cached_property
    def fixed(self) -> frozenset[str]:
        return frozenset(fact.name for fact in self.facts if "fixed" in fact.extra)

    @cached_property
    def sent_to(self) -> Mapping[str, tuple[str, ...]]:
        """Hidden field to the fields that decide where the server sends it."""
        return {fact.name: fact.extra["sent_to"] for fact in self.facts if "hidden" in fact.extra}

    @cached_property
    def veiled(self) -> frozenset[str]:
        """Fields with an address that only Admin sees whole."""
        return frozenset(fact.name for fact in self.facts if "veiled" in fact.extra)

    @cached_property
    def references(self) -> Mapping[str, ReferenceField]:
        """Path of a field, such as `git_repository.git_token_id`, to what its id must name."""
        return dict(_references(self.spec, ""))

    @cached_property
    def owners(self) -> frozenset[str]:
        """Fields of the answer that hold the id of something above."""
        return frozenset(field.name for field in fields(self.shown) if _is_owner(field.type))

    @cached_property
    def view(self) -> type[Struct]:
        """What the API answers: the base fields, then what was sent, then what the server adds."""
        own = {fact.info.name: _declaration(fact.info) for fact in self.additions if "once" not in fact.extra}
        sent = {
            fact.name: own.pop(fact.name, _declaration(fact.info))
            for fact in self.facts
            if fact.name not in self.hidden
        }
        flags = {flag: (flag, self._flag(field), False) for field, flag in self.flags.items()}
        base = {field.name: _declaration(field) for field in fields(Base)}
        if own.keys() >= base.keys() and not sent:
            return self.shown  # It says it all itself.
        declared = [*(base | sent | own | flags).values()]
        return _struct(self.title, declared, Shown)

    def _flag(self, field: str) -> Any:
        """The type of the flag of a hidden field: one that is required is always set."""
        is_required = any(fact.info.required for fact in self.facts if fact.name == field)
        return Annotated[bool, example(True)] if is_required else bool

    @cached_property
    def fresh(self) -> type[Struct]:
        """What a creation answers: the view, and what is shown once."""
        once = [fact.info for fact in self.additions if "once" in fact.extra]
        if not once:
            return self.view
        declared = [_declaration(field) for field in (*fields(self.view), *once)]
        return _struct(f"{self.title}Created", declared, Shown)

    @cached_property
    def kept(self) -> frozenset[str]:
        """Fields that stay as they are if a PUT leaves them out: there is no default to go back to."""
        marked = {fact.name for fact in self.facts if "kept" in fact.extra or fact.info.required}
        return self.hidden | self.fixed | marked

    @cached_property
    def edit(self) -> type[Spec]:
        """The body of a PUT: a whole spec, in which fields with a default and kept ones may be left out."""
        declared = [
            (fact.name, fact.info.type | UnsetType, UNSET)
            if fact.name in self.kept
            else _declaration(fact.info)
            for fact in self.facts
        ]
        return _struct(f"{self.title}Edit", declared, Spec)

    @cached_property
    def patch(self) -> type[Spec]:
        """The body of a PATCH: any part of the spec, at every depth; null removes a value."""
        return _partial_struct(self.spec, f"{self.title}Patch")

    def key_of(self, document: Mapping[str, Any]) -> str | None:
        """The name by which siblings are told apart."""
        if self.names is None:
            return None
        name = str(document[self.names])
        return name if self.exact_names else name.casefold()


def _facts(struct: type[Struct]) -> tuple[Facts, ...]:
    return tuple(Facts(info, extra_of(info.type)) for info in fields(struct))


@cache
def _partial_struct(spec: type[Spec], name: str) -> type[Spec]:
    declared = [
        # What has to be there cannot be taken away.
        (field.encode_name, _partial(field.type) | UnsetType | (UnsetType if field.required else None), UNSET)
        for field in fields(spec)
    ]
    return _struct(name, declared, Spec)


def _partial(annotation: Any) -> Any:
    """The same type, with objects that may be sent in part. Items of lists are sent whole."""
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        return _partial_struct(annotation, f"{annotation.__name__.removesuffix('Request')}Patch")
    match get_origin(annotation), get_args(annotation):
        case origin, args if origin in {Union, UnionType}:
            return Union[tuple(_partial(one) for one in args)]  # noqa: UP007 (made at run time)
        case origin, (inner, *said) if origin is Annotated:
            return Annotated[(_partial(inner), *said)]
        case _:
            return annotation


@cache
def with_any_text(spec: type[Spec], names: frozenset[str]) -> type[Spec]:
    """The spec, with any text in these fields: for values that were stored under earlier rules."""
    declarations = [_declaration(field) for field in fields(spec) if field.encode_name in names]
    return _struct(
        spec.__name__, [(name, _any_text(type), *default) for name, type, *default in declarations], spec
    )


def _any_text(annotation: Any) -> Any:
    match get_origin(annotation), get_args(annotation):
        case origin, args if origin in {Union, UnionType}:
            return Union[tuple(_any_text(one) for one in args)]  # noqa: UP007 (made at run time)
        case origin, (inner, *_) if origin is Annotated and inner is str:
            return str
        case _:
            return annotation


def _struct(name: str, declared: Iterable[tuple[Any, ...]], base: type[T]) -> type[T]:
    """A struct made at run time. (msgspec.defstruct does not go together with a metaclass.)"""
    space: dict[str, Any] = {"__annotations__": {}, "__module__": __name__}
    for field, annotation, *default in declared:
        space["__annotations__"][field] = annotation
        if default:
            space[field] = default[0]
    make: Any = type(base)
    return cast(type[T], make(name, (base,), space))


def _declaration(field: FieldInfo) -> tuple[Any, ...]:
    if field.default_factory is not msgspec.NODEFAULT:
        return (field.name, field.type, msgspec.field(default_factory=field.default_factory))
    if field.default is not msgspec.NODEFAULT:
        return (field.name, field.type, field.default)
    return (field.name, field.type)


def extra_of(annotation: Any) -> Mapping[str, Any]:
    """Returns the metadata that `refers`, `hidden` and others put on an annotation, also inside a union."""
    return _extra_of(msgspec.inspect.type_info(annotation))


def _extra_of(info: msgspec.inspect.Type) -> Mapping[str, Any]:
    match info:
        case msgspec.inspect.Metadata(type=inner, extra=extra):
            return {**(extra or {}), **_extra_of(inner)}
        case msgspec.inspect.UnionType(types=types):
            return {key: value for part in types for key, value in _extra_of(part).items()}
        case _:
            return {}


def _references(spec: type[Struct], above: str) -> Iterator[tuple[str, ReferenceField]]:
    for info in fields(spec):
        extra, path = extra_of(info.type), above + info.encode_name
        if "refers" in extra:
            opens = extra.get("opens", "")
            yield path, ReferenceField(extra["refers"], opens and above + opens)
        if inner := struct_of(info.type):
            yield from _references(inner, f"{path}.")


def struct_of(annotation: Any, *, in_lists: bool = False) -> type[Struct] | None:
    """Returns the struct that a field holds, if it holds one; `in_lists`: or a list of."""
    return _struct_in(msgspec.inspect.type_info(annotation), in_lists)


def _struct_in(info: msgspec.inspect.Type, in_lists: bool) -> type[Struct] | None:
    match info:
        case msgspec.inspect.Metadata(type=inner):
            return _struct_in(inner, in_lists)
        case msgspec.inspect.ListType(item_type=item) if in_lists:
            return _struct_in(item, in_lists)
        case msgspec.inspect.UnionType(types=types):
            return next((found for part in types if (found := _struct_in(part, in_lists))), None)
        case msgspec.inspect.StructType(cls=cls):
            return cls
        case _:
            return None


def _is_owner(annotation: Any) -> bool:
    return annotation is Owner


def clash(field: str, reason: str) -> Invalid:
    """A rule between fields was broken: `normalise` raises what this makes."""
    return Invalid(f"{field}: {reason}")
