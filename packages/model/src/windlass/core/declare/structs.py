"""Inspects structs and builds new ones: annotated fields, partial structs, references."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import FieldInfo

from windlass.core.declare.spec import Spec, fields_of, ordered_fields

T = TypeVar("T", bound=Struct)


class DeclaredField(NamedTuple):
    """A field of a struct, with the extra metadata of its annotation."""

    info: FieldInfo
    extra: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.info.encode_name


class ReferenceField(NamedTuple):
    """A field that contains the id of another resource."""

    family: str
    opens: str
    """For a credential, the path of the field with the address that the credential is sent to."""


def declared_fields(struct: type[Struct]) -> tuple[DeclaredField, ...]:
    return tuple(DeclaredField(info, extra_of(info.type)) for info in ordered_fields(struct))


@cache
def partial_struct(spec: type[Spec], name: str) -> type[Spec]:
    declared = [
        # A required field cannot be removed.
        (
            field.encode_name,
            _partial_type(field.type) | UnsetType | (UnsetType if field.required else None),
            UNSET,
        )
        for field in ordered_fields(spec)
    ]
    return build_struct(name, declared, Spec)


def _partial_type(annotation: Any) -> Any:
    """Returns the type with nested objects made partial. List items have to be sent whole."""
    if isinstance(annotation, type) and issubclass(annotation, Spec):
        return partial_struct(annotation, f"{annotation.__name__.removesuffix('Request')}Patch")
    match get_origin(annotation), get_args(annotation):
        case origin, args if origin in {Union, UnionType}:
            return Union[tuple(_partial_type(part) for part in args)]  # noqa: UP007 (built at run time)
        case origin, (inner, *metadata) if origin is Annotated:
            return Annotated[(_partial_type(inner), *metadata)]
        case _:
            return annotation


@cache
def with_any_text(spec: type[Spec], names: frozenset[str]) -> type[Spec]:
    """Returns the spec with all texts allowed in these fields, for values that were stored under earlier
    rules."""
    declarations = [declaration(field) for field in fields_of(spec) if field.encode_name in names]
    return build_struct(
        spec.__name__,
        [(name, _unlimited_text_type(type), *default) for name, type, *default in declarations],
        spec,
    )


def _unlimited_text_type(annotation: Any) -> Any:
    match get_origin(annotation), get_args(annotation):
        case origin, args if origin in {Union, UnionType}:
            return Union[tuple(_unlimited_text_type(part) for part in args)]  # noqa: UP007 (built at run time)
        case origin, (inner, *_) if origin is Annotated and inner is str:
            return str
        case _:
            return annotation


def build_struct(name: str, field_declarations: Iterable[tuple[Any, ...]], base: type[T]) -> type[T]:
    """Builds a struct at runtime. msgspec.defstruct is not used because it does not support metaclasses."""
    space: dict[str, Any] = {"__annotations__": {}, "__module__": __name__}
    for field, annotation, *default in field_declarations:
        space["__annotations__"][field] = annotation
        if default:
            space[field] = default[0]
    make: Any = type(base)
    return cast(type[T], make(name, (base,), space))


def declaration(field: FieldInfo) -> tuple[Any, ...]:
    if field.default_factory is not msgspec.NODEFAULT:
        return (field.name, field.type, msgspec.field(default_factory=field.default_factory))
    if field.default is not msgspec.NODEFAULT:
        return (field.name, field.type, field.default)
    return (field.name, field.type)


# Annotations are read directly. `msgspec.inspect` also describes all nested types, which would take as long
# as the rest of the registry at every start.


def extra_of(annotation: Any) -> Mapping[str, Any]:
    """Returns the extra metadata of an annotation, as set by `refers`, `hidden` and similar functions.
    Includes the members of a union."""
    match get_origin(annotation), get_args(annotation):
        case origin, (inner, *metadata) if origin is Annotated:
            extras = [meta.extra for meta in metadata if isinstance(meta, Meta) and meta.extra]
            return {key: value for extra in (*extras, extra_of(inner)) for key, value in extra.items()}
        case origin, parts if origin in {Union, UnionType}:
            return {key: value for part in parts for key, value in extra_of(part).items()}
        case _:
            return {}


def has_annotation(annotation: Any, meta: Meta) -> bool:
    """Returns whether a type or a part of it has this annotation."""
    return meta in getattr(annotation, "__metadata__", ()) or any(
        has_annotation(part, meta) for part in get_args(annotation)
    )


def references_of(spec: type[Struct], prefix: str) -> Iterator[tuple[str, ReferenceField]]:
    for info in fields_of(spec):
        extra, path = extra_of(info.type), prefix + info.encode_name
        if "refers" in extra:
            opens = extra.get("opens", "")
            yield path, ReferenceField(extra["refers"], opens and prefix + opens)
        if inner := struct_of(info.type):
            yield from references_of(inner, f"{path}.")


def reference_lists_of(spec: type[Struct]) -> Iterator[tuple[str, str]]:
    """Yields each field with a list of references `{"id": …}`, with the family to which they refer."""
    for info in fields_of(spec):
        if struct_of(info.type) is None and (item := struct_of(info.type, in_lists=True)):
            for path, reference in references_of(item, ""):
                if path == "id":
                    yield info.encode_name, reference.family


def hidden_fields_of(spec: type[Struct], prefix: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the path of each hidden field, such as `token` or `config.password`, with its metadata."""
    for info in fields_of(spec):
        extra, path = extra_of(info.type), prefix + info.encode_name
        if "hidden" in extra:
            yield path, extra
        elif inner := struct_of(info.type):
            yield from hidden_fields_of(inner, f"{path}.")


def staying_fields_of(spec: type[Struct], prefix: str = "") -> Iterator[str]:
    """Yields the path of each field whose value a rollback does not change."""
    for info in fields_of(spec):
        path = prefix + info.encode_name
        if "stays" in extra_of(info.type):
            yield path
        elif inner := struct_of(info.type):
            yield from staying_fields_of(inner, f"{path}.")


def struct_of(annotation: Any, *, in_lists: bool = False) -> type[Struct] | None:
    """Returns the struct type of a field; None if it has none. `in_lists`: whether structs in lists count."""
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return annotation
    match get_origin(annotation), get_args(annotation):
        case origin, (inner, *_) if origin is Annotated or (origin is list and in_lists):
            return struct_of(inner, in_lists=in_lists)
        case origin, parts if origin in {Union, UnionType}:
            return next((held for part in parts if (held := struct_of(part, in_lists=in_lists))), None)
        case _:
            return None
