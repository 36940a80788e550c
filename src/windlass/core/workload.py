"""What an engine is asked to run."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Workload(Struct, frozen=True, kw_only=True):
    """One generation of one service."""

    service: str
    family: str
    name: str
    environment: str
    deployment: str
    document: dict[str, Any]
    """The service as the API shows it."""
