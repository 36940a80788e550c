"""A cluster decides neither where the gateway connects nor how long the server reads about its releases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.kubernetes.stub_cluster import StubCluster, stub_cluster
from windlass.base.addresses import Reach
from windlass.engines.releases import ReleasedEndpoint, ReleaseState
from windlass.kubernetes import names, releases
from windlass.kubernetes.api import ClusterApi
from windlass.kubernetes.manifests import ClusterOptions
from windlass.kubernetes.releases import Releases

T = TypeVar("T")
SPACE = names.namespace("i", "one")
OF_HELM = {"app.kubernetes.io/managed-by": "Helm"}
WEB = {"app": "web"}
OWN, OTHER = "10.1.0.5", "10.1.0.6"
PORTS = [{"name": "http", "port": 8080}, {"name": "http", "port": 70_000}]


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[StubCluster]:
    async with stub_cluster(tmp_path) as made:
        made.starts = False
        yield made


def put(
    cluster: StubCluster, resource: str, name: str, labels: dict[str, str] | None = None, **rest: Any
) -> None:
    metadata: dict[str, Any] = {"name": name, "namespace": SPACE, "labels": OF_HELM | (labels or {})}
    metadata["annotations"] = {"meta.helm.sh/release-name": "shop"}
    cluster.put(resource, {"metadata": metadata, **rest})


def put_service(
    cluster: StubCluster,
    *addresses: str,
    phase: str = "Running",
    author: str = "endpointslice-controller.k8s.io",
    selector: dict[str, str] | None = WEB,
) -> None:
    """Makes a Service with endpoints, of which only OWN is the address of a Pod in the namespace."""
    put(cluster, "pods", "web-1", spec={"containers": []}, status={"phase": phase, "podIP": OWN})
    put(cluster, "services", "web", spec={"ports": [{"name": "http", "port": 80}], "selector": selector})
    endpoints = [{"addresses": [address]} for address in addresses]
    labels = {"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": author}
    put(cluster, "endpointslices", "web-a", labels, ports=PORTS, endpoints=endpoints)


async def state_of(cluster: StubCluster) -> ReleaseState:
    return await answered(cluster, lambda reader: reader.state("one"))


async def answered(cluster: StubCluster, ask: Callable[[Releases], Awaitable[T | None]]) -> T:
    """Returns what a reader answers, once it has read the cluster."""
    api = ClusterApi(cluster.access, Reach(("10.1.0.0/16", "127.0.0.1/32"), public=False))
    options = ClusterOptions(installation="i", helper_image="none")
    reader = Releases(api, options, Reach(("10.1.0.0/16",), public=False))
    try:
        while (state := await ask(reader)) is None:  # noqa: ASYNC110 (another task)
            await asyncio.sleep(0.01)
    finally:
        await reader.stop()
        await api.close()
    return state


async def test_only_addresses_of_pods_in_the_namespace_and_real_ports_are_endpoints(cluster: StubCluster):
    put_service(cluster, OTHER, OWN)
    (route,) = (await state_of(cluster)).routes
    assert route.ports == {80: [ReleasedEndpoint(OWN, 8080)]}


@pytest.mark.parametrize(
    "given",
    [{"phase": "Succeeded"}, {"phase": "Failed"}, {"author": "a-chart"}, {"selector": None}],
    ids=str,
)
async def test_an_address_that_another_pod_may_have_got_is_no_endpoint(
    cluster: StubCluster, given: dict[str, Any]
):
    """A Pod that has ended keeps its address, and a chart its own list of addresses. The negative control is
    the test above."""
    put_service(cluster, OWN, **given)
    (route,) = (await state_of(cluster)).routes
    assert not any(route.ports.values())


async def test_no_more_endpoints_are_looked_at_than_the_limit(
    cluster: StubCluster, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(releases, "MAX_ENDPOINTS", 4)
    put_service(cluster, *[OTHER] * 5, OWN)
    (route,) = (await state_of(cluster)).routes
    assert route.ports == {80: ()}


async def test_a_controller_that_lacks_pods_tells_the_problem_of_one_of_its_own(cluster: StubCluster):
    for app, code in (("other", 2), ("web", 3)):
        ended = {"terminated": {"exitCode": code}}
        status = {"name": "main", "ready": False, "restartCount": 1, "state": ended, "lastState": {}}
        put(
            cluster,
            "pods",
            f"{app}-1",
            {"app": app},
            spec={"containers": []},
            status={"phase": "Running", "containerStatuses": [status]},
        )
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}
    chosen = {"matchLabels": {"app": "web"}}
    spec = {"replicas": 1, "selector": chosen, "template": template}
    put(cluster, "deployments", "web", kind="Deployment", spec=spec)
    controllers = (await state_of(cluster)).controllers
    (found,) = (each for each in controllers if each.kind == "Deployment")
    assert (found.wanted, found.ready) == (1, 0)
    assert found.reason == "the container main of the Pod web-1 exited with 3"


def put_pod(cluster: StubCluster, name: str, labels: dict[str, str], code: int, **metadata: Any) -> None:
    """Makes a Pod of a release that has ended."""
    status = {"name": "main", "ready": False, "restartCount": 1, "lastState": {}}
    status["state"] = {"terminated": {"exitCode": code}}
    phase = "Failed" if code else "Succeeded"
    put(
        cluster,
        "pods",
        name,
        labels,
        spec={"containers": []},
        status={"phase": phase, "containerStatuses": [status]},
    )
    if metadata:
        pod = cluster.objects["pods", SPACE, name]
        cluster.put("pods", {**pod, "metadata": {**pod["metadata"], **metadata}})


async def test_daemon_sets_jobs_and_single_pods_of_a_release_are_told(cluster: StubCluster):
    owner = [{"kind": "Job", "name": "seed", "uid": "1"}]
    put_pod(cluster, "agent-1", {"app": "agent"}, 3, ownerReferences=owner)
    put_pod(cluster, "alone", {}, 4)
    put_pod(cluster, "done", {}, 0)
    chosen = {"matchLabels": {"app": "agent"}}
    counts = {"desiredNumberScheduled": 3, "numberReady": 2}
    put(cluster, "daemonsets", "agent", kind="DaemonSet", spec={"selector": chosen}, status=counts)
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": ""}
    for name, conditions in (("seed", [failed]), ("index", [{**failed, "type": "Complete"}]), ("runs", [])):
        put(cluster, "jobs", name, kind="Job", spec={}, status={"conditions": conditions})
    found = {each.address: each for each in (await state_of(cluster)).controllers}
    assert {address: (each.wanted, each.ready) for address, each in found.items()} == {
        "DaemonSet/agent": (3, 2),
        "Job/seed": (1, 0),
        "Job/index": (0, 0),
        "Job/runs": (0, 0),
        "Pod/alone": (1, 0),
        "Pod/done": (0, 0),
    }
    assert found["DaemonSet/agent"].reason == "the container main of the Pod agent-1 exited with 3"
    assert found["Job/seed"].reason == "it failed: BackoffLimitExceeded"
    assert found["Pod/alone"].reason == "the container main of the Pod alone exited with 4"


async def test_the_pods_and_events_of_a_release_are_those_of_its_own_objects(cluster: StubCluster):
    put_pod(cluster, "web-1", {"app": "web"}, 3, annotations={}, creationTimestamp="2026-01-31T09:05:00Z")
    put_pod(cluster, "alone", {}, 4)
    put_pod(cluster, "foreign", {"app": "other"}, 4, annotations={})
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {}}}
    put(cluster, "deployments", "web", kind="Deployment", spec=spec)
    told = [
        ("Pod", "web-1", "BackOff", "Warning", "2026-01-31T09:06:00Z"),
        ("ReplicaSet", "web-7d4b9", "FailedCreate", "Warning", "2026-01-31T09:07:00Z"),
        ("Pod", "foreign", "BackOff", "Warning", "2026-01-31T09:08:00Z"),
        ("Pod", "alone", "Pulled", "Normal", "not a time"),
    ]
    for index, (kind, name, reason, type, at) in enumerate(told):
        event: dict[str, Any] = {
            "involvedObject": {"kind": kind, "name": name},
            "reason": reason,
            "message": "so",
            "type": type,
        }
        put(cluster, "events", f"e{index}", None, lastTimestamp=at, count=2, **event)
    details = await answered(cluster, lambda reader: reader.details("one", "shop"))
    assert {pod.name: pod.created > 0 for pod in details.pods} == {"web-1": True, "alone": True}
    assert details.pods[0].reason == "the container main of the Pod web-1 exited with 3"
    assert [(event.address, event.reason, event.is_warning) for event in details.events] == [
        ("Deployment/web", "FailedCreate", True),
        ("Pod/web-1", "BackOff", True),
        ("Pod/alone", "Pulled", False),
    ]
    assert [event.at for event in details.events] == [1769850420000, 1769850360000, 0]
