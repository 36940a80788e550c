"""The namespace of a deleted environment is deleted, unless it contains something of others."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest

from tests.kubernetes.control_plane import ControlPlane
from windlass.base.addresses import Reach
from windlass.engines.environment_spaces import EnvironmentSpaces
from windlass.kubernetes import names, paths
from windlass.kubernetes.access import read_kubeconfig
from windlass.kubernetes.api import ClusterApi
from windlass.kubernetes.engine import KubernetesEngine
from windlass.kubernetes.manifests import ClusterOptions
from windlass.kubernetes.namespaces import Namespaces

pytestmark = pytest.mark.slow
INSTALLATION = "spaces"


@pytest.fixture
async def namespaces(plane: ControlPlane) -> AsyncIterator[Namespaces]:
    api = ClusterApi(read_kubeconfig(json.dumps(plane.kubeconfig())), Reach(("0.0.0.0/0", "::/0")))
    yield Namespaces(api, ClusterOptions(installation=INSTALLATION, helper_image="none"))
    await api.close()


def is_deleted(plane: ControlPlane, name: str) -> bool:
    found = plane.ask(paths.NAMESPACES)["items"]
    return not any(each["metadata"]["name"] == name and each["status"]["phase"] == "Active" for each in found)


async def test_an_empty_namespace_is_deleted(namespaces: Namespaces, plane: ControlPlane):
    name = await namespaces.add("empty", "acme")
    certificate = f"/api/v1/namespaces/{name}/configmaps/kube-root-ca.crt"
    plane.wait(lambda: plane.ask(certificate), "what the cluster puts into each namespace")
    assert "empty" in await namespaces.environments()
    await namespaces.remove("empty", ())
    assert is_deleted(plane, name)
    assert "empty" not in await namespaces.environments()
    await namespaces.remove("empty", ())
    await namespaces.remove("never-was", ())


async def test_a_namespace_in_use_stays(namespaces: Namespaces, plane: ControlPlane):
    name = await namespaces.add("used", "acme")
    await namespaces.remove("used", {name})
    assert not is_deleted(plane, name)


@pytest.mark.parametrize("kind", ["persistentvolumeclaims", "secrets", "configmaps"])
async def test_a_namespace_with_an_object_of_others_stays(
    namespaces: Namespaces, plane: ControlPlane, kind: str
):
    environment = f"kept-{kind}"
    name = await namespaces.add(environment, "acme")
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"metadata": {"name": "data"}, **({"spec": claim} if kind == "persistentvolumeclaims" else {})}
    plane.ask(f"/api/v1/namespaces/{name}/{kind}", body)
    await namespaces.remove(environment, ())
    assert not is_deleted(plane, name)


async def test_a_namespace_of_another_owner_stays(namespaces: Namespaces, plane: ControlPlane):
    name = names.namespace(INSTALLATION, "other")
    plane.add_namespace(name)
    await namespaces.remove("other", ())
    assert not is_deleted(plane, name)


def test_the_engine_has_a_space_for_each_environment():
    assert issubclass(KubernetesEngine, EnvironmentSpaces)
