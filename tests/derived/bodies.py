"""Bodies made from a Spec: a valid one, and every way in which one value of it can be wrong.

Nothing here knows a family. A field whose values cannot be guessed from its type carries an example in
its annotation, which serves the reader of the OpenAPI document as well.
"""

from __future__ import annotations

import copy
import itertools
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import msgspec
from msgspec import inspect

from windlass.core.access import ROLE_IDS
from windlass.core.declare.fields import EXAMPLE_MARK, SHOWN
from windlass.core.declare.resource import Spec

Refer: TypeAlias = Callable[[str], str]
"""From a family's name to the id of one of its things."""

_REFERS: Mapping[str, str] = {"user_id": "member"}
"""Ids of something that must be there, where the declaration does not say of what."""
_FORMATS: Mapping[str, Callable[[int], str]] = {
    "date-time": lambda number: "2100-01-01T00:00:00.000Z",
    "uuid": lambda number: str(uuid.uuid4()),
}
_KNOWN_TO_HANDLERS = {
    *("scope", "variable_scope", "alias_scope", "override_scope", "service_type"),
    *("dockerfile_path", "files"),
}
"""Fields of which few values are taken: their handler knows them, and an example is one of them."""
_numbers = itertools.count(1)

Step: TypeAlias = str | int
Path: TypeAlias = tuple[Step, ...]


class Wrong(NamedTuple):
    """One value that must be refused where it stands."""

    path: Path
    what: str
    value: Any

    def __str__(self) -> str:
        return f"{spelled(self.path)}: {self.what}"


MISSING: Any = object()
"""Stands for a field that is not sent."""


class Bounds(NamedTuple):
    """An annotation, unwrapped: its type, and what was said beside it."""

    info: inspect.Type
    nullable: bool
    extra: Mapping[str, Any]
    schema: Mapping[str, Any]


def unwrapped(info: inspect.Type) -> Bounds:
    match info:
        case inspect.Metadata(type=inner, extra=extra, extra_json_schema=schema):
            below = unwrapped(inner)
            return below._replace(
                extra={**(extra or {}), **below.extra}, schema={**(schema or {}), **below.schema}
            )
        case inspect.UnionType(types=types):
            kept = [one for one in types if not isinstance(one, inspect.NoneType)]
            assert len(kept) == 1, f"a field may be of one type or null, not {kept}"
            return unwrapped(kept[0])._replace(nullable=len(kept) < len(types))
        case inspect.NoneType():
            return Bounds(info, True, {}, {})
        case _:
            return Bounds(info, False, {}, {})


# Valid


def valid(spec: type[msgspec.Struct], refer: Refer) -> dict[str, Any]:
    """Fills required fields, references, objects that a PUT keeps, and choices that have an example but no
    default. Each call returns another body."""
    return _valid_object(_struct(spec), refer)


def full(spec: type[msgspec.Struct], refer: Refer) -> dict[str, Any]:
    """Every field, at every depth, with an item in each list."""
    return _full_object(_struct(spec), refer)


def _full_object(info: inspect.StructType, refer: Refer) -> dict[str, Any]:
    chosen = [field for field in info.fields if _is_usual_choice(field)] or info.fields
    return {field.encode_name: _full_value(field.encode_name, field.type, refer) for field in chosen}


def _is_usual_choice(field: inspect.Field) -> bool:
    return "usual_choice" in unwrapped(field.type).extra


def _full_value(name: str, annotation: inspect.Type, refer: Refer) -> Any:
    match unwrapped(annotation).info:
        case inspect.ListType(item_type=item):
            return [_full_value(name, item, refer)]
        case inspect.StructType() as struct:
            return _full_object(struct, refer)
        case inspect.LiteralType(values=values):
            return values[-1]  # the first is often the default
        case _:
            return _valid_value(name, annotation, refer)


def referred(spec: type[msgspec.Struct]) -> set[str]:
    """The families of which a valid body names something."""
    names: set[str] = set()

    def note(family: str) -> str:
        names.add(family)
        return ""

    valid(spec, note)
    return names


@cache
def _struct(spec: type[msgspec.Struct]) -> inspect.StructType:
    info = inspect.type_info(spec)
    assert isinstance(info, inspect.StructType)
    return info


def _valid_object(info: inspect.StructType, refer: Refer) -> dict[str, Any]:
    return {
        field.encode_name: _valid_value(field.encode_name, field.type, refer)
        for field in info.fields
        if field.required or _is_first_reference(field, info) or _is_advised(field)
    } | _addresses(info)


def _is_first_reference(field: inspect.Field, info: inspect.StructType) -> bool:
    """Returns whether a field names a resource. A second one of the same family would have to be another."""
    family = unwrapped(field.type).extra.get("refers")
    same = [other for other in info.fields if unwrapped(other.type).extra.get("refers") == family]
    return family is not None and same[0] is field


def _is_advised(field: inspect.Field) -> bool:
    annotation = unwrapped(field.type)
    if _is_usual_choice(field):
        return True
    if isinstance(annotation.info, inspect.StructType):
        # It may be left out only where another field says so.
        has_none = field.default is msgspec.NODEFAULT and field.default_factory is msgspec.NODEFAULT
        return "kept" in annotation.extra or (annotation.schema.get(EXAMPLE_MARK) == SHOWN and has_none)
    is_choice = isinstance(annotation.info, inspect.LiteralType)
    return is_choice and field.default is msgspec.NODEFAULT and "examples" in annotation.schema


def _addresses(info: inspect.StructType) -> dict[str, Any]:
    """Returns addresses for credentials: the example of the address is the one for which the example of a
    credential is."""
    types = {field.encode_name: field.type for field in info.fields}
    opened = [unwrapped(kind).extra.get("opens") for kind in types.values()]
    return {name: unwrapped(types[name]).schema["examples"][0] for name in opened if name}


def _valid_value(name: str, annotation: inspect.Type, refer: Refer) -> Any:
    bounds = unwrapped(annotation)
    other = bounds.extra.get("refers") or _REFERS.get(name)
    match bounds.info:
        case inspect.StrType() as text:
            return refer(other) if other else _valid_text(name, text, bounds.schema)
        case inspect.IntType(ge=least, gt=below):
            return next(one for one in (least, below and below + 1, 1) if one is not None)
        case inspect.FloatType(ge=least):
            return 1.5 if least is None else least
        case inspect.BoolType():
            return True
        case inspect.LiteralType(values=values):
            return next((one for one in bounds.schema.get("examples", ()) if one in values), values[0])
        case inspect.ListType(item_type=item, min_length=least):
            return [_valid_value(name, item, refer) for _ in range(least or 0)]
        case inspect.StructType() as struct:
            return _valid_object(struct, refer)
        case inspect.DictType():
            return {}
        case inspect.AnyType():
            return "anything"
        case other_type:
            raise LookupError(f"{name}: no valid value is known for {other_type}")


def _valid_text(name: str, text: inspect.StrType, schema: Mapping[str, Any]) -> str:
    candidates = schema["examples"] if name in _KNOWN_TO_HANDLERS else _candidates(schema)
    found = next((one for one in candidates if _fits(one, text)), None)
    if found is None:
        raise LookupError(f"{name}: give its annotation an example that fits, Meta(examples=[…])")
    return found


def _candidates(schema: Mapping[str, Any]) -> Iterator[str]:
    number = next(_numbers)
    if schema.get("format") in _FORMATS:
        yield _FORMATS[schema["format"]](number)
    yield f"thing-{number}"
    yield f"THING_{number}"
    yield f"thing-{number}.example.com"
    yield f"thing-{number}@example.com"
    yield f"https://example.com/thing-{number}"
    yield f"/thing/{number}"
    yield f"tcp://10.0.0.{number % 250}:2376"
    yield f"-----BEGIN CERTIFICATE-----\nthing{number}\n-----END CERTIFICATE-----\n"
    yield from schema.get("examples", ())
    yield from ROLE_IDS.values()
    yield "Read"
    yield str(uuid.uuid4())


def _fits(value: str, text: inspect.StrType) -> bool:
    return (
        len(value) >= (text.min_length or 0)
        and (text.max_length is None or len(value) <= text.max_length)
        and (text.pattern is None or re.search(text.pattern, value) is not None)
    )


# Wrong


def wrongs(spec: type[Spec]) -> list[Wrong]:
    """Every wrong value of every field at every depth, each alone in an otherwise valid body."""
    return list(_wrong_object((), _struct(spec)))


def _wrong_object(path: Path, info: inspect.StructType) -> Iterator[Wrong]:
    for field in info.fields:
        here = (*path, field.encode_name)
        if field.required:
            yield Wrong(here, "is missing", MISSING)
        yield from _wrong_value(here, field.type)
    yield Wrong((*path, "surprise"), "an unknown field", 1)


def _wrong_value(path: Path, annotation: inspect.Type) -> Iterator[Wrong]:
    bounds = unwrapped(annotation)
    if isinstance(bounds.info, inspect.AnyType):
        return
    for kind, sample in _OF_ANOTHER_TYPE.items():
        if kind not in _accepted(bounds.info):
            yield Wrong(path, f"{kind} instead of {type(bounds.info).__name__}", sample)
    if not bounds.nullable:
        yield Wrong(path, "null", None)
    yield from _out_of_bounds(path, bounds.info)


_OF_ANOTHER_TYPE: Mapping[str, Any] = {
    "a text": "text",
    "a number as text": "1",
    "an integer": 7_777_777_777_777_777_777,
    "a fraction": 1.5,
    "true": True,
    "a list": [],
    "an object": {},
}


def _accepted(info: inspect.Type) -> set[str]:
    match info:
        case inspect.StrType():
            return {"a text", "a number as text"}
        case inspect.IntType():
            return {"an integer"}
        case inspect.FloatType():
            return {"an integer", "a fraction"}
        case inspect.BoolType():
            return {"true"}
        case inspect.LiteralType():
            return set()
        case inspect.ListType():
            return {"a list"}
        case inspect.StructType() | inspect.DictType():
            return {"an object"}
        case inspect.NoneType():
            return set()
        case unknown:
            raise LookupError(f"what else than {unknown} is of another type?")


def _out_of_bounds(path: Path, info: inspect.Type) -> Iterator[Wrong]:
    match info:
        case inspect.StrType():
            yield from (Wrong(path, f"{text[:40]!r}", text) for text in _wrong_texts(info))
        case inspect.IntType() | inspect.FloatType():
            yield from (Wrong(path, f"{number}", number) for number in _wrong_numbers(info))
        case inspect.LiteralType(values=values):
            alike = {str(values[0]).swapcase(), str(values[0]) + " ", ""} - set(map(str, values))
            yield from (Wrong(path, f"{text!r}", text) for text in sorted(alike))
        case inspect.ListType(item_type=item, min_length=least, max_length=most):
            if least:
                yield Wrong(path, "too few", [])
            if most is not None:
                yield Wrong(path, "too many", [_valid_value(str(path[-1]), item, _anyone)] * (most + 1))
            yield from _wrong_value((*path, 0), item)
            yield from itertools.islice(_wrong_value((*path, 2), item), 1)
        case inspect.StructType():
            yield from _wrong_object(path, info)


_TEXTS = (
    "",
    " ",
    "?",
    " text",
    "text ",
    "te xt",
    "\x00",
    "text\n",
    "\x7f",
    "-",
    "text\x00text",
    "../..",
    "ü:/",
)


def _wrong_texts(text: inspect.StrType) -> Iterator[str]:
    yield from (one for one in _TEXTS if not _fits(one, text))
    if text.max_length is not None:
        yield "x" * (text.max_length + 1)


def _wrong_numbers(info: inspect.IntType | inspect.FloatType) -> Iterator[Any]:
    if info.ge is not None:
        yield info.ge - 1
    if info.gt is not None:
        yield info.gt
    if info.le is not None:
        yield info.le + 1
        yield 10**40
    if info.lt is not None:
        yield info.lt


def _anyone(family: str) -> str:
    return str(uuid.uuid4())


# Putting a value in its place


def placed(spec: type[Spec], body: Mapping[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """The body with this value there; what is needed on the way is made."""
    whole = copy.deepcopy(dict(body))
    at: Any = whole
    info: inspect.Type = _struct(spec)
    for step, following in itertools.pairwise(path):
        info = _below(info, step)
        if not _has(at, step):
            at[step] = _made(str(step), info)
        at = at[step]
        if isinstance(following, int):
            item = _below(info, following)
            at += [_made(str(step), item) for _ in range(following + 1 - len(at))]
    if value is MISSING:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return whole


def _below(info: inspect.Type, step: Step) -> inspect.Type:
    match unwrapped(info).info:
        case inspect.StructType(fields=fields):
            return next(field.type for field in fields if field.encode_name == step)
        case inspect.ListType(item_type=item):
            return item
        case other:
            raise LookupError(f"nothing is below {other}")


def _made(name: str, info: inspect.Type) -> Any:
    return _valid_value(name, info, _anyone)


def _has(at: Any, step: Step) -> bool:
    return step in at if isinstance(step, str) else step < len(at)


def spelled(path: Path) -> str:
    """`ports[0].internal_port`"""
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return text.removeprefix(".")
