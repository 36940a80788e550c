"""The engine of an installation that cannot run anything yet: it says so, clearly, for every deployment."""

from __future__ import annotations

from windlass.core.workload import Workload
from windlass.engines.engine import EngineError


class AbsentEngine:
    name = "absent"

    async def apply(self, workload: Workload) -> None:
        raise EngineError(
            f"No engine of this installation can run a service of the kind {workload.family} yet"
        )

    async def remove(self, service: str) -> None:
        return None
