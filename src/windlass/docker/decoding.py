"""Reads JSON from an engine, which may belong to anybody: what it says need not make sense."""

from __future__ import annotations

import json
from typing import Any, Final

from windlass.docker.failures import EngineRefused

_NONSENSE: Final = "Check the address: a Docker engine does not answer like this"


def decoded(body: bytes) -> Any:
    """Raises EngineRefused for what is no JSON, or nested too deep to be read."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise EngineRefused(500, _NONSENSE) from error


def an_object(found: Any) -> dict[str, Any]:
    """Raises EngineRefused for anything but a JSON object."""
    if not isinstance(found, dict):
        raise EngineRefused(500, _NONSENSE)
    return found
