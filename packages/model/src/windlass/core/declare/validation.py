"""Converts msgspec errors to messages that name the field and its expected value."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from windlass.base.errors import Invalid
from windlass.base.lazy import lazy_pattern
from windlass.core.declare.fields import EXPECTED_FORMS
from windlass.core.declare.spec import fields_of
from windlass.core.declare.structs import extra_of, struct_of

T = TypeVar("T")

_COMMON_WORDS: Final = {"id", "at", "is", "name"}
"""Words that occur in many field names and do not indicate similarity."""


def convert(value: Any, target_type: type[T]) -> T:
    """Converts a value to a type. Raises Invalid with the first field that does not match."""
    try:
        return msgspec.convert(value, target_type)
    except msgspec.ValidationError as error:
        raise Invalid(explain(error, target_type)) from error


_ENUM_PROBLEM: Final = "Invalid enum value "
_PATTERN_PROBLEM = "Expected `str` matching regex "


def _pattern_of(text: str) -> str:
    """Returns the pattern that did not match, which msgspec quotes as a Python literal; empty for other
    errors."""
    return (
        str(ast.literal_eval(text.removeprefix(_PATTERN_PROBLEM)))
        if text.startswith(_PATTERN_PROBLEM)
        else ""
    )


_PATH_BEGINNING: Final = " - at `$"
_UNKNOWN_PROBLEM: Final = "Object contains unknown field "
_MAX_QUOTED_LENGTH: Final = 500
"""Maximum length of an error that quotes a text of the client, which may be as long as a body. The middle of
a longer one is left out before it is searched and compared with names."""
_REQUIRED_PROBLEM: Final = "is required"
_MESSAGE_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (lazy_pattern(r"^Object missing required field `(.+)`$"), _REQUIRED_PROBLEM),
    (lazy_pattern(r"^Object contains unknown field `(.+)`$"), "is not a field here"),
    (lazy_pattern(r"^Expected `(.+)`, got `(.+)`$"), "must be {0}, not {1}"),
    (lazy_pattern(r"^Expected `str` of length >= 1$"), "must not be empty"),
    (lazy_pattern(r"^Expected `(\w+)` of length ([<>]=) (\d+)$"), "must have a length of {1} {2}"),
    (lazy_pattern(r"^Expected `(\w+)` ([<>]=?) (-?\d+)$"), "must be {1} {2}"),
    (
        lazy_pattern(r"^Expected `str` matching regex (.+)$"),
        "does not have the right form; it must match {0}",
    ),
    (lazy_pattern(r"^Invalid enum value (.+)$"), "cannot be {0}"),
    (lazy_pattern(r"^(.+)$"), "{0}"),
)
_TYPE_NAMES: Mapping[str, str] = {
    "int": "an integer", "str": "a string", "bool": "true or false", "array": "a list", "object": "an object",
    "float": "a number with a fraction", "null": "null",
    "<=": "at most", ">=": "at least", "<": "less than", ">": "more than",
}  # fmt: skip


def explain(error: Exception, target_type: Any = None) -> str:
    """Converts an error of msgspec to a sentence that begins with the field, such as
    `ports[0].internal_port`.

    `target_type`: the expected type, to suggest fields in place of an unknown one.
    """
    text, path = _divide(str(error))
    for pattern, form in _MESSAGE_RULES:
        match = pattern.match(text)
        if match is None:
            continue
        if text.startswith(_ENUM_PROBLEM) and (choices := _allowed_values(path, target_type)):
            value = text.removeprefix(_ENUM_PROBLEM).strip("'")
            meant = did_you_mean(get_close_matches(value.upper(), choices, 1))
            return f"{path}: must be one of {', '.join(choices)}{meant}"
        if "unknown field `" in text and target_type is not None:
            hint = _short_form_hint(match[1], path, target_type) or _suggest_fields(
                match[1], _struct_at(path, target_type)
            )
            form += hint.replace("{", "{{").replace("}", "}}")
        if "field `" in text:
            path = f"{path}.{match[1]}" if path else match[1]
        if form == _REQUIRED_PROBLEM and (choices := _allowed_values(path, target_type)):
            return f"{path}: {form}; it must be one of {', '.join(choices)}"
        if (shape := EXPECTED_FORMS.get(_pattern_of(text))) is not None:
            return f"{path or 'The body'}: {shape}"
        words = [
            " or ".join(_TYPE_NAMES.get(word, word) for word in group.split(" | "))
            for group in match.groups()
        ]
        reason = f"{path or 'The body'}: {form.format(*words)}".replace("\\\\Z", "$").replace("\\Z", "$")
        return reason + _in_right_form(path, text, target_type)
    return f"{path}: {text}"


def _divide(text: str) -> tuple[str, str]:
    """Returns the problem of an error of msgspec, and the path of the field, which may be empty."""
    path = ""
    if text.endswith("`"):
        problem, begins, rest = text[:-1].rpartition(_PATH_BEGINNING)
        if begins and len(rest) <= _MAX_QUOTED_LENGTH:
            text, path = problem, rest.lstrip(".")
    if len(text) > _MAX_QUOTED_LENGTH and text.startswith((_ENUM_PROBLEM, _UNKNOWN_PROBLEM)):
        half = _MAX_QUOTED_LENGTH // 2
        text = f"{text[:half]}…{text[-half:]}"
    return text, path


def _struct_at(path: str, target_type: Any) -> type[Struct] | None:
    """Returns the struct type at a path such as `ports[0]`; None if there is none."""
    struct = struct_of(target_type)
    for name in re.findall(r"[A-Za-z_]\w*", path):
        types = {field.encode_name: field.type for field in fields_of(struct)} if struct else {}
        struct = struct_of(types[name], in_lists=True) if name in types else None
    return struct


class _Shorthand(Struct, frozen=True):
    """The short form of a list of objects, such as `port` for `ports`."""

    option: str
    sets: str
    written: str
    """The correct form of the list as JSON."""


def _in_right_form(path: str, text: str, target_type: Any) -> str:
    """Returns the end of an error message about a wrong type in a list with a short form: the correct form;
    empty for other fields."""
    if not text.startswith(("Expected `array", "Expected `object")):
        return ""
    short = _short_form(path, target_type)
    return f"; write {short.written}" if short else ""


def _short_form_hint(name: str, path: str, target_type: Any) -> str:
    """Returns the end of an error message about an unknown field that is a short form: the correct list, or
    inside a list item the correct field; empty for other fields."""
    if (short := _short_form(path, target_type)) and short.option == name:
        return did_you_mean([short.sets])
    shape = _struct_at(path, target_type)
    for field in fields_of(shape) if shape else ():
        if (short := _short_form(f"{path}.{field.encode_name}", target_type)) and short.option == name:
            return f'; write "{field.encode_name}": {short.written}'
    return ""


def _short_form(path: str, target_type: Any) -> _Shorthand | None:
    """Returns the short form of the list at a path, or of the list that contains the item at the path."""
    parent, _, name = re.sub(r"\[[^]]*\]$", "", path).rpartition(".")
    shape = _struct_at(parent, target_type)
    types = {field.encode_name: field.type for field in fields_of(shape)} if shape else {}
    extra = extra_of(types[name]) if name in types else {}
    if "short_form" not in extra:
        return None
    option, sets, _, _ = extra["short_form"]
    return _Shorthand(option=option, sets=sets, written=extra["written"])


def written_out(document: Any, struct_type: type[Struct]) -> Any:
    """Returns the document with each short form, such as `port`, replaced by its list, such as `ports`. None
    if there is no short form. Raises Invalid if both are present."""
    if not isinstance(document, dict):
        return None
    whole = dict(document)
    for name, (option, sets, others, _) in _short_forms(struct_type).items():
        if option not in whole:
            continue
        if name in whole:
            raise Invalid(f"{option}: leave it out, or {name}: it is the short form of that list")
        whole[name] = [{sets: whole.pop(option), **others}]
    return whole if whole != document else None


@cache
def _short_forms(struct_type: type[Struct]) -> Mapping[str, tuple[Any, ...]]:
    """Returns the short forms of lists by field. Short forms that are themselves field names are left out."""
    extras = {field.encode_name: extra_of(field.type) for field in fields_of(struct_type)}
    forms = {name: extra["short_form"] for name, extra in extras.items() if "short_form" in extra}
    return {name: form for name, form in forms.items() if form[0] not in struct_type.__struct_encode_fields__}


def _suggest_fields(name: str, answer_type: type[Struct] | None) -> str:
    """Suggests fields for an unknown `name`: fields that share a word with it, or have a similar spelling."""
    declared = sorted(fields_of(answer_type), key=lambda field: not field.required) if answer_type else []
    names = [field.encode_name for field in declared]
    words = set(name.lower().split("_")) - _COMMON_WORDS
    similar = [field for field in names if words & set(field.split("_"))] or get_close_matches(
        name, names, 1, 0.75
    )
    return did_you_mean(similar[:3])


def did_you_mean(similar: Sequence[str]) -> str:
    """Returns the end of a message that suggests these words; empty if there are none."""
    return f"; did you mean {' or '.join(similar)}?" if similar else ""


def _allowed_values(path: str, target_type: Any) -> list[str]:
    """Returns the allowed values of the field at a path. The name of a field may have dots itself."""
    shape, name = struct_of(target_type), path
    if shape is None or path not in shape.__struct_encode_fields__:
        above, _, last = path.rpartition(".")
        shape, name = _struct_at(above, target_type), re.sub(r"\[.*", "", last)
    types = [field.type for field in fields_of(shape) if field.encode_name == name] if shape else []
    return [str(value) for type in types for value in _literal_values(msgspec.inspect.type_info(type))]


def _literal_values(info: msgspec.inspect.Type) -> tuple[Any, ...]:
    match info:
        case msgspec.inspect.LiteralType(values=values):
            return values
        case msgspec.inspect.EnumType(cls=cls):
            return tuple(member.value for member in cls)
        case msgspec.inspect.Metadata(type=inner) | msgspec.inspect.ListType(item_type=inner):
            return _literal_values(inner)
        case msgspec.inspect.UnionType(types=types):
            return tuple(value for part in types for value in _literal_values(part))
        case _:
            return ()
