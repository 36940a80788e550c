"""An engine for tests: runs nothing, remembers everything, and misbehaves on request."""

from __future__ import annotations

import asyncio

from windlass.core.workload import Workload
from windlass.engines.engine import EngineError


class FakeEngine:
    name = "fake"

    def __init__(self) -> None:
        self.running: dict[str, Workload] = {}
        self.applied: list[Workload] = []
        self.broken = ""
        """If set, every apply fails with this message."""
        self.crash: BaseException | None = None
        """If set, apply raises what no engine should."""
        self.gate: asyncio.Event | None = None
        """If set, apply waits for it."""

    async def apply(self, workload: Workload) -> None:
        self.applied.append(workload)
        if self.gate is not None:
            await self.gate.wait()
        if self.crash is not None:
            raise self.crash
        if self.broken:
            raise EngineError(self.broken)
        self.running[workload.service] = workload

    async def remove(self, service: str) -> None:
        self.running.pop(service, None)
