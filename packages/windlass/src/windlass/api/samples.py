"""Generates examples of request and response bodies from their schemas.

The values come from an example, a default or an enum in the schema. A family declares the examples of its
fields.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from windlass.api.schemas import Schema, component_name
from windlass.core.declare.fields import EXAMPLE_MARK, LEFT_OUT, SHOWN, SUBJECT

_IDS = uuid.UUID("0b6f1a52-6a5e-4c56-9a2b-3f1d7c0e8a41")
_IN_PROGRESS: Final = object()
"""Marker for a value that has to be generated here, such as an id or an item of a list."""


def _sample_id_of(thing: str) -> str:
    """Returns the example id of a thing. The same thing has the same id in all examples."""
    return str(uuid.uuid5(_IDS, thing.replace("_", "").lower()))


NO_EXAMPLE: Final = "no example"
"""The example of a text field without a declared example. All fields of families declare one."""
_EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})
_KINDS: Final[Mapping[str, Any]] = {
    "string": str, "boolean": bool, "integer": int, "number": int | float, "array": list, "object": dict,
}  # fmt: skip


class ExamplePosition(NamedTuple):
    """The position of a value within an example."""

    owner: str = ""
    """The schema that contains the field, under the same name for requests and responses."""
    field: str = ""
    holder: str = ""
    """The field that contains the owner."""
    thing: str = ""
    """The subject of the operation."""

    def __str__(self) -> str:
        return f"{self.owner}.{self.field}"


ANY_POSITION: Final = ExamplePosition()


class Samples:
    """Generates examples for schemas. Examples of request bodies omit fields that users would omit."""

    def __init__(self, schemas: Mapping[str, Schema], *, is_complete: bool) -> None:
        self._schemas = schemas
        self._whole = is_complete

    def of(self, schema: Schema, position: ExamplePosition = ANY_POSITION) -> Any:
        match schema:
            case {"$ref": _}:
                name = component_name(schema)
                return self.of(
                    self._schemas[name],
                    ExamplePosition(_plain_title(name), "", position.field, position.thing),
                )
            case {"allOf": [only]}:
                return self.of(only, position)
            case {"allOf": parts}:
                return {name: value for part in parts for name, value in self.of(part, position).items()}
            case {"anyOf": [first, *_]}:
                return self.of(first, position)
        fitting = (value for value in _candidates(schema, position) if _matches_schema(value, schema))
        value = next(fitting, _IN_PROGRESS)
        return self._make(schema, position) if value is _IN_PROGRESS else value

    def _make(self, schema: Schema, position: ExamplePosition) -> Any:
        match schema:
            case {"type": "object"}:
                return self._object(schema, position)
            case {"type": "array", "items": item}:
                return [self.of(item, position._replace(field=""))]
            case {"type": "string"}:
                return _text(schema, position)
            case {"type": "boolean"}:
                return True
            case {"type": "integer" | "number"}:
                return max(1, schema.get("minimum", 1))
            case _:
                return {}

    def _object(self, schema: Schema, position: ExamplePosition) -> dict[str, Any]:
        required = schema.get("required", ())
        fields = (
            (field, position._replace(field=name)) for name, field in schema.get("properties", {}).items()
        )
        return {
            inside.field: self.of(field, inside)
            for field, inside in fields
            if inside.field in required or self._is_worth_showing(field, inside)
        }

    def _is_worth_showing(self, schema: Schema, position: ExamplePosition) -> bool:
        """Returns whether an example should contain an optional field."""
        if not self._whole and schema.get("default", _IN_PROGRESS) is None:
            return False
        if schema.get(EXAMPLE_MARK) == LEFT_OUT:
            return False
        values = [
            value
            for value in _candidates(schema, position)
            if value is _IN_PROGRESS or _matches_schema(value, schema)
        ]
        return bool(values) and (self._whole or values[0] not in _EMPTY)


def _candidates(schema: Schema, position: ExamplePosition) -> Iterator[Any]:
    """Yields possible values of a field, the best first."""
    if schema.get(EXAMPLE_MARK) == SHOWN:
        yield _IN_PROGRESS
    if "example" in schema:
        yield schema["example"]
    if schema.get("default"):
        yield schema["default"]
    if position.thing and position.field == f"{position.thing}_id":
        yield _IN_PROGRESS
    if "default" in schema:
        yield schema["default"]


def _matches_schema(value: Any, schema: Schema) -> bool:
    if value is _IN_PROGRESS:
        return True
    if value is None:
        return bool(schema.get("nullable"))
    kind = _KINDS.get(schema.get("type", ""), object)
    return isinstance(value, kind) and value in schema.get("enum", [value])


def _text(schema: Schema, position: ExamplePosition) -> str:
    if "enum" in schema:
        return str(schema["enum"][0])
    if schema.get("format") == "uuid":
        return _id(schema, position)
    return NO_EXAMPLE


def _id(schema: Schema, position: ExamplePosition) -> str:
    """Returns the example id of a field. A project's `id`, `project.id` and `project_id` have the same
    value."""
    thing = (
        position.field.removesuffix("_id") if position.field != "id" else position.holder or position.owner
    )
    if schema.get(EXAMPLE_MARK) == SUBJECT and position.thing:
        thing = position.thing
    return _sample_id_of(thing)


def _plain_title(name: str) -> str:
    return re.sub(r"(Edit|Patch)?Request$|Created$", "", name)
