"""The engine deletes the namespace of a deleted environment as soon as no record in it is needed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.kubernetes.stations import engine_on, web
from tests.kubernetes.stub_cluster import StubCluster, stub_cluster
from windlass.kubernetes import leftovers, names


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[StubCluster]:
    async with stub_cluster(tmp_path) as made:
        yield made


async def test_a_namespace_stays_as_long_as_the_records_of_removed_generations(
    cluster: StubCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    work = web()
    namespace = names.namespace("test", work.environment)

    def is_there() -> bool:
        return ("namespaces", "", namespace) in cluster.objects

    async with engine_on(cluster, tmp_path) as engine:
        await engine.apply(work, 1)
        assert work.environment in await engine.environments()
        await engine.remove_environments([work.environment])
        assert is_there(), "an instance runs"
        await engine.discard(work.service)
        await engine.remove_environments([work.environment])
        assert is_there(), "a late call could start the removed generation again"
        monkeypatch.setattr(leftovers, "MAX_DELAY_SECONDS", -10)
        await engine.sweep([work.service])
        await engine.remove_environments([work.environment])
        assert not is_there()
