"""An API server that answers what no cluster answers harms nothing but its own cluster."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web as http

from tests.kubernetes.stations import engine_on, web
from tests.kubernetes.stub_cluster import StubCluster, stub_cluster
from windlass.base.addresses import Reach
from windlass.kubernetes import names
from windlass.kubernetes.access import BadAccess, read_kubeconfig
from windlass.kubernetes.api import ClusterApi, ClusterRefusal, ClusterUnavailable
from windlass.kubernetes.cluster import quantity
from windlass.kubernetes.instances import number


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[StubCluster]:
    async with stub_cluster(tmp_path) as made:
        yield made


@pytest.mark.parametrize("text", ["", "-1", "²", "1e400", "9" * 5000, "x"])
def test_text_that_is_no_number_counts_as_zero(text):
    assert number(text) == 0


@pytest.mark.parametrize("text", ["9" * 400, "9" * 300 + "Ei"])
def test_a_quantity_has_a_limit(text):
    assert int(quantity(text)) == 2**60


async def test_strange_numbers_do_not_end_a_watch(cluster, tmp_path):
    async with engine_on(cluster, tmp_path) as engine:
        first = (await engine.apply(web(), 1)).instances
        pod = cluster.all("pods")[0]
        strange = {**pod["metadata"]["labels"], names.GENERATION: "²", names.INDEX: "9" * 5000}
        metadata = {"name": "strange", "namespace": pod["metadata"]["namespace"], "labels": strange}
        cluster.put("pods", {**pod, "metadata": metadata})
        await engine.apply(web(generation=2), 1)
        assert first[0].id in {each.id for each in await engine.all()}
        assert not engine.is_unavailable


async def test_unreadable_objects_are_logged_once(cluster, tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    async with engine_on(cluster, tmp_path) as engine:
        for version in range(50):
            broken = {"metadata": {"name": 7, "resourceVersion": str(version)}}
            cluster.say("pods", {"type": "ADDED", "object": broken})
        await engine.apply(web(), 1)
    told = [record for record in caplog.records if "not readable" in record.getMessage()]
    assert len(told) == 1


async def test_a_websocket_follows_no_redirect(cluster):
    def redirect(request: http.Request) -> http.StreamResponse | None:
        return (
            http.Response(status=302, headers={"Location": "/elsewhere"}) if "exec" in request.path else None
        )

    cluster.before = redirect
    api = ClusterApi(cluster.access, Reach(loopback=True))
    try:
        with pytest.raises(ClusterRefusal, match="does not answer like this"):
            async with api.websocket("/exec", []):
                pass
        assert [path for _, path in cluster.requests] == ["/exec"]
    finally:
        await api.close()


def kubeconfig(cluster: StubCluster, **fields: Any) -> str:
    document = json.loads(cluster.kubeconfig())
    document["clusters"][0]["cluster"] |= fields
    return json.dumps(document)


async def test_the_certificate_is_checked_for_the_name_in_the_kubeconfig(cluster):
    """The certificate of the stub is for its address, 127.0.0.1."""
    by_name = cluster.server.replace("127.0.0.1", "localhost")
    for name, is_right in (("127.0.0.1", True), ("api.example.com", False)):
        access = read_kubeconfig(kubeconfig(cluster, server=by_name, **{"tls-server-name": name}))
        api = ClusterApi(access, Reach(loopback=True))
        try:
            if is_right:
                assert await api.raw("GET", "/readyz")
            else:
                with pytest.raises(ClusterUnavailable, match="certificate"):
                    await api.raw("GET", "/readyz")
        finally:
            await api.close()


def test_a_name_of_a_server_that_is_no_host_name_is_refused():
    with pytest.raises(BadAccess, match="tls-server-name"):
        read_kubeconfig(
            json.dumps(
                {
                    "kind": "Config",
                    "current-context": "c",
                    "clusters": [{"name": "c", "cluster": {"server": "https://a", "tls-server-name": "a b"}}],
                    "users": [{"name": "u", "user": {"token": "t"}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                }
            )
        )
