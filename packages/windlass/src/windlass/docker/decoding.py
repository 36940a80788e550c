"""Reads JSON from an engine, which may belong to anybody: what it says need not make sense."""

from __future__ import annotations

from typing import Any, Final

from windlass.base.foreign_json import BadJson, read_json
from windlass.docker.failures import EngineRefused

NONSENSE: Final = "Check the address: a Docker engine does not answer like this"


def decode(body: bytes, type: Any = Any) -> Any:
    """Raises EngineRefused for anything but JSON of this type, and for JSON nested too deep to be read."""
    try:
        return read_json(body, type)
    except BadJson as error:
        raise EngineRefused(500, NONSENSE) from error


def an_object(value: Any) -> dict[str, Any]:
    """Raises EngineRefused for anything but a JSON object."""
    if not isinstance(value, dict):
        raise EngineRefused(500, NONSENSE)
    return value
