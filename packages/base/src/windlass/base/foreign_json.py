"""Reads untrusted JSON from servers, repositories and programs, which may be hostile."""

from __future__ import annotations

from binascii import a2b_qp
from typing import Final, TypeVar

import msgspec

T = TypeVar("T")
_MAX_FIELDS: Final = 10
_PAYLOAD_FIELD: Final = b"payload"


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


def payload_of_form(body: bytes) -> bytes:
    """Returns the field `payload` of a form, in which webhooks may send their JSON; empty if there is none.

    urllib takes tenths of a second for a megabyte of escaped bytes. Quoted-printable differs from the escapes
    of forms only in its sign, and is decoded at once.
    """
    for field in body.split(b"&", _MAX_FIELDS)[:_MAX_FIELDS]:
        name, _, value = field.partition(b"=")
        if name == _PAYLOAD_FIELD:
            return a2b_qp(value.replace(b"=", b"=3D").replace(b"%", b"=").replace(b"+", b" "))
    return b""
