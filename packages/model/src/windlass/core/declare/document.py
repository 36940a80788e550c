"""Converts a resource between the representations of requests, of the store, and of responses. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from windlass.base.errors import Invalid
from windlass.core.declare.resource import Family, Spec
from windlass.core.declare.spec import fields_of
from windlass.core.declare.structs import extra_of, struct_of, with_any_text
from windlass.core.declare.validation import convert

Document = dict[str, object]
"""A decoded but unchecked JSON object. It has to be converted to a struct before its fields are used."""

_PLAIN_TYPES: Final = (
    msgspec.inspect.StrType,
    msgspec.inspect.IntType,
    msgspec.inspect.FloatType,
    msgspec.inspect.BoolType,
    msgspec.inspect.NoneType,
    msgspec.inspect.EnumType,
    msgspec.inspect.LiteralType,
)


REDACTED_PATH: Final = "***"
"""Replaces the path of an address that may contain a secret. Its characters are valid in an address, so
clients can send the response back."""
_ADDRESS_PATTERN: Final = re.compile(r"(?P<origin>[^:/?#]+://[^/?#]*)/?(?P<path>.*)", re.DOTALL)


def redact(address: str) -> str:
    """Returns an address without its path, which may be secret. All callers may see the result."""
    match = _ADDRESS_PATTERN.fullmatch(address)
    if match is None:
        return REDACTED_PATH
    return f"{match['origin']}/{REDACTED_PATH}" if match["path"] else address


def is_redacted(address: Any) -> bool:
    return isinstance(address, str) and address.endswith(f"/{REDACTED_PATH}") and redact(address) == address


def view_of(family: Family, spec: Spec, extras: Mapping[str, Any]) -> Struct:
    """Builds the response for a resource: the spec without hidden fields, plus the fields that the server
    adds.

    Plain values are not converted, because they were validated on arrival or come from the server. Nested
    structs are converted to the type in the response, which may have fewer or more fields.
    """
    document: Document = msgspec.to_builtins(spec)
    for path in family.hidden:
        _remove_field(document, path)
    for name in family.redacted:
        document[name] = redact(str(document[name]))
    for name, flag in family.flags.items():
        document[flag] = bool(value_at(spec, name))
    document |= extras
    for name, shape in _nested_types(family.view).items():
        if name in document:
            document[name] = msgspec.convert(document[name], shape)
    if not document.keys() <= (declared := _field_names(family.view)):
        document = {name: value for name, value in document.items() if name in declared}
    return family.view(**document)


@cache
def _field_names(view: type[Struct]) -> frozenset[str]:
    return frozenset(view.__struct_fields__)


@cache
def _nested_types(view: type[Struct]) -> Mapping[str, Any]:
    """Returns the types of the fields that are more than plain values."""
    fields = msgspec.structs.fields(view)
    return {
        field.name: field.type for field in fields if not _is_plain(msgspec.inspect.type_info(field.type))
    }


def _is_plain(info: msgspec.inspect.Type) -> bool:
    match info:
        case msgspec.inspect.Metadata(type=inner):
            return _is_plain(inner)
        case msgspec.inspect.UnionType(types=types):
            return all(_is_plain(part) for part in types)
        case _:
            return isinstance(info, _PLAIN_TYPES)


def hidden_of(family: Family, spec: Spec) -> dict[str, str]:
    """Returns the values of fields that are encrypted instead of being part of the document."""
    values = {path: value_at(spec, path) for path in family.encrypted}
    return {path: value for path, value in values.items() if isinstance(value, str) and value}


def value_at(document: object, path: str) -> object:
    """Returns the field of a spec or document at a path; UNSET if there is none."""
    for step in path.split("."):
        if isinstance(document, dict):
            document = document.get(step, msgspec.UNSET)
        else:
            document = getattr(document, step, msgspec.UNSET)
    return document


def with_hidden(document: Mapping[str, Any], hidden_values: Mapping[str, str]) -> Document:
    """Returns a copy of a document with the hidden values inserted at their paths."""
    whole = dict(document)
    for path, value in hidden_values.items():
        first, dot, rest = path.partition(".")
        whole[first] = with_hidden(whole.get(first) or {}, {rest: value}) if dot else value
    return whole


def _remove_field(document: Document, path: str) -> None:
    first, dot, rest = path.partition(".")
    if not dot:
        document.pop(first, None)
    elif isinstance(below := document.get(first), dict):
        _remove_field(below, rest)


def sent_in(edit: Spec) -> Document:
    """Returns the fields of an edit, without omitted fields that have no default."""
    return dict(msgspec.to_builtins(edit))


def apply_patch(document: Mapping[str, Any], patch: Mapping[str, Any], spec: type[Struct]) -> Document:
    """Returns the document after a JSON merge patch (RFC 7396).

    If a field changes, fields that are derived from it are removed, unless the patch sets them.
    """
    stale = {
        name
        for name, follows in followed_fields(spec).items()
        if follows.source in patch
        and (follows.when_named or patch[follows.source] != document.get(follows.source))
    }
    whole = {name: value for name, value in document.items() if name not in stale}
    for name, value in patch.items():
        if value is None:
            whole.pop(name, None)
        elif isinstance(value, dict):
            below = whole.get(name)
            whole[name] = apply_patch(
                below if isinstance(below, dict) else {}, value, _nested_struct(spec, name)
            )
        else:
            whole[name] = value
    return whole


class _OpenObject(Struct):
    """An object without declared fields."""


@cache
def _nested_struct(spec: type[Struct], name: str) -> type[Struct]:
    """Returns the struct type of a field, including a struct in a list."""
    types = {field.encode_name: field.type for field in msgspec.structs.fields(spec)}
    return (struct_of(types[name], in_lists=True) if name in types else None) or _OpenObject


def replace_spec(
    family: Family,
    stored_document: Document,
    hidden_values: Mapping[str, str],
    request_body: Mapping[str, Any],
) -> Spec:
    """Returns the spec after a PUT. Omitted fields keep their stored values if they are hidden or marked as
    kept."""
    present = with_hidden(narrow_document(stored_document, family.spec), hidden_values)
    kept = {name: value for name, value in present.items() if name in family.kept}
    whole = {**kept, **request_body}
    left_out = {path: value for path, value in hidden_values.items() if _is_left_out(whole, path)}
    return _convert(with_hidden(whole, left_out), present, family.spec)


def _is_left_out(document: Document, path: str) -> bool:
    """Returns whether a field is missing although the object that would contain it is present."""
    above, dot, _ = path.rpartition(".")
    is_held = not dot or isinstance(value_at(document, above), dict)
    return is_held and value_at(document, path) is msgspec.UNSET


def merge_patched(
    family: Family, stored_document: Document, hidden_values: Mapping[str, str], changes: Mapping[str, Any]
) -> Spec:
    """Returns the stored spec with a JSON merge patch applied."""
    present = with_hidden(narrow_document(stored_document, family.spec), hidden_values)
    return _convert(apply_patch(present, changes, family.spec), present, family.spec)


def restore_spec(
    family: Family,
    stored_document: Document,
    hidden_values: Mapping[str, str],
    former_fields: Mapping[str, Any],
) -> Spec:
    """Returns the stored spec with whole fields replaced by former ones. UNSET removes a field."""
    present = with_hidden(narrow_document(stored_document, family.spec), hidden_values)
    whole = {
        name: value for name, value in {**present, **former_fields}.items() if value is not msgspec.UNSET
    }
    return _convert(whole, present, family.spec)


def _convert(document: Document, present: Document, spec: type[Spec]) -> Spec:
    """Converts a document to a spec. Texts that equal the stored texts are not validated again.

    A stored text may violate newer rules, and a client that changes another field should not have to fix it.
    """
    try:
        return convert(document, spec)
    except Invalid:
        same = frozenset(
            name for name, value in document.items() if isinstance(value, str) and present.get(name) == value
        )
        return convert(document, with_any_text(spec, same))


def narrow_document(document: Mapping[str, Any], spec: type[Struct]) -> Document:
    """Removes fields that a client cannot send from a served document, at every depth."""
    fields = _types_of(spec)
    return {name: _narrow_value(value, fields[name]) for name, value in document.items() if name in fields}


@cache
def _types_of(spec: type[Struct]) -> Mapping[str, msgspec.inspect.Type]:
    return {field.encode_name: msgspec.inspect.type_info(field.type) for field in fields_of(spec)}


def forgiven(document: Any, spec: type[Struct]) -> Any:
    """Removes fields that other client versions send but this server does not accept: read-only and unknown
    fields, and empty ids of list items, which are new items. Adds defaults that differ for these clients."""
    if not isinstance(document, dict):
        return document
    return _defaults_in_full(spec) | _without_empty_ids(narrow_document(document, spec), spec)


@cache
def _defaults_in_full(spec: type[Struct]) -> Document:
    """Returns the defaults that differ for clients of the full interface; none if fields that are left out
    keep their value."""
    return {
        field.encode_name: extra_of(field.type)["in_full_default"]
        for field in msgspec.structs.fields(spec)
        if field.default is not msgspec.UNSET and "in_full_default" in extra_of(field.type)
    }


def _without_empty_ids(value: Any, spec: type[Struct]) -> Any:
    for name, inner in value.items():
        below = _nested_struct(spec, name)
        if isinstance(inner, dict):
            value[name] = _without_empty_ids(inner, below)
        elif isinstance(inner, list):
            value[name] = [_without_empty_id(item, below) for item in inner]
    return value


def _without_empty_id(item: Any, spec: type[Struct]) -> Any:
    if not isinstance(item, dict):
        return item
    optional = any(field.encode_name == "id" and not field.required for field in msgspec.structs.fields(spec))
    kept = {name: value for name, value in item.items() if not (optional and name == "id" and value == "")}
    return _without_empty_ids(kept, spec)


def _narrow_value(value: Any, info: msgspec.inspect.Type) -> Any:
    match info:
        case msgspec.inspect.Metadata(type=inner):
            return _narrow_value(value, inner)
        case msgspec.inspect.UnionType(types=types):
            return _narrow_value(value, next((part for part in types if _holds_struct(part)), types[0]))
        case msgspec.inspect.ListType(item_type=item) if isinstance(value, list):
            return [_narrow_value(entry, item) for entry in value]
        case msgspec.inspect.StructType(cls=cls) if isinstance(value, dict):
            return narrow_document(value, cls)
        case _:
            return value


class FollowedField(Struct, frozen=True):
    """The source field from which another field is derived."""

    source: str
    when_named: bool


@cache
def followed_fields(spec: type[Struct]) -> Mapping[str, FollowedField]:
    """Maps each derived field to its source field."""
    named = {field.encode_name: extra_of(field.type) for field in msgspec.structs.fields(spec)}
    return {
        name: FollowedField(extra["follows"], extra["when_named"])
        for name, extra in named.items()
        if "follows" in extra
    }


def _holds_struct(info: msgspec.inspect.Type) -> bool:
    match info:
        case msgspec.inspect.Metadata(type=inner):
            return _holds_struct(inner)
        case msgspec.inspect.StructType() | msgspec.inspect.ListType():
            return True
        case _:
            return False
