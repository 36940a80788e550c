"""Parses the input variables of a Terraform module, and files with their values. The functions take the names
and contents of files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import msgspec
from msgspec import Raw, Struct

from windlass.terraform.hcl.blocks import Value, read_blocks, read_values
from windlass.terraform.hcl.tokens import HclError

_VARIABLE_ATTRIBUTES: Final = frozenset({"default", "description", "sensitive", "nullable"})
_BOOLEAN_VALUES: Final[Mapping[object, bool]] = {True: True, False: False, "true": True, "false": False}
_COMMENT_KEY: Final = "//"
"""A JSON key for comments, which Terraform ignores."""


class InputVariable(Struct, frozen=True, kw_only=True):
    """An input variable of a module."""

    key: str
    source: str
    """The file that declares the variable."""
    default: str | None
    """The default in the syntax of Terraform's command line. None if there is no default, if it is null, or
    if the variable is sensitive."""
    description: str | None
    sensitive: bool
    nullable: bool


class _Declaration(Struct):
    source: str
    attributes: dict[str, Value]


def is_module_file(name: str) -> bool:
    """Returns whether Terraform reads a file with this name as a part of the module."""
    return name.endswith((".tf", ".tf.json")) and not name.startswith(".")


def is_values_file(name: str) -> bool:
    return name.endswith((".tfvars", ".tfvars.json"))


def input_variables(files: Mapping[str, bytes]) -> list[InputVariable]:
    """Returns the input variables of a module with the given files."""
    return [
        _variable(key, declaration)
        for key, declaration in _merge_declarations(files, _VARIABLE_ATTRIBUTES).items()
    ]


def sensitive_variables(files: Mapping[str, bytes]) -> frozenset[str]:
    """Returns the names of the variables that a module declares as sensitive. Their defaults are not parsed
    and may be any expressions."""
    declared = _merge_declarations(files, frozenset({"sensitive"}))
    return frozenset(key for key, declaration in declared.items() if _variable(key, declaration).sensitive)


def variable_values(name: str, content: bytes) -> dict[str, str]:
    """Returns the values in a file, in the syntax of Terraform's command line. Null values are left out."""
    with _naming(name):
        values = _json_object(content) if name.endswith(".json") else read_values(_text(content))
    return {key: text for key, value in values.items() if (text := _as_text(value)) is not None}


@contextmanager
def _naming(file: str) -> Iterator[None]:
    try:
        yield
    except HclError as error:
        raise error.of_file(file) from error


def _is_override(name: str) -> bool:
    stem = name.removesuffix(".json").removesuffix(".tf")
    return stem == "override" or stem.endswith("_override")


def _merge_declarations(files: Mapping[str, bytes], attributes: frozenset[str]) -> dict[str, _Declaration]:
    """Returns the declarations of all variables with the requested attributes. Override files come last, as
    in Terraform."""
    declared: dict[str, _Declaration] = {}
    for name in sorted(files, key=lambda name: (_is_override(name), name)):
        with _naming(name):
            for key, values in _declarations(name, files[name], attributes):
                if (earlier := declared.get(key)) is None:
                    declared[key] = _Declaration(name, values)
                elif _is_override(name):
                    earlier.attributes |= values
                else:
                    raise HclError(f"the variable {key} is already declared in {earlier.source}")
    return declared


def _declarations(
    name: str, content: bytes, attributes: frozenset[str]
) -> Iterator[tuple[str, dict[str, Value]]]:
    if name.endswith(".json"):
        yield from _in_json(_json_object(content), attributes)
    elif b"variable" in content:
        for block in read_blocks(_text(content), "variable", attributes):
            if len(block.labels) != 1:
                raise HclError("a variable must have one name", block.line)
            yield block.labels[0], block.attributes


def _in_json(
    document: dict[str, Value], attributes: frozenset[str]
) -> Iterator[tuple[str, dict[str, Value]]]:
    for group in _objects(document.get("variable", {})):
        for key, bodies in group.items():
            for body in _objects(bodies) if key != _COMMENT_KEY else ():
                yield key, {name: value for name, value in body.items() if name in attributes}


def _objects(value: Value) -> list[dict[str, Value]]:
    """Returns the objects in a JSON value. Terraform accepts one object or a list of objects for blocks of
    one kind."""
    objects = value if isinstance(value, list) else [value]
    if any(not isinstance(item, dict) for item in objects):
        raise HclError("variables must be objects")
    return [item for item in objects if isinstance(item, dict)]


def _variable(key: str, declaration: _Declaration) -> InputVariable:
    attributes = declaration.attributes
    with _naming(declaration.source):
        description = attributes.get("description")
        if not isinstance(description, str | None):
            raise HclError(f"description of the variable {key} must be a text")
        sensitive = _switch(key, "sensitive", attributes.get("sensitive", False))
        return InputVariable(
            key=key,
            source=declaration.source,
            default=None if sensitive else _as_text(attributes.get("default")),
            description=description,
            sensitive=sensitive,
            nullable=_switch(key, "nullable", attributes.get("nullable", True)),
        )


def _switch(key: str, name: str, value: Value) -> bool:
    if not isinstance(value, bool | str) or value not in _BOOLEAN_VALUES:
        raise HclError(f"{name} of the variable {key} must be true or false")
    return _BOOLEAN_VALUES[value]


def _text(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise HclError("it is no text in UTF-8") from error
    if "\0" in text:
        raise HclError("it is no text")
    return text


def _json_object(content: bytes) -> dict[str, Value]:
    try:
        # Numbers are kept as they are written.
        document = json.loads(_text(content), parse_int=_number, parse_float=_number, parse_constant=_refuse)
        msgspec.json.encode(document)
    except RecursionError as error:
        raise HclError("it is nested too deeply") from error
    except ValueError as error:  # for example because of half a surrogate pair
        raise HclError("it is no JSON") from error
    if not isinstance(document, dict):
        raise HclError("it must be an object")
    return {key: value for key, value in document.items() if key != _COMMENT_KEY}


def _number(text: str) -> Raw:
    return Raw(text)


def _refuse(constant: str) -> Raw:
    raise ValueError(f"{constant} is no JSON")


def _as_text(value: Value) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()
