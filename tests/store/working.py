"""A whole Windlass whose engine sees when two workers do the same."""

from __future__ import annotations

import asyncio
from collections import Counter

from tests.fakes.engine import FakeEngine
from tests.store.stores import until
from tests.world import World
from windlass.engines.workload import Instance, Workload


class Watchful(FakeEngine):
    """An engine that sees when two do the same."""

    def __init__(self) -> None:
        super().__init__()
        self.busy: Counter[str] = Counter()
        self.at_once: Counter[str] = Counter()

    async def run(self, wanted: Workload, index: int) -> Instance:
        self.busy[wanted.service] += 1
        self.at_once[wanted.service] = max(self.at_once[wanted.service], self.busy[wanted.service])
        try:
            await asyncio.sleep(0.002)
            return await super().run(wanted, index)
        finally:
            self.busy[wanted.service] -= 1


async def deployed(world: World, app: str) -> str:
    answer = await world.post(f"/application/{app}/deploy")
    assert answer.status == 202
    return str(answer["id"])


async def begun(world: World) -> str:
    """An application whose deployment is in the engine's hands, and stays there."""
    world.engine.gate = asyncio.Event()
    app = await world.application()
    await deployed(world, app)
    await world.installation.worker.start_due()
    await until(lambda: world.engine.applied)
    return app


async def kinds(world: World) -> Counter[str]:
    return Counter(event.kind for event in await world.events() if event.kind.startswith("DEPLOYMENT_"))
