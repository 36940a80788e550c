"""Neighbours that connect to a Service all the time notice neither a deployment nor a scale-down, on a real
node. The programs of the instances end as soon as they get their signal, as most programs do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.engines import programs
from tests.engines.stations import LONG, Station, until, wanted
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.rig import KubernetesRig
from windlass.engines.workload import HealthProbe, ProbeKind, Workload
from windlass.kubernetes import names

pytestmark = pytest.mark.nightly
PORT = 8080
NEIGHBOURS = 4
PAUSE = 0.02


class Load:
    """Connections of neighbours, and what came of them."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.answers: list[str] = []
        self.failures: list[str] = []

    async def connect(self) -> None:
        try:
            async with asyncio.timeout(LONG):
                reader, writer = await asyncio.open_connection(self._address, PORT)
                said = (await reader.read()).decode()
                writer.close()
                await writer.wait_closed()
        except OSError as error:
            self.failures.append(str(error))
            return
        (self.answers if said.startswith("hello") else self.failures).append(said)

    async def hears(self, answer: str) -> None:
        before = len(self.answers)

        async def has_heard() -> bool:
            return answer in self.answers[before:]

        await until(has_heard, lambda: f"{answer!r} was not heard: {self.answers[-5:]}, {self.failures[-5:]}")

    async def _go_on(self) -> None:
        while True:
            await self.connect()
            await asyncio.sleep(PAUSE)

    @asynccontextmanager
    async def go_on(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(self._go_on()) for _ in range(NEIGHBOURS)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def service_address(cluster: Cluster, workload: Workload) -> str:
    """The address of the Service under which neighbours reach a service. The machine has a route to it."""
    found = cluster.ask(f"/api/v1/services?labelSelector={names.SERVICE}%3D{workload.service}")["items"]
    return str(found[0]["spec"]["clusterIP"])


async def test_neighbours_notice_neither_a_deployment_nor_a_scale_down(cluster: Cluster, tmp_path: Path):
    rig = KubernetesRig(cluster, tmp_path)
    try:
        async with Station(rig) as station:
            artifact = await rig.artifact(programs.SERVES)
            variables = {"PORT": str(PORT), "WHO": "the first"}
            probe = HealthProbe(kind=ProbeKind.TCP, port=PORT)  # which each port of a program has
            first = wanted(artifact, [PORT], variables=variables, settle=0.0, ready=(probe,))
            second = replace(first, generation=2, variables={**variables, "WHO": "the second"})
            await station.apply(first, 2)
            await station.engine.wait_until_ready(first, 2)
            load = Load(service_address(cluster, first))
            await until(load_is_answered(load))
            load.failures.clear()
            async with load.go_on():
                await load.hears("hello from the first")
                await station.apply(second, 3)
                await station.engine.wait_until_ready(second, 3)
                await load.hears("hello from the second")
                await station.engine.remove(first.service, generation=1, grace=5)
                await load.hears("hello from the second")
                await station.engine.apply(second, 1)
                await load.hears("hello from the second")
            assert load.failures == []
            await station.engine.sweep(await station.engine.services())
    finally:
        rig.erase()


def load_is_answered(load: Load) -> Callable[[], Awaitable[bool]]:
    async def is_answered() -> bool:
        await load.connect()
        return bool(load.answers)

    return is_answered
