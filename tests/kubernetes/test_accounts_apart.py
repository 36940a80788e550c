"""The account that may change the whole cluster is out of reach of charts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from tests.kubernetes.stub_cluster import StubCluster, stub_cluster
from windlass.base.addresses import Reach
from windlass.kubernetes import names
from windlass.kubernetes.api import ClusterApi
from windlass.kubernetes.manifests import ClusterOptions
from windlass.kubernetes.namespace_accounts import NamespaceAccounts


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[StubCluster]:
    async with stub_cluster(tmp_path) as made:
        yield made


def give_token(request: web.Request) -> web.Response | None:
    return web.json_response({"status": {"token": "t"}}) if request.path.endswith("/token") else None


async def test_no_namespace_of_an_environment_has_an_account_of_the_whole_cluster(cluster: StubCluster):
    cluster.before = give_token
    api = ClusterApi(cluster.access, Reach(loopback=True))
    accounts = NamespaceAccounts(api, ClusterOptions(installation="i", helper_image="none"))
    try:
        given = await accounts.credential("one", "acme", run="r", seconds=60, has_whole_cluster=True)
    finally:
        await api.close()
    assert given.namespace == names.namespace("i", "one")
    made = [path for method, path in cluster.requests if method == "POST" and "accounts" in path]
    assert not any(given.namespace in path for path in made)
    home = names.account_namespace("i")
    assert made[-1] == f"/api/v1/namespaces/{home}/serviceaccounts/{names.run_account('r')}/token"
    (binding,) = cluster.all("clusterrolebindings")
    assert [subject["namespace"] for subject in binding["subjects"]] == [home]
