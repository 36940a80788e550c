"""Runs of charts are programs of the server's machine, and change the cluster of their environment."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.fakes.builder import FILES_OF_EXAMPLES
from tests.helm_services.conftest import deployed, release_of
from tests.running.clusters import cluster, engine_of
from tests.world import World
from windlass.engines.workload import Workload


@pytest.fixture
def run(world: World) -> list[Workload]:
    """The workloads of the runs on the machine of the server."""
    world.git.files = FILES_OF_EXAMPLES
    return world.engine.applied


async def test_a_run_for_another_cluster_is_a_program_of_the_server(world: World, run: list[Workload]):
    east = await cluster(world, "east")
    environment = await world.environment(cluster_id=east)
    service = await release_of(world, environment)
    assert await deployed(world, service) == ("SUCCEEDED", "")
    assert [workload.service for workload in run] == [service]
    assert not engine_of(world, east).instances


async def test_the_credential_is_that_of_the_cluster_of_the_environment(
    world: World, run: list[Workload], monkeypatch: pytest.MonkeyPatch
):
    east = await cluster(world, "east")
    environment = await world.environment(cluster_id=east)
    service = await release_of(world, environment, timeout_sec=60)
    given: list[Any] = []

    async def ask(workload: Workload) -> int:
        token = workload.variables["WINDLASS_HELM_TOKEN"]
        path = json.loads(workload.variables["WINDLASS_HELM"])["urls"][0].partition(":8080")[2]
        for credential in (token, f"{token}x", "a.b"):
            answer = await world.get(f"{path}/credential", headers={"authorization": _basic(credential)})
            given.append(answer)
        return 0

    world.engine.work = ask
    here = type(world.engine).namespace_credential
    engines: list[object] = []

    async def noted(engine: Any, environment: str, org: str, **options: Any) -> Any:
        engines.append(engine)
        return await here(engine, environment, org, **options)

    monkeypatch.setattr(type(world.engine), "namespace_credential", noted)
    assert await deployed(world, service) == ("SUCCEEDED", "")
    assert [answer.status for answer in given] == [200, 401, 401]
    assert given[0]["namespace"] == f"wl-{environment}"
    assert given[0]["token"] == f"{world.org} 660 False"
    assert engines == [engine_of(world, east)]


async def test_a_credential_is_refused_after_the_run(world: World, run: list[Workload]):
    service = await release_of(world)
    await deployed(world, service)
    token = run[-1].variables["WINDLASS_HELM_TOKEN"]
    path = json.loads(run[-1].variables["WINDLASS_HELM"])["urls"][0].partition(":8080")[2]
    answer = await world.get(f"{path}/credential", headers={"authorization": _basic(token)})
    assert answer.status == 401


async def test_the_credential_for_the_cluster_ends_with_the_run(world: World, run: list[Workload]):
    east = await cluster(world, "east")
    service = await release_of(world, await world.environment(cluster_id=east))
    during: list[int] = []

    async def ask(workload: Workload) -> int:
        token = workload.variables["WINDLASS_HELM_TOKEN"]
        path = json.loads(workload.variables["WINDLASS_HELM"])["urls"][0].partition(":8080")[2]
        await world.get(f"{path}/credential", headers={"authorization": _basic(token)})
        during.append(len(engine_of(world, east).credentials))
        return 0

    world.engine.work = ask
    assert await deployed(world, service) == ("SUCCEEDED", "")
    assert during == [1]
    assert not engine_of(world, east).credentials


async def test_a_run_whose_credential_cannot_be_ended_succeeds(world: World, run: list[Workload]):
    east = await cluster(world, "east")
    service = await release_of(world, await world.environment(cluster_id=east))

    async def lose(workload: Workload) -> int:
        engine_of(world, east).away = True
        return 0

    world.engine.work = lose
    assert await deployed(world, service) == ("SUCCEEDED", "")


def _basic(token: str) -> str:
    return "Basic " + base64.b64encode(f"run:{token}".encode()).decode()
