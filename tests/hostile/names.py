"""Names and ports that tests claim."""

from __future__ import annotations

from typing import Any

PUBLIC = {"internal_port": 8000, "publicly_accessible": True, "protocol": "HTTP"}


def port(number: int = 8000, **fields: Any) -> dict[str, Any]:
    return PUBLIC | {"internal_port": number} | fields
