"""The drain of a node ends the instances of a service one after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web as http

from tests.kubernetes.stations import engine_on, web
from tests.kubernetes.stub_cluster import StubCluster, refusal, stub_cluster
from windlass.kubernetes import names

BUDGETS = "poddisruptionbudgets"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[StubCluster]:
    async with stub_cluster(tmp_path) as made:
        yield made


async def test_a_service_of_two_instances_has_a_disruption_budget_until_it_is_discarded(cluster, tmp_path):
    work = web()
    async with engine_on(cluster, tmp_path) as engine:
        await engine.apply(work, 1)
        assert not cluster.all(BUDGETS)
        for _ in range(2):
            await engine.apply(work, 2)
        (budget,) = cluster.all(BUDGETS)
        assert budget["spec"]["maxUnavailable"] == 1
        selected = budget["spec"]["selector"]["matchLabels"]
        pods = [pod["metadata"]["labels"] for pod in cluster.all("pods")]
        assert all(selected.items() <= labels.items() for labels in pods)
        assert selected[names.SERVICE] == work.service
        await engine.apply(web(service=work.service, generation=2), 2)
        assert len(cluster.all(BUDGETS)) == 1
        await engine.discard(work.service)
        assert not cluster.all(BUDGETS)


async def test_an_account_without_the_right_deploys_without_a_budget(cluster, tmp_path, caplog):
    def refuse(request: http.Request) -> http.Response | None:
        return refusal(403, "Forbidden", "no") if BUDGETS in request.path else None

    cluster.before = refuse
    async with engine_on(cluster, tmp_path) as engine:
        for generation in (1, 2):
            work = web(service="s", generation=generation)
            assert len((await engine.apply(work, 2)).of(generation).instances) == 2
        await engine.discard("s")
    told = [each for each in caplog.records if "right to create poddisruptionbudgets" in each.getMessage()]
    assert len(told) == 1
