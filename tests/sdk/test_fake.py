"""The engine for tests keeps the promises that tests of the control plane rely on."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence

import pytest

from tests.engines.once import RunsOnce
from tests.engines.rollouts import Rollouts
from tests.engines.stations import Opener
from tests.fakes.engine import FakeEngine
from windlass.engines.workload import Artifact, OutputLine, Phase, Workload


class FakeRig:
    cannot: Mapping[str, str] = {
        "adopt": "it lives in the process of the test",
        "memory": "it runs nothing",
        "programs": "it runs nothing",
    }

    def __init__(self, engine: FakeEngine | None = None) -> None:
        self._engine = engine or FakeEngine()
        self._engine.work = self._work

    def opener(self) -> Opener:
        return lambda: self._engine

    async def artifact(self, program: str) -> Artifact:
        return Artifact(kind="native", ref=program)

    async def copies(self, service: str) -> Sequence[tuple[int, int]]:
        there = await self._engine.copies(service)
        return [(each.generation, each.index) for each in there if each.phase is Phase.RUNNING]

    async def traces(self, service: str) -> Collection[str]:
        return [each.id for each in await self._engine.copies(service)]

    async def remembered(self) -> bytes:
        return b""

    async def _work(self, wanted: Workload) -> int:
        """As `programs.ENDS_ONCE`."""
        self._engine.says(wanted.service, OutputLine(1, "begun"))
        await asyncio.sleep(float(wanted.variables.get("AFTER", "0")))
        self._engine.says(wanted.service, OutputLine(1, "the last line"))
        return int(wanted.variables.get("CODE", "0"))


@pytest.fixture
def rig() -> FakeRig:
    return FakeRig()


class TestFake(Rollouts, RunsOnce):
    """See there."""
