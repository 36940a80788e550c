"""Parses request bodies and query strings. An error message names the field and the expected value."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache, lru_cache
from typing import Final
from urllib.parse import unquote_plus

import msgspec
from msgspec.structs import fields

from windlass.base.errors import Invalid
from windlass.core.declare.document import forgiven
from windlass.core.declare.resource import Spec
from windlass.core.declare.validation import explain, written_out

MAX_BODY_BYTES = 1024 * 1024
MERGE_PATCH = "application/merge-patch+json"
PATCH_TYPES = ("application/json", MERGE_PATCH)
"""The accepted content types of a PATCH. Other patch formats, such as JSON Patch, are refused."""


_MAX_EXACT: Final = 2**53
"""The largest number below which each integer is exact as a number with a fraction."""


class NoBody(Spec):
    """The body type of an operation without a body."""


def parse_body(
    raw: bytes,
    content_type: bytes | None,
    spec_type: type[Spec],
    kinds: Collection[str] = (),
    *,
    forgiving: bool = False,
) -> Spec:
    """Parses a body. An empty body, `null` and `{}` are equivalent.

    `kinds`: the accepted content types; by default, all JSON types.
    """
    if not raw or raw.isspace():
        raw = b"{}"
    elif content_type is not None and content_type != b"application/json":
        _check_type(content_type, kinds)
    if raw.strip() == b"null":
        raw = b"{}"
    try:
        if forgiving:
            return msgspec.convert(forgiven(_decode_forgiving(raw), spec_type), spec_type)
        return _decode(raw, spec_type)
    except msgspec.ValidationError as error:
        raise Invalid(explain(error, spec_type)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Invalid(f"The body is not valid JSON: {error}") from error
    except RecursionError as error:
        raise Invalid("The body is nested too deeply") from error


def _whole_number(text: str) -> int | float:
    """Returns `250.0` as an integer: some existing clients write all numbers with a fraction."""
    number = float(text)
    return int(number) if number.is_integer() and abs(number) <= _MAX_EXACT else number


_decode_forgiving: Final = msgspec.json.Decoder(float_hook=_whole_number).decode


def _decode(raw: bytes, spec_type: type[Spec]) -> Spec:
    try:
        return msgspec.json.decode(raw, type=spec_type)
    except msgspec.ValidationError:
        document = written_out(msgspec.json.decode(raw), spec_type)
        if document is None:
            raise
        return msgspec.convert(document, spec_type)


_NO_NAMES: Final[frozenset[str]] = frozenset()
PAGING_PARAMETERS: Final = frozenset({"page", "page_size"})
"""Query parameters that request one page of a list."""


def parse_query(raw: bytes, spec_type: type[Spec] | None) -> tuple[Spec | None, frozenset[str]]:
    """Returns the parameters that the operation declares, and the names of the given parameters."""
    return _parse_query(raw, spec_type) if spec_type else (None, _NO_NAMES)


@lru_cache(1024)
def _parse_query(raw: bytes, spec_type: type[Spec]) -> tuple[Spec, frozenset[str]]:
    """Returns the parameters that the operation declares, and the names of the given parameters.

    Other parameters are ignored. The result is cached, because clients request the same pages repeatedly, and
    must not be modified.
    """
    values: dict[str, str | list[str]] = {}
    for name, value in _parse_pairs(raw):
        if name in _lists(spec_type):
            words = values.setdefault(name, [])
            assert isinstance(words, list)
            words.append(value)
            continue
        if name in values:
            raise Invalid(f"{name}: was given more than once")
        if name in spec_type.__struct_encode_fields__:
            values[name] = _plain_number(name, value) if name in _numbers(spec_type) else value
    try:
        return msgspec.convert(values, spec_type, strict=False), frozenset(values)
    except msgspec.ValidationError as error:
        raise Invalid(explain(error, spec_type)) from error


def _parse_pairs(raw: bytes) -> Iterator[tuple[str, str]]:
    try:
        text = raw.decode("ascii")
        for piece in text.split("&"):
            name, _, value = piece.partition("=")
            if name:
                yield _unquote(name), _unquote(value)
    except UnicodeDecodeError as error:
        raise Invalid("The query string is not valid") from error


def _unquote(text: str) -> str:
    return unquote_plus(text, errors="strict") if "%" in text or "+" in text else text


_INTEGER_PATTERN = re.compile(r"-?[0-9]{1,18}")


@cache
def _numbers(spec_type: type[Spec]) -> frozenset[str]:
    """Returns the names of the integer parameters."""
    kinds = ((field.encode_name, msgspec.inspect.type_info(field.type)) for field in fields(spec_type))
    return frozenset(
        name for name, kind in kinds if isinstance(_without_metadata(kind), msgspec.inspect.IntType)
    )


@cache
def _lists(spec_type: type[Spec]) -> frozenset[str]:
    """Returns the names of the parameters that may be repeated."""
    kinds = ((field.encode_name, msgspec.inspect.type_info(field.type)) for field in fields(spec_type))
    return frozenset(
        name for name, kind in kinds if isinstance(_without_metadata(kind), msgspec.inspect.ListType)
    )


def _without_metadata(kind: msgspec.inspect.Type) -> msgspec.inspect.Type:
    return _without_metadata(kind.type) if isinstance(kind, msgspec.inspect.Metadata) else kind


def _plain_number(name: str, value: str) -> str:
    """Returns the text of an integer unchanged. msgspec alone would also accept `1_0` or ` 1`."""
    if not _INTEGER_PATTERN.fullmatch(value):
        raise Invalid(f"{name}: must be an integer")
    return value


def _check_type(content_type: bytes, kinds: Collection[str]) -> None:
    kind, *options = content_type.decode("latin-1").lower().replace(" ", "").split(";")
    if kinds and kind not in kinds:
        raise Invalid(f"Content-Type: must be {' or '.join(kinds)}")
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise Invalid("Content-Type: must be application/json")
    for option in options:
        name, _, value = option.partition("=")
        if name == "charset" and value.strip('"') not in {"utf-8", "utf8", "us-ascii"}:
            raise Invalid("Content-Type: the charset must be utf-8")
