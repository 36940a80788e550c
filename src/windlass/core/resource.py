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
    dataclass_transform,
    get_args,
    get_origin,
)

import msgspec
from msgspec import UNSET, Struct, StructMeta, UnsetType
from msgspec.structs import FieldInfo, fields

from windlass.base.errors import Invalid
from windlass.core.access import Scope
from windlass.core.fields import Id, Timestamp

T = TypeVar("T", bound=Struct)


class _Named(StructMeta):
    """Structs whose fields go by name, in subclasses too (msgspec's own `kw_only` is not inherited)."""

    def __new__(mcls, name: str, bases: tuple[type, ...], space: dict[str, Any], **options: Any) -> _Named:
        return super().__new__(mcls, name, bases, space, **{"kw_only": True, **options})


@dataclass_transform(kw_only_default=True, field_specifiers=(msgspec.field,))
class Spec(Struct, metaclass=_Named, forbid_unknown_fields=True):
    """What a client may send: unknown fields are refused by name."""


@dataclass_transform(kw_only_default=True, field_specifiers=(msgspec.field,))
class Shown(Struct, metaclass=_Named):
    """What the server adds to an answer."""


class Owner(Struct):
    """`{"id": …}` of something above, filled from the field's name."""

    id: Id


class Base(Shown):
    id: Id
    created_at: Timestamp
    updated_at: Timestamp


class Verb(StrEnum):
    CREATE = "create"
    LIST = "list"
    READ = "read"
    UPDATE = "update"
    PATCH = "patch"
    """Comes with `UPDATE`: no family declares it."""
    DELETE = "delete"


ALL = frozenset(Verb)


class Action(Struct, frozen=True, kw_only=True):
    """Something that can be done with a resource beyond the five verbs."""

    name: str
    """Names the handler, and with the family's title the operation."""
    id: str = ""
    """Names the operation, where the derived name is not the wanted one."""
    method: str
    suffix: str
    """What follows the path of the resource, such as `/deploy`."""
    need: Scope
    summary: str
    body: type[Spec] | None = None
    query: type[Spec] | None = None
    answer: type[Struct] | None = None
    answers_itself: bool = False
    """Answers a resource of the family."""
    listing: bool = False
    """Answers `results`, of `answer`."""
    paged: bool = True
    streams: bool = False
    """Answers server-sent events, each with an `answer` as its data; the query says whether to go on."""
    outside: bool = False
    """Starts programs, or asks other machines, while the caller waits: it ends when the caller hangs up."""
    status: int = 200
    also: tuple[int, ...] = ()
    """Other statuses that it may answer: a good one has no body, a refusal is beyond those of its kind."""
    on_collection: bool = False
    description: str = ""


class Trait(Struct, frozen=True, kw_only=True):
    """What several families can do alike."""

    name: str
    actions: tuple[Action, ...] = ()


class Facts(NamedTuple):
    """One field of a Spec, with what its annotation says beyond the type."""

    info: FieldInfo
    extra: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.info.encode_name


class Reference(NamedTuple):
    """A field that holds the id of another resource."""

    family: str
    opens: str
    """For a credential: the path of the field with the address that it is sent to."""


Parent: TypeAlias = "Family | Trait | None"


class Family:
    """A kind of resource."""

    def __init__(
        self,
        name: str,
        spec: type[Spec],
        *,
        parent: Parent,
        title: str,
        group: str,
        param: str,
        shown: type[Shown] = Shown,
        about: str = "",
        verbs: frozenset[Verb] = ALL,
        traits: tuple[Trait, ...] = (),
        actions: tuple[Action, ...] = (),
        nested: bool = False,
        names: str | None = "name",
        exact_names: bool = False,
        counted_as: str | None = None,
        created: int = 201,
        write_need: Scope = Scope.WRITE,
        paged: bool = True,
        once: type[Shown] | None = None,
        settle: Callable[[Any], None] = lambda spec: None,
        in_full: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        plural: str | None = None,
    ) -> None:
        self.name = name
        self.spec = spec
        self.parent = parent
        self.title = title
        self.group = group
        self.param = param
        self.shown = shown
        self.about = about
        self.verbs = verbs
        self.traits = traits
        self.own_actions = actions
        self.nested = nested
        self.names = names
        """The field whose value is unique among siblings."""
        self.exact_names = exact_names
        self.counted_as = counted_as
        """The field of the parent's answer that counts these."""
        self.created = created
        self.write_need = write_need
        self.paged = paged
        self.once = once
        """What a creation answers once and never again."""
        self.settle = settle
        """Brings a spec into its final form, or raises Invalid: rules between fields."""
        self.in_full = in_full
        """Says a document in the full interface's words, where these are others."""
        self.plural = plural or f"{title}s"

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
        return tuple(Facts(info, extra_of(info.type)) for info in fields(self.spec))

    @cached_property
    def hidden(self) -> frozenset[str]:
        """Fields that are sealed and never answered."""
        return frozenset(fact.name for fact in self.facts if "hidden" in fact.extra)

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
    def references(self) -> Mapping[str, Reference]:
        """Path of a field, such as `git_repository.git_token_id`, to what its id must name."""
        return dict(_references(self.spec, ""))

    @cached_property
    def owners(self) -> frozenset[str]:
        """Fields of the answer that hold the id of something above."""
        return frozenset(field.name for field in fields(self.shown) if _is_owner(field.type))

    @cached_property
    def view(self) -> type[Struct]:
        """What the API answers: the base fields, then what was sent, then what the server adds."""
        own = {field.name: _declaration(field) for field in fields(self.shown)}
        sent = {
            fact.name: own.pop(fact.name, _declaration(fact.info))
            for fact in self.facts
            if fact.name not in self.hidden
        }
        flags = {flag: (flag, bool, False) for flag in self.flags.values()}
        base = {field.name: _declaration(field) for field in fields(Base)}
        if own.keys() >= base.keys() and not sent:
            return self.shown  # It says it all itself.
        declared = [*(base | sent | own | flags).values()]
        return _struct(self.title, declared, Shown)

    @cached_property
    def fresh(self) -> type[Struct]:
        """What a creation answers: the view, and what is shown once."""
        if self.once is None:
            return self.view
        declared = [_declaration(field) for field in (*fields(self.view), *fields(self.once))]
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


def _references(spec: type[Struct], above: str) -> Iterator[tuple[str, Reference]]:
    for info in fields(spec):
        extra, path = extra_of(info.type), above + info.encode_name
        if "refers" in extra:
            opens = extra.get("opens", "")
            yield path, Reference(extra["refers"], opens and above + opens)
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


def spaced(title: str) -> str:
    """`EnvironmentVariable` → `environment variable`, `APIToken` → `API token`"""
    out = ""
    for place, letter in enumerate(title):
        following = title[place + 1 : place + 2]
        if letter.isupper() and out and (not title[place - 1].isupper() or following.islower()):
            out += " "
        out += letter
    return " ".join(word if word.isupper() and len(word) > 1 else word.lower() for word in out.split())


def clash(field: str, reason: str) -> Invalid:
    """A rule between fields was broken: `settle` raises what this makes."""
    return Invalid(f"{field}: {reason}")
