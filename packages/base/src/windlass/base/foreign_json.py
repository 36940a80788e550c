"""Reads untrusted JSON from servers, repositories and programs, which may be hostile."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


class BadJson(ValueError):
    """A text is not JSON of the required form. The message explains why."""


def read_json(content: bytes | str, struct_type: type[T]) -> T:
    """Parses JSON as the given type. Raises BadJson for any other text, including texts nested too deep."""
    try:
        return msgspec.json.decode(content, type=struct_type)
    except RecursionError as error:
        raise BadJson("it is nested too deep") from error
    except (msgspec.MsgspecError, ValueError) as error:  # ValueError: the bytes are not UTF-8
        raise BadJson(str(error)) from error
