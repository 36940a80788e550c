"""From what a client sent to the document that is served, and back: pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from windlass.core.resource import Family, Spec

Document = dict[str, Any]

_PLAIN: Final = (
    msgspec.inspect.StrType,
    msgspec.inspect.IntType,
    msgspec.inspect.FloatType,
    msgspec.inspect.BoolType,
    msgspec.inspect.NoneType,
    msgspec.inspect.EnumType,
    msgspec.inspect.LiteralType,
)


def view_of(family: Family, spec: Spec, extras: Mapping[str, Any]) -> Struct:
    """The answer: what was sent, without what is hidden, with what the server adds.

    Plain values were checked when they came, or are the server's own; what has a shape is brought into that
    of the answer, which may show less of it, or more."""
    document: Document = msgspec.to_builtins(spec)
    for name in family.hidden:
        document.pop(name, None)
    for name, flag in family.flags.items():
        document[flag] = bool(getattr(spec, name))
    document |= extras
    shapes = _shapes(family.view)
    return family.view(
        **{
            name: value if (shape := shapes[name]) is None else msgspec.convert(value, shape)
            for name, value in document.items()
            if name in shapes
        }
    )


@cache
def _shapes(view: type[Struct]) -> Mapping[str, Any]:
    """The fields of an answer, each with its type if that is more than a plain value."""
    fields = msgspec.structs.fields(view)
    return {
        field.name: None if _is_plain(msgspec.inspect.type_info(field.type)) else field.type
        for field in fields
    }


def _is_plain(info: msgspec.inspect.Type) -> bool:
    match info:
        case msgspec.inspect.Metadata(type=inner):
            return _is_plain(inner)
        case msgspec.inspect.UnionType(types=types):
            return all(_is_plain(one) for one in types)
        case _:
            return isinstance(info, _PLAIN)


def hidden_of(family: Family, spec: Spec) -> dict[str, str]:
    """What is sealed instead of served."""
    return {name: value for name in sorted(family.hidden) if (value := getattr(spec, name))}


def changes_of(edit: Spec) -> Document:
    """What an edit names; absent fields are not in it."""
    return dict(msgspec.to_builtins(edit))


def merged(family: Family, stored: Document, hidden: Mapping[str, str], changes: Mapping[str, Any]) -> Spec:
    """The spec as it would have been sent whole: the stored one with the changes laid over it."""
    whole = {**narrowed(stored, family.spec), **hidden, **changes}
    return msgspec.convert(whole, family.spec)


def narrowed(document: Mapping[str, Any], spec: type[Struct]) -> Document:
    """A served document without the fields that a client cannot send, at every depth."""
    fields = {
        field.encode_name: msgspec.inspect.type_info(field.type) for field in msgspec.structs.fields(spec)
    }
    return {name: _narrow(value, fields[name]) for name, value in document.items() if name in fields}


def _narrow(value: Any, info: msgspec.inspect.Type) -> Any:
    match info:
        case msgspec.inspect.Metadata(type=inner):
            return _narrow(value, inner)
        case msgspec.inspect.UnionType(types=types):
            return _narrow(value, next((one for one in types if _holds_struct(one)), types[0]))
        case msgspec.inspect.ListType(item_type=item) if isinstance(value, list):
            return [_narrow(one, item) for one in value]
        case msgspec.inspect.StructType(cls=cls) if isinstance(value, dict):
            return narrowed(value, cls)
        case _:
            return value


def _holds_struct(info: msgspec.inspect.Type) -> bool:
    match info:
        case msgspec.inspect.Metadata(type=inner):
            return _holds_struct(inner)
        case msgspec.inspect.StructType() | msgspec.inspect.ListType():
            return True
        case _:
            return False
