"""A run that changes objects of the cluster gets a token of its own, for the namespace of its environment."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import AsyncIterator

import pytest

from tests.kubernetes.control_plane import ControlPlane
from windlass.base.addresses import Reach
from windlass.base.subprocesses import in_thread
from windlass.engines.engine import EngineError
from windlass.engines.namespace_access import NamespaceAccess, NamespaceCredential
from windlass.kubernetes import names
from windlass.kubernetes.access import read_kubeconfig
from windlass.kubernetes.api import ClusterApi
from windlass.kubernetes.engine import KubernetesEngine
from windlass.kubernetes.manifests import ClusterOptions
from windlass.kubernetes.namespace_accounts import NamespaceAccounts

pytestmark = pytest.mark.slow
INSTALLATION = "accounts"


@pytest.fixture
async def accounts(plane: ControlPlane) -> AsyncIterator[NamespaceAccounts]:
    access = read_kubeconfig(json.dumps(plane.kubeconfig()))
    api = ClusterApi(access, Reach(("0.0.0.0/0", "::/0")))
    yield NamespaceAccounts(api, ClusterOptions(installation=INSTALLATION, helper_image="none"))
    await api.close()


def status_of(credential: NamespaceCredential, path: str) -> int:
    trust = ssl.create_default_context(cadata=credential.ca_certificate)
    headers = {"Authorization": f"Bearer {credential.token}"}
    try:
        request = urllib.request.Request(credential.server + path, headers=headers)
        with urllib.request.urlopen(request, context=trust) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        return refused.code


async def test_an_account_may_do_everything_in_its_namespace_and_nothing_elsewhere(
    accounts: NamespaceAccounts,
):
    first = await accounts.credential("one", "acme", seconds=60, has_whole_cluster=False)
    other = await accounts.credential("two", "acme", seconds=60, has_whole_cluster=False)
    own, foreign = (f"/api/v1/namespaces/{item.namespace}/secrets" for item in (first, other))
    paths = (own, foreign, "/api/v1/secrets")
    assert [await in_thread(status_of, first, path) for path in paths] == [200, 403, 403]
    assert first.token not in repr(first)
    again = await accounts.credential("one", "acme", seconds=60, has_whole_cluster=False)
    assert (again.namespace, again.token == first.token) == (first.namespace, False)


async def test_an_account_of_the_whole_cluster_is_another_one(accounts: NamespaceAccounts):
    whole = await accounts.credential("three", "acme", seconds=60, has_whole_cluster=True)
    assert await in_thread(status_of, whole, "/api/v1/secrets") == 200
    own = await accounts.credential("three", "acme", seconds=60, has_whole_cluster=False)
    assert await in_thread(status_of, own, "/api/v1/secrets") == 403


async def test_a_namespace_of_somebody_else_is_refused_and_stays(
    accounts: NamespaceAccounts, plane: ControlPlane
):
    name = names.namespace(INSTALLATION, "taken")
    plane.add_namespace(name)
    with pytest.raises(EngineError, match="it is not of this Windlass"):
        await accounts.credential("taken", "acme", seconds=60, has_whole_cluster=False)
    found = plane.ask(f"/api/v1/namespaces/{name}/serviceaccounts")
    assert "windlass-runs" not in {item["metadata"]["name"] for item in found["items"]}


def test_the_engine_gives_such_credentials():
    assert issubclass(KubernetesEngine, NamespaceAccess)
