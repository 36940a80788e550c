"""Neighbours connect to no instance that is about to end while another generation serves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web as http
from msgspec.structs import replace

from tests.kubernetes.stations import engine_on, web
from tests.kubernetes.stub_cluster import StubCluster, stub_cluster
from windlass.engines.workload import Workload, WorkloadPort
from windlass.kubernetes import endings, names

PORTS = (WorkloadPort(name="web", internal=8080),)


@pytest.fixture
async def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[StubCluster]:
    monkeypatch.setattr(endings, "LEAVE_SECONDS", 0.01)
    async with stub_cluster(tmp_path) as made:
        yield made


def shop(generation: int = 1) -> Workload:
    return replace(web(generation=generation), ports=PORTS)


def watch_removals(cluster: StubCluster) -> list[list[str]]:
    """Returns, for each write to a Deployment, the generations whose Pods got connections of neighbours."""
    seen: list[list[str]] = []

    def note(request: http.Request) -> http.StreamResponse | None:
        if request.method == "PATCH" and "/deployments/" in request.path:
            labels = [pod["metadata"]["labels"] for pod in cluster.all("pods")]
            seen.append(sorted(each[names.GENERATION] for each in labels if names.SERVES in each))
        return None

    cluster.before = note
    return seen


async def test_an_earlier_generation_leaves_the_service_before_its_instances_end(cluster, tmp_path):
    first, second = shop(), shop(2)
    async with engine_on(cluster, tmp_path) as engine:
        await engine.apply(first, 1)
        await engine.apply(second, 1)
        seen = watch_removals(cluster)
        await engine.remove(first.service, generation=1, grace=5)
        assert seen[0] == ["2"]


async def test_the_only_generation_ends_without_a_pause(cluster, tmp_path):
    only = shop()
    async with engine_on(cluster, tmp_path) as engine:
        await engine.apply(only, 1)
        seen = watch_removals(cluster)
        await engine.remove(only.service, grace=5)
        assert seen[0] == ["1"]


async def test_surplus_instances_leave_the_service_some_time_before_they_end(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(endings, "LEAVE_SECONDS", 1000.0)
    it = shop()

    def serving() -> int:
        return sum(names.SERVES in pod["metadata"]["labels"] for pod in cluster.all("pods"))

    async with engine_on(cluster, tmp_path) as engine:
        await engine.apply(it, 3)
        removals = watch_removals(cluster)
        scaling = asyncio.create_task(engine.apply(it, 1))
        await asyncio.wait({scaling}, timeout=1)
        assert (scaling.done(), serving(), removals) == (False, 1, [])
        scaling.cancel()  # as at the end of the server: all of them serve again
        await asyncio.gather(scaling, return_exceptions=True)
        assert serving() == 3


async def test_the_last_instances_end_without_a_pause(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(endings, "LEAVE_SECONDS", 1000.0)
    it = shop()
    async with engine_on(cluster, tmp_path) as engine:
        await engine.apply(it, 2)
        assert not (await engine.apply(it, 0)).instances
