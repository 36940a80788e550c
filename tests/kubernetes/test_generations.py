"""A generation is one object of the cluster, in which every write names the version that it has read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web as http
from msgspec import structs

from tests.engines.stations import until
from tests.kubernetes.stations import engine_on, web
from tests.kubernetes.stub_cluster import StubCluster, refusal, stub_cluster
from windlass.engines.engine import EngineError, VolumeLost
from windlass.engines.workload import Volume
from windlass.kubernetes import names


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[StubCluster]:
    async with stub_cluster(tmp_path) as made:
        yield made


@pytest.fixture
async def engine(cluster: StubCluster, tmp_path: Path):
    async with engine_on(cluster, tmp_path / "engine") as made:
        yield made


async def test_applying_what_is_unchanged_writes_nothing(cluster, engine):
    it = web(ports=[80], volumes=(Volume(name="data", mount="/data"),))
    await engine.apply(it, 2)
    before = len(cluster.writes())
    for _ in range(3):
        await engine.apply(it, 2)
    after = cluster.writes()[before:]
    assert [path for _, path in after if "/secrets" not in path] == []


async def test_a_call_that_was_suspended_while_its_generation_was_removed_starts_nothing(cluster, tmp_path):
    it = web()
    async with engine_on(cluster, tmp_path / "one") as engine, engine_on(cluster, tmp_path / "two") as other:
        await engine.apply(it, 1)
        reached, resumed = asyncio.Event(), asyncio.Event()
        handle: Callable[[http.Request], Awaitable[http.StreamResponse]] = cluster.handle

        async def suspended(request: http.Request) -> http.StreamResponse:
            if request.method == "PATCH" and "/deployments/" in request.path and not reached.is_set():
                reached.set()
                await resumed.wait()
            answer: http.StreamResponse = await handle(request)
            return answer

        cluster.handler = suspended
        late = asyncio.ensure_future(engine.apply(it, 3))
        await reached.wait()
        await other.remove(it.service, generation=1)
        resumed.set()
        with pytest.raises(EngineError, match="was removed"):
            await late
        assert cluster.all("pods") == []


async def test_a_first_call_that_was_suspended_finds_its_name_taken(cluster, tmp_path):
    first, it = web(), web(generation=2)
    async with engine_on(cluster, tmp_path / "one") as engine, engine_on(cluster, tmp_path / "two") as other:
        await engine.apply(first, 1)
        await other.observe(it.service)
        await other.remove(it.service, generation=2)
        with pytest.raises(EngineError, match="was removed"):
            await engine.apply(it, 1)


async def test_a_restored_database_may_use_the_number_of_a_removed_generation_again(engine):
    it = web()
    await engine.apply(it, 1)
    await engine.remove(it.service, generation=1)
    restored = structs.replace(it, deployment="another")
    await engine.apply(restored, 1)
    assert len((await engine.observe(it.service)).ready) == 1


async def test_two_servers_give_each_index_once(cluster, tmp_path):
    it = web()
    async with engine_on(cluster, tmp_path / "one") as engine, engine_on(cluster, tmp_path / "two") as other:
        await asyncio.gather(*(each.apply(it, 5) for each in (engine, other) * 3))
        for each in (engine, other):
            seen = (await each.observe(it.service)).instances
            assert [instance.index for instance in seen] == [0, 1, 2, 3, 4]


async def test_what_runs_alone_is_a_stateful_set_with_a_volume_for_one_pod(cluster, engine):
    it = web(alone=True, volumes=(Volume(name="data", mount="/data", size=3),))
    await engine.apply(it, 1)
    (controller,) = cluster.all("statefulsets")
    (claim,) = cluster.all("persistentvolumeclaims")
    assert cluster.all("deployments") == []
    assert controller["spec"]["replicas"] == 1
    assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "3Gi"
    (seen,) = (await engine.observe(it.service)).instances
    assert seen.index == 0


@pytest.mark.parametrize("phase", ["", "Lost"])
async def test_a_volume_that_held_data_and_is_gone_or_lost_starts_nothing(cluster, engine, phase):
    volume = Volume(name="data", mount="/data")
    it = web(volumes=(volume,))
    if phase:
        await engine.apply(it, 0)
        await engine.apply(it, 1)
        claim = cluster.all("persistentvolumeclaims")[0]["metadata"]
        cluster.change("persistentvolumeclaims", claim["namespace"], claim["name"], phase=phase)
        await engine.remove(it.service)
    known = web(generation=2, volumes=(structs.replace(volume, is_known=True),))
    with pytest.raises(VolumeLost):
        await engine.apply(known, 1)
    assert cluster.all("pods") == []


async def test_objects_of_others_are_not_changed(cluster, engine):
    it = web(ports=[80])
    namespace = names.namespace("test", it.environment)
    foreign = {"metadata": {"name": namespace, "labels": {"team": "other"}}}
    cluster.put("namespaces", foreign)
    with pytest.raises(EngineError, match="does not belong to this Windlass"):
        await engine.apply(it, 1)
    assert cluster.objects["namespaces", "", namespace]["metadata"]["labels"] == {"team": "other"}
    assert cluster.all("deployments") == []


async def test_a_deployment_that_somebody_has_deleted_is_made_again(cluster, engine):
    it = web()
    await engine.apply(it, 1)
    (made,) = cluster.all("deployments")
    cluster.drop("deployments", made["metadata"]["namespace"], made["metadata"]["name"])
    for pod in cluster.all("pods"):
        cluster.drop("pods", pod["metadata"]["namespace"], pod["metadata"]["name"])
    await engine.apply(it, 1)
    assert len((await engine.observe(it.service)).ready) == 1


async def test_a_number_that_somebody_has_changed_by_hand_is_put_right(cluster, engine):
    it = web()
    await engine.apply(it, 1)
    (made,) = cluster.all("deployments")
    cluster.put("deployments", {**made, "spec": {**made["spec"], "replicas": 4}})
    await asyncio.sleep(0.05)
    await engine.apply(it, 1)
    assert len(cluster.all("pods")) == 1


async def test_a_new_namespace_that_refuses_pods_for_a_moment_gets_the_run_anyway(cluster, engine):
    answers = [refusal(403, "Forbidden", 'pods "x" is forbidden: serviceaccount "default" not found')]

    def early(request: http.Request) -> http.StreamResponse | None:
        is_pod = request.method == "POST" and request.path.endswith("/pods")
        return answers.pop() if is_pod and answers else None

    cluster.before = early
    running = asyncio.ensure_future(engine.once(web()))
    await until(lambda: _pods(cluster))
    (pod,) = cluster.all("pods")
    ended = {"exitCode": 4, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:05Z"}
    status = {"name": "app", "state": {"terminated": ended}}
    cluster.change(
        "pods",
        pod["metadata"]["namespace"],
        pod["metadata"]["name"],
        phase="Failed",
        containerStatuses=[status],
    )
    outcome = await running
    assert (outcome.exit_code, outcome.ended_at - outcome.started_at) == (4, 5000)


async def test_a_removed_run_stays_as_a_mark_and_is_not_started_again(cluster, engine):
    it = web()
    running = asyncio.ensure_future(engine.once(it))
    await until(lambda: _pods(cluster))
    await engine.remove(it.service, generation=1)
    with pytest.raises(EngineError, match="removed"):
        await running
    with pytest.raises(EngineError, match="removed"):
        await engine.once(it)
    assert len(cluster.all("pods")) == 1


async def _pods(cluster: StubCluster) -> Any:
    return cluster.all("pods")
