"""Decodes stored documents into the structs that declare them, so that types are checked.

A document is the API's response as JSON. It was valid when it was written, possibly under earlier rules.
Therefore patterns and limits are not checked again, missing fields get their defaults, and unknown fields are
ignored. `rewritten` preserves unknown fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, UNSET, Struct
from msgspec.structs import FieldInfo, fields

from windlass.core.declare.structs import extra_of, struct_of

T = TypeVar("T", bound=Struct)


class NamedDocument(Struct):
    """A document of a family with names."""

    name: str


def read(body: bytes, struct: type[T]) -> T:
    """Decodes the fields of a stored document that the struct declares, such as the spec of a family."""
    return cast(T, _decoder(struct)(body))


def read_decoded(document: Mapping[str, object], struct: type[T]) -> T:
    """Converts a decoded document to the struct, with the same leniency as `read`."""
    return cast(T, msgspec.convert(document, stored_form(struct)))


def rewritten(body: bytes, changes: Mapping[str, object]) -> bytes:
    """Returns a stored document with changed values, at every depth. All other fields are preserved."""
    return msgspec.json.encode(_merge_changes(msgspec.json.decode(body), changes))


def with_unknown(
    new_document: dict[str, object], stored_document: Mapping[str, object], struct: type[Struct]
) -> dict[str, object]:
    """Adds fields of the stored document that the struct does not declare to a new document, at every depth.

    A later version may have stored such fields. Items of lists have no counterpart and stay unchanged.
    """
    declared = _structs_of_fields(struct)
    for name, value in stored_document.items():
        if name not in declared:
            new_document[name] = value
            continue
        inner, below = declared[name], new_document.get(name)
        if inner and isinstance(below, dict) and isinstance(value, dict):
            new_document[name] = with_unknown(below, value, inner)
    return new_document


@cache
def _structs_of_fields(struct: type[Struct]) -> Mapping[str, type[Struct] | None]:
    """Maps the fields of a struct to their struct types; None for other fields."""
    return {field.encode_name: struct_of(field.type) for field in fields(struct)}


def raise_count(body: bytes, field: str, step: int) -> bytes:
    """Returns a stored document with `step` added to a counter field."""
    present = msgspec.json.decode(body).get(field, 0)
    return rewritten(body, {field: present + step})


def _merge_changes(document: dict[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    for name, value in changes.items():
        present = document.get(name)
        if isinstance(value, Mapping) and isinstance(present, dict):
            document[name] = _merge_changes(present, value)
        else:
            document[name] = value
    return document


@cache
def _decoder(struct: type[Struct]) -> Callable[[bytes], Struct]:
    return msgspec.json.Decoder(stored_form(struct)).decode


@cache
def stored_form(struct: type[Struct]) -> type[Struct]:
    """Returns a subclass that accepts values that earlier or later versions may have stored."""
    declared = [_field_declaration(field) for field in fields(struct)]
    space: dict[str, Any] = {
        "__annotations__": {name: annotation for name, annotation, _ in declared},
        "__module__": __name__,
        **{name: default for name, _, default in declared if default is not NODEFAULT},
    }
    make: Any = type(struct)
    options = {"forbid_unknown_fields": False, "kw_only": True, "frozen": struct.__struct_config__.frozen}
    return cast(type[Struct], make(struct.__name__, (struct,), space, **options))


def _field_declaration(field: FieldInfo) -> tuple[str, Any, Any]:
    if extra_of(field.type).keys() & {
        "hidden",
        "shown_once",
    }:  # encrypted separately, or not stored
        return field.name, Any, UNSET
    annotation = _without_limits(field.type)
    if field.default_factory is not NODEFAULT:
        return field.name, annotation, msgspec.field(default_factory=field.default_factory)
    return field.name, annotation, field.default


def _without_limits(annotation: Any) -> Any:
    """Returns the type without patterns and limits, at every depth."""
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return stored_form(annotation)
    match get_origin(annotation), get_args(annotation):
        case origin, (inner, *_) if origin is Annotated:
            return _without_limits(inner)
        case origin, values if origin is Literal:
            return Union[tuple(type(value) for value in values)]  # noqa: UP007 (made at run time)
        case origin, parts if origin in {Union, UnionType}:
            return Union[tuple(_without_limits(part) for part in parts)]  # noqa: UP007 (made at run time)
        case origin, parts if origin in {list, dict}:
            return origin[tuple(_without_limits(part) for part in parts)]
        case _:
            return annotation
