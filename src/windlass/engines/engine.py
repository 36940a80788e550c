"""What an engine is: a few verbs, each of which may run twice, run late, or be interrupted."""

from __future__ import annotations

from typing import Protocol

from windlass.core.workload import Workload


class EngineError(Exception):
    """It cannot run; the message is for the person who deployed."""


class Engine(Protocol):
    name: str

    async def apply(self, workload: Workload) -> None:
        """Brings this generation up and answers when it serves, or raises EngineError."""
        ...

    async def remove(self, service: str) -> None:
        """Takes away all that runs of a service. Absent is fine."""
        ...
