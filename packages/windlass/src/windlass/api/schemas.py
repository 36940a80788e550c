"""The types of all operations as named schemas of OpenAPI 3.0.3.

msgspec describes types in JSON Schema 2020-12, and `translate` converts them to the older dialect. Request
and response bodies have separate schemas even for the same type: a request body refuses unknown fields, and a
response may get new fields.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from types import GenericAlias
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from windlass.core.declare.fields import EXAMPLE_MARK, example
from windlass.core.declare.registry import Operation, Registry
from windlass.core.declare.resource import Family, Shown
from windlass.core.declare.spec import ordered_fields

Schema: TypeAlias = dict[str, Any]
Names: TypeAlias = Mapping[str, str]
"""Names of schemas in the document, by msgspec's names."""

_REFERENCE_PREFIX = "#/components/schemas/"
_Natural = Annotated[int, Meta(ge=0)]


class Error(Shown):
    """The reason why a request was refused."""

    status: Annotated[int, Meta(description="The HTTP status")]
    error: Annotated[str, Meta(description="The text of the status")]
    message: Annotated[str, Meta(description="The problem, and the way out")]
    detail: Annotated[str, Meta(description="The same as `message`")]


class Pagination(Shown):
    page: Annotated[int, Meta(ge=1), example(1)]
    page_size: Annotated[int, Meta(ge=1), example(100)]
    total_count: Annotated[_Natural, example(1)]
    total_pages: Annotated[_Natural, example(1)]


class Schemas:
    """The schema components of a registry, and references to them."""

    def __init__(self, registry: Registry) -> None:
        self.components: dict[str, Schema] = {}
        lists = dict.fromkeys(
            (operation.answer, operation.paged, operation.pages_if_asked)
            for operation in registry.operations
            if operation.listing and not operation.is_array
        )
        self._lists = {
            (answer, paged, pages_if_asked): _list(
                answer, paged=paged, pages_if_asked=pages_if_asked, is_alone=_is_alone(answer, lists)
            )
            for answer, paged, pages_if_asked in lists
            if answer
        }
        self._bodies = self._add(*_bodies(registry))
        self._answers = self._add(*_answer_schemas(registry, self._lists.values()))
        for operation in filter(is_one_and_many, registry.operations):
            self._widen(operation)

    def body(self, body: type[Struct]) -> Schema:
        return self._bodies[body]

    def answer(self, operation: Operation) -> Schema:
        """Returns the schema of an operation's successful response: a type, or a list of it."""
        assert operation.answer is not None
        if operation.is_array:
            return {"type": "array", "items": self._answers[operation.answer]}
        if not operation.listing:
            return self._answers[operation.answer]
        return self._answers[self._lists[operation.answer, operation.paged, operation.pages_if_asked]]

    def _add(self, refs: dict[type, str], schemas: Mapping[str, Schema]) -> dict[type, Schema]:
        if twins := self.components.keys() & schemas.keys():
            raise ValueError(f"two schemas have one name: {', '.join(sorted(twins))}")
        self.components |= schemas
        return {type: {"$ref": _REFERENCE_PREFIX + name} for type, name in refs.items()}

    def _widen(self, operation: Operation) -> None:
        """Merges the schemas of the list and the resource into one."""
        assert operation.answer is not None
        name = component_name(self.answer(operation))
        self.components[name] = {"allOf": [self._answers[operation.answer], self.components[name]]}


def is_one_and_many(operation: Operation) -> bool:
    """Returns whether an operation responds with both one resource and a list.

    `GET /organization` is such an operation: it returns the fields of the caller's organization, and all its
    organizations as a list.
    """
    match operation.family:
        case Family(parent=None, view=view):
            return operation.listing and operation.answer is view
        case _:
            return False


def component_name(ref: Schema) -> str:
    """Returns the name of the component that a reference points to."""
    return str(ref["$ref"]).removeprefix(_REFERENCE_PREFIX)


def parameters(query: type[Struct]) -> Iterator[tuple[str, bool, Schema]]:
    """Yields each field of a query type: its name, whether it is required, and its schema."""
    (ref,), schemas = msgspec.json.schema_components([query], ref_template="{name}")
    whole = schemas[ref["$ref"]]
    for name, schema in whole["properties"].items():
        yield name, name in whole.get("required", ()), translate(schema, {})


def without_marks(schema: Any) -> Any:
    """Returns a schema without the internal marks for examples."""
    match schema:
        case dict():
            return {key: without_marks(value) for key, value in schema.items() if key != EXAMPLE_MARK}
        case list():
            return [without_marks(item) for item in schema]
        case _:
            return schema


def _list(answer: type[Struct], *, paged: bool, pages_if_asked: bool, is_alone: bool) -> type[Struct]:
    """Returns the type of a list response: a struct with `results`.

    If a type is listed both with and without pages, its lists have two struct types.
    """
    results: Any = GenericAlias(list, (answer,))
    fields: list[Any] = [("results", results)]
    if paged:
        fields.append(("pagination", Pagination))
    elif pages_if_asked:
        fields.append(("pagination", Pagination | msgspec.UnsetType, msgspec.UNSET))
    return msgspec.defstruct(f"{answer.__name__}{'List' if paged or is_alone else 'Results'}", fields)


def _is_alone(answer: type[Struct], lists: Iterable[tuple[type[Struct] | None, bool, bool]]) -> bool:
    """Returns whether there is only one kind of list for a type."""
    return sum(listed is answer for listed, *_ in lists) == 1


def _bodies(registry: Registry) -> tuple[dict[type, str], dict[str, Schema]]:
    families = registry.families.values()
    chosen: dict[type, str] = {family.spec: family.title for family in families}
    chosen |= {family.edit: f"{family.title}Edit" for family in families}
    chosen |= {family.patch: f"{family.title}Patch" for family in families}
    return _components_of((op.body for op in registry.operations if op.body), chosen, "Request")


def _answer_schemas(registry: Registry, lists: Iterable[type]) -> tuple[dict[type, str], dict[str, Schema]]:
    chosen: dict[type, str] = {family.view: family.title for family in registry.families.values()}
    types = [*(op.answer for op in registry.operations if op.answer), *lists, Error, Pagination]
    refs, schemas = _components_of(types, chosen, "")
    for schema in schemas.values():
        schema.pop("additionalProperties", None)
    return refs, schemas


def _components_of(
    types: Iterable[type], chosen: Mapping[type, str], suffix: str
) -> tuple[dict[type, str], dict[str, Schema]]:
    """Returns the schema name of each type, and all schemas by name, including the schemas of nested
    types."""
    types = list(dict.fromkeys(types))
    refs, components = msgspec.json.schema_components(types, ref_template="{name}")
    keys = {type: str(ref["$ref"]) for type, ref in zip(types, refs, strict=True)}
    for type, key in keys.items():
        _put_in_order(components[key], type)
    names = _names(components, {keys[type]: name for type, name in chosen.items() if type in keys}, suffix)
    if twins := [name for name, count in Counter(names.values()).items() if count > 1]:
        raise ValueError(f"two types want one name: {', '.join(twins)}")
    schemas = {names[key]: translate(schema, names) for key, schema in components.items()}
    return {type: names[key] for type, key in keys.items()}, schemas


def _put_in_order(schema: Schema, struct: type[Struct]) -> None:
    """Sorts the properties of a schema in the order of `ordered_fields`."""
    names = [field.encode_name for field in ordered_fields(struct)]
    for key, ordered in (("properties", names), ("required", names)):
        if isinstance(present := schema.get(key), dict):
            schema[key] = {name: present[name] for name in ordered}
        elif present:
            schema[key] = [name for name in ordered if name in present]


def _names(keys: Iterable[str], chosen: Names, suffix: str) -> Names:
    """Returns short names for types. If several types have the same name, a family's type keeps it, and the
    others are prefixed with their module."""
    short = {key: chosen.get(key, key.rpartition(".")[2]) for key in keys}
    wanted = Counter(short.values())
    alone = {
        key: name if key in chosen or wanted[name] == 1 else _class_name(key) for key, name in short.items()
    }
    return {key: name if name.endswith(suffix) else name + suffix for key, name in alone.items()}


def _class_name(key: str) -> str:
    """`windlass.families.api_token.Value` → `ApiTokenValue`"""
    *_, module, name = ["", *key.split(".")]
    return "".join(word.capitalize() for word in module.split("_")) + name


def translate(schema: Schema, names: Names) -> Schema:
    """Converts a schema from JSON Schema 2020-12 to OpenAPI 3.0.3."""
    match schema:
        case {"$ref": key, **beside}:
            ref = {"$ref": _REFERENCE_PREFIX + names[key]}
            return {"allOf": [ref], **_keywords(beside, names)} if beside else ref
        case {"anyOf": [*options], **beside}:
            return _union(options, beside, names)
        case {"type": [*kinds], **beside}:
            return _union([{"type": kind, **beside} for kind in kinds], {}, names)
        case {"type": "null", **beside}:
            # OpenAPI 3.0 has no null type, so the result is a nullable string without other values.
            return {"type": "string", "nullable": True, "enum": [None], **_keywords(beside, names)}
        case _:
            return _with_type(_keywords(schema, names))


def _union(options: list[Schema], beside: Schema, names: Names) -> Schema:
    parts = [translate(option, names) for option in options if option.get("type") != "null"]
    if len(parts) < len(options):
        parts = [_nullable(part) for part in parts]
    rest = _keywords(beside, names)
    if len(parts) == 1 and "$ref" not in parts[0]:
        return {**parts[0], **rest}
    return {"anyOf": parts, **rest}


def _nullable(schema: Schema) -> Schema:
    """Makes a schema nullable. Wraps a reference, because keywords beside it are ignored, and adds null to an
    enum."""
    if "$ref" in schema:
        return {"allOf": [schema], "nullable": True}
    if schema.get("nullable"):
        return schema
    also_null = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, **also_null, "nullable": True}


def _keywords(schema: Schema, names: Names) -> Schema:
    translated: Schema = {}
    for key, value in schema.items():
        translated |= _keyword(key, value, names)
    return translated


def _keyword(key: str, value: Any, names: Names) -> Schema:
    """Translates one keyword and its value."""
    match key, value:
        case ("title" | "propertyNames" | "patternProperties", _) | ("items", False) | ("required", []):
            return {}
        case "const", _:
            return {"enum": [value]}
        case "examples", [first, *_]:
            return {"example": first}
        case "pattern", str():
            return {"pattern": _ECMA_END_PATTERN.sub(r"\1$", value)}
        case "contentEncoding", "base64":
            return {"format": "byte"}
        case "exclusiveMinimum" | "exclusiveMaximum", int() | float():
            return {key.removeprefix("exclusive").lower(): value, key: True}
        case "prefixItems", [*items]:
            return {"items": {"anyOf": [translate(item, names) for item in items]}}
        case "properties", dict():
            return {key: {name: translate(field, names) for name, field in value.items()}}
        case "items" | "additionalProperties", dict():
            return {key: translate(value, names)}
        case "discriminator", {"mapping": dict(mapping)}:
            return {
                key: {
                    **value,
                    "mapping": {word: _REFERENCE_PREFIX + names[name] for word, name in mapping.items()},
                }
            }
        case _:
            return {key: value}


_ECMA_END_PATTERN = re.compile(r"(?<!\\)((?:\\\\)*)\\Z")
_KINDS: Mapping[type, str] = {str: "string", int: "integer", bool: "boolean", float: "number"}


def _with_type(schema: Schema) -> Schema:
    """Adds the type of an enum, which `nullable` requires, and the format of an integer."""
    if "enum" in schema and "type" not in schema:
        schema = {"type": _KINDS[type(schema["enum"][0])], **schema}
    if schema.get("type") == "integer" and "format" not in schema:
        least, most = schema.get("minimum", -(2**63)), schema.get("maximum", 2**63)
        schema = {**schema, "format": "int32" if least >= -(2**31) and most < 2**31 else "int64"}
    return schema
