"""Clusters with the engine KUBERNETES under a whole Windlass, on an API server in this process."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.faults.inside import Inside, inside, until
from tests.kubernetes.stub_cluster import StubCluster, stub_cluster
from tests.world import Answer
from windlass.control.services.clusters import find_access
from windlass.engines.registries import BuildRegistry, RegistryLogin
from windlass.store.tables.queues import queue_of, runs_beside


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[StubCluster]:
    async with stub_cluster(tmp_path / "cluster") as made:
        yield made


@pytest.fixture
async def windlass(tmp_path: Path, cluster: StubCluster) -> AsyncIterator[Inside]:
    async with inside(tmp_path / "windlass", outbound_allow=["127.0.0.1/32", "10.9.9.9/32"]) as there:
        yield there


async def connect(there: Inside, **fields: Any) -> Answer:
    org = (await there.call("GET", "/organization"))["id"]
    body = {"name": "east", "engine": "KUBERNETES"} | fields
    return await there.call("POST", f"/organization/{org}/cluster", body)


async def test_a_cluster_is_connected_by_its_kubeconfig_which_is_never_answered(windlass, cluster):
    made = await connect(windlass, kubeconfig=cluster.kubeconfig())
    assert made.status == 201, made
    identity = cluster.objects["namespaces", "", "kube-system"]["metadata"]["uid"]
    assert made["engine_id"] == identity
    assert made["has_kubeconfig"] is True
    assert cluster.access.token not in str(made)
    org = (await windlass.call("GET", "/organization"))["id"]
    status = await windlass.call("GET", f"/organization/{org}/cluster/{made['id']}/status")
    assert status["status"] == "DEPLOYED", status


async def make_container(windlass: Inside, cluster: str) -> str:
    """Returns the id of a container in a new environment on the cluster."""
    org = (await windlass.call("GET", "/organization"))["id"]
    project = (await windlass.call("POST", f"/organization/{org}/project", {"name": "acme"}))["id"]
    body = {"name": "blue", "cluster_id": cluster}
    environment = (await windlass.call("POST", f"/project/{project}/environment", body))["id"]
    fields = {"name": "web", "image_name": "shop/web", "tag": "1", "memory": 64}
    return str((await windlass.call("POST", f"/environment/{environment}/container", fields))["id"])


async def deploy(windlass: Inside, container: str) -> None:
    await windlass.call("POST", f"/container/{container}/deploy", {})

    async def runs() -> bool:
        state = (await windlass.call("GET", f"/container/{container}/status"))["state"]
        return bool(state == "RUNNING")

    await until(runs)


async def test_a_container_of_the_cluster_is_a_deployment_of_it(windlass, cluster):
    made = await connect(windlass, kubeconfig=cluster.kubeconfig())
    container = await make_container(windlass, made["id"])
    await deploy(windlass, container)
    (deployment,) = cluster.all("deployments")
    assert deployment["metadata"]["labels"]["windlass.dev/service"] == container
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"].startswith("shop/web")
    # Deployments wait in a queue of the cluster: a slow API server holds those of no other.
    queue = await windlass.ctx.store.reads.work.queue_of_runs(container)
    assert queue == runs_beside(queue_of(made["id"]))


async def test_the_cluster_says_from_where_its_services_accept_connections(tmp_path, cluster):
    """Not the setting, whose namespace may be of somebody else there."""
    given: dict[str, Any] = {"kubernetes_allow_from": ["operators"], "outbound_allow": ["127.0.0.1/32"]}
    async with inside(tmp_path / "windlass", **given) as windlass:
        made = await connect(windlass, kubeconfig=cluster.kubeconfig(), allow_from=["10.0.0.5/32"])
        container = await make_container(windlass, made["id"])
        await deploy(windlass, container)
        assert accepted(cluster) == [{"podSelector": {}}, {"ipBlock": {"cidr": "10.0.0.5/32"}}]
        org = (await windlass.call("GET", "/organization"))["id"]
        path = f"/organization/{org}/cluster/{made['id']}"
        assert (await windlass.call("PATCH", path, {"allow_from": []})).status == 200
        await windlass.ctx.places.catch_up()
        await windlass.call("POST", f"/container/{container}/deploy", {})

        async def is_closed() -> bool:
            return bool(accepted(cluster) == [{"podSelector": {}}])

        await until(is_closed)
        refused = await windlass.call("PATCH", path, {"allow_from": ["10.0.0.5/24"]})
        assert "allow_from: 10.0.0.5/24 is no network" in str(refused)


def accepted(cluster: StubCluster) -> Any:
    (policy,) = cluster.all("networkpolicies")
    return policy["spec"]["ingress"][0]["from"]


STRANGE_VERSIONS = [
    {"major": "x", "minor": "36"},
    {"major": "1", "minor": "\u00b2"},
    {"major": "1", "minor": "9" * 5000},
    {"major": "1", "minor": "33"},
    {},
]


@pytest.mark.parametrize("version", STRANGE_VERSIONS, ids=range(len(STRANGE_VERSIONS)))
async def test_a_server_with_a_version_that_is_none_is_refused_as_too_old(windlass, cluster, version):
    cluster.before = lambda request: web.json_response(version) if request.path == "/version" else None
    refused = await connect(windlass, kubeconfig=cluster.kubeconfig())
    assert refused.status == 400, refused
    assert "update the cluster" in str(refused)


def without_check(config: dict[str, Any]) -> None:
    config["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True


def with_program(config: dict[str, Any]) -> None:
    config["users"][0]["user"] = {"exec": {"command": "aws"}}


def with_file(config: dict[str, Any]) -> None:
    config["users"][0]["user"] = {"tokenFile": "/etc/passwd"}


def with_forbidden_address(config: dict[str, Any]) -> None:
    config["clusters"][0]["cluster"]["server"] = "https://169.254.169.254:443"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without_check, "insecure-skip-tls-verify: leave it out"),
        (with_program, "exec: give a token or a client certificate"),
        (with_file, "tokenFile: put the content into token"),
        (with_forbidden_address, "outbound_allow"),
    ],
)
async def test_a_kubeconfig_that_is_not_safe_is_refused_with_the_reason(windlass, cluster, change, words):
    config = json.loads(cluster.kubeconfig())
    change(config)
    refused = await connect(windlass, kubeconfig=json.dumps(config))
    assert refused.status == 400, refused
    assert "kubeconfig: " in str(refused)
    assert words in str(refused)


async def test_an_account_without_the_rights_is_refused_with_those_that_are_missing(windlass, cluster):
    cluster.forbidden = {"statefulsets"}
    refused = await connect(windlass, kubeconfig=cluster.kubeconfig())
    assert refused.status == 400, refused
    assert "create statefulsets" in str(refused)
    for kind in ("services", "endpointslices"):
        cluster.forbidden = {kind}
        assert f"watch {kind}" in str(await connect(windlass, kubeconfig=cluster.kubeconfig()))


async def test_fields_of_other_engines_are_refused_by_name(windlass, cluster):
    refused = await connect(windlass, kubeconfig=cluster.kubeconfig(), engine_address="tcp://10.0.0.5:2376")
    assert refused.status == 400, refused
    assert "engine_address" in str(refused)
    assert (await connect(windlass)).status == 400
    local = await connect(windlass, engine="LOCAL", kubeconfig=cluster.kubeconfig())
    assert "kubeconfig: leave it out: it is for a cluster whose engine is KUBERNETES" in str(local)


async def registry_of(windlass: Inside, cluster: str) -> Any:
    access = await find_access(windlass.ctx, cluster)
    assert access
    return access.registry


async def add_registry(windlass: Inside, name: str, url: str, **config: str) -> str:
    org = (await windlass.call("GET", "/organization"))["id"]
    fields = {"name": name, "kind": "GENERIC_CR", "url": url, "config": config}
    return str((await windlass.call("POST", f"/organization/{org}/containerRegistry", fields))["id"])


async def test_nodes_of_a_cluster_get_a_login_of_their_own(windlass, cluster):
    url = "http://127.0.0.1:1"
    pushes = await add_registry(windlass, "pushes", url, username="windlass", password="may-push")
    pulls = await add_registry(windlass, "pulls", url, username="nodes", password="only-reads")
    fields = {"registry_id": pushes, "registry_pull_id": pulls}
    made = await connect(windlass, kubeconfig=cluster.kubeconfig(), **fields)
    assert (made.status, made["registry_pull_id"]) == (201, pulls), made
    logins = RegistryLogin("windlass", "may-push"), RegistryLogin("nodes", "only-reads")
    assert await registry_of(windlass, made["id"]) == BuildRegistry("127.0.0.1:1/windlass", *logins)
    org = (await windlass.call("GET", "/organization"))["id"]
    path = f"/organization/{org}/cluster/{made['id']}"
    assert "registry_pull_id" not in (await windlass.call("GET", f"{path}/status"))["message"]

    # The login that pushes does not take the place of one that has become useless.
    elsewhere = {"name": "pulls", "kind": "GENERIC_CR", "url": "http://127.0.0.1:2"}
    registry = f"/organization/{org}/containerRegistry/{pulls}"
    config = {"config": {"username": "nodes", "password": "only-reads"}}
    assert (await windlass.call("PUT", registry, elsewhere | config)).status == 200
    assert await registry_of(windlass, made["id"]) is None

    for shared in (pushes, None):
        assert (await windlass.call("PATCH", path, {"registry_pull_id": shared})).status == 200
    said = (await windlass.call("GET", f"{path}/status"))["message"]
    assert "Set registry_pull_id to a container registry with a login that may only pull" in said
    assert await registry_of(windlass, made["id"]) == BuildRegistry("127.0.0.1:1/windlass", logins[0])


@pytest.mark.parametrize(
    ("url", "config", "words"),
    [
        (
            "http://127.0.0.1:2",
            {"username": "nodes", "password": "x"},
            "choose one with the host of registry_id",
        ),
        ("http://127.0.0.1:1", {}, "choose one with a login"),
    ],
)
async def test_a_registry_that_cannot_be_the_login_of_nodes_is_refused(windlass, cluster, url, config, words):
    pushes = await add_registry(windlass, "pushes", "http://127.0.0.1:1", username="a", password="b")
    pulls = await add_registry(windlass, "pulls", url, **config)
    fields = {"registry_id": pushes, "registry_pull_id": pulls}
    refused = await connect(windlass, kubeconfig=cluster.kubeconfig(), **fields)
    assert refused.status == 400, refused
    assert f"registry_pull_id: {words}" in str(refused)
    alone = await connect(windlass, kubeconfig=cluster.kubeconfig(), registry_pull_id=pulls)
    assert "registry_id: is required with registry_pull_id" in str(alone)


async def test_the_registry_of_a_cluster_cannot_be_deleted_before_the_cluster_has_another_one(
    windlass, cluster
):
    org = (await windlass.call("GET", "/organization"))["id"]
    config = {"username": "windlass", "password": "may-push"}
    fields = {"name": "images", "kind": "GENERIC_CR", "url": "http://127.0.0.1:1", "config": config}
    registry = await windlass.call("POST", f"/organization/{org}/containerRegistry", fields)
    made = await connect(windlass, kubeconfig=cluster.kubeconfig(), registry_id=registry["id"])
    assert (made.status, made["registry_path"]) == (201, "windlass"), made
    assert await registry_of(windlass, made["id"]) == BuildRegistry(
        "127.0.0.1:1/windlass", RegistryLogin("windlass", "may-push")
    )
    path = f"/organization/{org}/containerRegistry/{registry['id']}"
    assert (await windlass.call("GET", path))["associated_services_count"] == 0
    refused = await windlass.call("DELETE", path)
    assert refused.status == 409, refused
    assert "Choose another registry_id for the clusters that use it first (east)" in str(refused)
    assert (await windlass.call("PUT", path, fields | {"config": config | {"password": "new"}})).status == 200
    assert (await registry_of(windlass, made["id"])).login.password == "new"
    change = {"registry_id": None}
    assert (await windlass.call("PATCH", f"/organization/{org}/cluster/{made['id']}", change)).status == 200
    assert await registry_of(windlass, made["id"]) is None
    assert (await windlass.call("DELETE", path)).status == 204
