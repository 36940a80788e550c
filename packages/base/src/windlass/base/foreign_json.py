"""Reads untrusted JSON: of servers, repositories and programs, which may be hostile."""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


class BadJson(ValueError):
    """A text is not JSON of the required form; the message explains why."""


def read_json(content: bytes | str, form: type[T]) -> T:
    """Raises BadJson for anything else, and only that: also for texts that are nested too deep to be read."""
    try:
        return msgspec.json.decode(content, type=form)
    except RecursionError as error:
        raise BadJson("it is nested too deep") from error
    except (msgspec.MsgspecError, ValueError) as error:  # the latter for bytes that are no UTF-8
        raise BadJson(str(error)) from error
