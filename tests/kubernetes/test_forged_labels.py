"""Objects in one namespace do not count as instances of a service in another, whatever labels they have."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from tests.kubernetes.stations import engine_on, web
from tests.kubernetes.stub_cluster import StubCluster, stub_cluster
from windlass.base.errors import Unavailable
from windlass.engines.engine import EngineError
from windlass.engines.environment_spaces import FindEnvironments
from windlass.engines.workload import Workload
from windlass.kubernetes import names

FIRST = "2026-01-01T00:00:00Z"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[StubCluster]:
    async with stub_cluster(tmp_path) as made:
        yield made


def forge(cluster: StubCluster, kind: str, created: str) -> None:
    """Copies an object with its labels into a namespace of another environment."""
    own = cluster.all(kind)[0]
    wanted = {"labels", "annotations"}
    kept = {key: value for key, value in own["metadata"].items() if key in wanted}
    metadata = {**kept, "name": "forged-7", "namespace": "another", "creationTimestamp": created}
    cluster.put(kind, {**own, "metadata": metadata})


def finder(*workloads: Workload) -> FindEnvironments:
    """Returns what a control plane with these services tells."""

    async def find(services: Collection[str]) -> Mapping[str, str]:
        return {each.service: each.environment for each in workloads if each.service in services}

    return find


async def test_a_pod_of_another_namespace_is_no_instance(cluster, tmp_path):
    work = web(alone=True)
    async with engine_on(cluster, tmp_path) as engine:
        first = (await engine.apply(work, 1)).instances
        forge(cluster, "pods", FIRST)
        await engine.apply(web(alone=True, generation=2), 1)
        assert {each.id for each in await engine.all() if each.generation == 1} == {first[0].id}
        await engine.remove(work.service, generation=1)
        assert ("pods", "another", "forged-7") in cluster.objects


async def test_another_server_asks_the_control_plane_where_a_service_is(cluster, tmp_path):
    """A release may have younger objects than those that somebody has left in another namespace."""
    work = web(alone=True)
    async with engine_on(cluster, tmp_path / "one") as engine:
        first = (await engine.apply(work, 1)).instances
    for kind in ("pods", "statefulsets"):
        forge(cluster, kind, FIRST)
    async with engine_on(cluster, tmp_path / "other", find=finder(work)) as engine:
        assert [each.id for each in (await engine.observe(work.service)).instances] == [first[0].id]
        assert [each.id for each in await engine.all()] == [first[0].id]
        await engine.discard(work.service)
    assert {namespace for kind, namespace, _ in cluster.objects if kind == "pods"} == {"another"}


async def test_no_object_counts_before_the_control_plane_has_answered(cluster, tmp_path):
    work, is_away, asked = web(alone=True), True, 0
    known = finder(work)

    async def find(services: Collection[str]) -> Mapping[str, str]:
        nonlocal is_away, asked
        asked += 1
        if is_away:
            is_away = False
            raise Unavailable("the database is away")
        return await known(services)

    async with engine_on(cluster, tmp_path / "one") as engine:
        first = (await engine.apply(work, 1)).instances
    forge(cluster, "pods", FIRST)
    async with engine_on(cluster, tmp_path / "other", find=find) as engine:
        assert [each.id for each in await engine.all()] == [first[0].id]
    assert asked == 2


async def test_all_objects_of_a_service_that_the_control_plane_does_not_have_are_ended(cluster, tmp_path):
    work = web(alone=True)
    async with engine_on(cluster, tmp_path / "one") as engine:
        await engine.apply(work, 1)
    forge(cluster, "pods", FIRST)
    async with engine_on(cluster, tmp_path / "other", find=finder()) as engine:
        assert (await engine.services())[work.service].instances == 2
        await engine.set_aside(work.service, tmp_path)
        assert not cluster.all("pods")
        assert not [each for each in cluster.all("statefulsets") if each["spec"]["replicas"]]


async def test_a_mark_in_another_namespace_does_not_stop_a_service(cluster, tmp_path):
    async with engine_on(cluster, tmp_path) as engine:
        await engine.apply(web(alone=True), 1)
        forge(cluster, "statefulsets", FIRST)
        forged = cluster.objects["statefulsets", "another", "forged-7"]
        labels = {**forged["metadata"]["labels"], names.DISCARDED: "yes", names.GENERATION: "9"}
        cluster.put("statefulsets", {**forged, "metadata": {**forged["metadata"], "labels": labels}})
        with suppress(EngineError):  # after this, the engine has seen the mark
            await engine.apply(web(alone=True, generation=2), 1)
        assert (await engine.apply(web(alone=True, generation=3), 1)).of(3).instances
