"""Converts the fields of a request body to options, and option values to a body. Derived from the Struct with
which the API validates the body.

An option is named by the field's path, as in messages of the API: `git_repository.url` becomes
`--git-repository.url`. A field that is not a scalar, such as a list of ports, expects JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import NODEFAULT, UNSET, Struct
from msgspec import inspect as types

from windlass.core.declare.spec import ordered_fields
from windlass.core.words.naming import kebab

Path = tuple[str, ...]
JSON: Final = "json"
_SCALAR_TYPES: Mapping[type[types.Type], type] = {
    types.StrType: str,
    types.IntType: int,
    types.FloatType: float,
    types.BoolType: bool,
}


_FILE_MARKERS: Final = frozenset({"hidden", "redacted", "several_lines"})
"""Annotations of fields whose value may be read from a file."""


_FIELD_IN_MESSAGE_PATTERN: Final = re.compile(r"([A-Za-z_]\w*(?:\[\d+\])*(?:\.[A-Za-z_]\w*(?:\[\d+\])*)*): ")
"""Matches the field path at the beginning of an error message."""
_INDEX_PATTERN: Final = re.compile(r"(?:\[\d+\])+$")


class ShortForm(Struct, frozen=True):
    """A short option for a list of objects. Its value is one number per object."""

    name: str
    sets: str
    others: Mapping[str, Any]
    meaning: str

    def objects(self, ports: Iterable[int]) -> list[dict[str, Any]]:
        return [{self.sets: number, **self.others} for number in ports]


class Field(Struct, frozen=True, kw_only=True):
    path: Path
    kind: type | None
    """The Python type of the field; None for arbitrary JSON."""
    many: bool = False
    choices: tuple[str, ...] = ()
    meaning: str = ""
    refers: str = ""
    """The family whose id the field contains."""
    default: Any = NODEFAULT
    required: bool = False
    is_read_from_files: bool = False
    """Returns whether the value may be read from a file, as for secrets and texts of several lines."""
    short: ShortForm | None = None
    is_ignored: bool = False

    @property
    def option(self) -> str:
        return "--" + ".".join(kebab(name) for name in self.path)

    @property
    def deep(self) -> bool:
        """Returns whether the field is nested so deeply that help does not list its option."""
        return len(self.path) > 2

    def name_option(self, named: str, option: str = "") -> str:
        """Returns the option that sets the field in an error message. If the option sets more than this
        field, the field follows in parentheses: `--port (ports[0].internal_port)`."""
        is_itself = named == ".".join(self.path) and not option
        return self.option if is_itself else f"{option or self.option} ({named})"

    @property
    def has_option(self) -> bool:
        return not self.is_ignored and not self.meaning.startswith("Deprecated")


def fields_of(spec: type[Struct], without: frozenset[str] = frozenset()) -> list[Field]:
    """Returns the fields that have options. Deprecated fields have none, because their successors do.
    Neither have fields that the server ignores."""
    fields = _fields(spec, (), frozenset(), True)
    return [field for field in fields if field.path[0] not in without and field.has_option]


def _fields(
    spec: type[Struct], above: Path, seen_types: frozenset[type], is_required: bool
) -> Iterator[Field]:
    """Yields the fields that become options. `is_required`: whether all enclosing fields are required."""
    for field in ordered_fields(spec):
        path = (*above, field.encode_name)
        kind, extra = _without_null(types.type_info(field.type))
        required = field.required and is_required
        if isinstance(kind, types.StructType) and kind.cls not in seen_types:
            yield from _fields(kind.cls, path, seen_types | {kind.cls}, required)
        else:
            yield _field(path, kind, extra, field.default, required)


def _field(path: Path, kind: types.Type, extra: Mapping[str, Any], default: Any, required: bool) -> Field:
    many = isinstance(kind, types.ListType)
    inner, of_each = _without_null(kind.item_type) if isinstance(kind, types.ListType) else (kind, {})
    scalar, choices = _scalar(inner)
    extra = {**of_each, **extra}
    return Field(
        path=path,
        kind=scalar,
        many=many and scalar is not None,
        choices=choices,
        meaning=str(extra.get("description", "")),
        refers=str(extra.get("refers") or extra.get("names", "")),
        default=default if scalar is not None and default is not UNSET else NODEFAULT,
        required=required,
        is_read_from_files=scalar is str and not choices and not _FILE_MARKERS.isdisjoint(extra),
        short=ShortForm(*extra["short_form"]) if "short_form" in extra else None,
        is_ignored="ignored" in extra,
    )


def _scalar(kind: types.Type) -> tuple[type | None, tuple[str, ...]]:
    match kind:
        case types.LiteralType(values=values) if all(isinstance(value, str) for value in values):
            return str, tuple(str(value) for value in values)
        case types.EnumType(cls=cls):
            return str, tuple(str(member.value) for member in cls)
        case _:
            return _SCALAR_TYPES.get(type(kind)), ()


def _without_null(kind: types.Type) -> tuple[types.Type, dict[str, Any]]:
    """Returns a type without UNSET and None, and the annotations of the type."""
    match kind:
        case types.Metadata(type=inner, extra=extra, extra_json_schema=schema):
            bare, metadata = _without_null(inner)
            return bare, metadata | (schema or {}) | (extra or {})
        case types.UnionType(types=several):
            left = [option for option in several if not isinstance(option, types.NoneType)]
            return _without_null(left[0]) if len(left) == 1 else (kind, {})
        case _:
            return kind, {}


def named_field(message: str, fields: Iterable[Field]) -> tuple[str, Field] | None:
    """Returns the field path at the beginning of an error message, such as `ports[0].internal_port`, and the
    field that contains it. None if the message does not begin with a field."""
    match = _FIELD_IN_MESSAGE_PATTERN.match(message)
    if match is None:
        return None
    steps = tuple(_INDEX_PATTERN.sub("", step) for step in match[1].split("."))
    around = [field for field in fields if steps[: len(field.path)] == field.path]
    return (match[1], max(around, key=lambda field: len(field.path))) if around else None


def body_of(base: Mapping[str, Any], values: Iterable[tuple[Path, Any]]) -> dict[str, Any]:
    """Returns a copy of `base` with each value set at its path. Later values override earlier values."""
    body = dict(base)
    for path, value in values:
        inner = body
        for name in path[:-1]:
            below = inner.get(name)
            inner[name] = dict(below) if isinstance(below, dict) else {}
            inner = inner[name]
        inner[path[-1]] = value
    return body


def json_of(text: str, field: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{field}: {text!r} is not JSON: {error}") from error
