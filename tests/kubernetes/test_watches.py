"""The Kubernetes engine stays right while its API server fails, on an API server in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web as http

from tests.engines.stations import until
from tests.kubernetes.stations import Told, engine_on, web
from tests.kubernetes.stub_cluster import StubCluster, refusal, stub_cluster
from windlass.base.addresses import Reach
from windlass.engines.engine import EngineError, EngineUnavailable, NotReady
from windlass.kubernetes import api, kept_objects, names, watch
from windlass.kubernetes.api import MAX_CALLS, MAX_LINE_BYTES, ClusterApi, ClusterRefusal, ClusterUnavailable
from windlass.kubernetes.documents import KubeObject


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[StubCluster]:
    async with stub_cluster(tmp_path) as made:
        yield made


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "MAX_PASSED_BYTES", MAX_LINE_BYTES + 1_000)
    monkeypatch.setattr(watch, "_FIRST_PAUSE", 0.01)


def once_each(
    *answers: Callable[[], http.StreamResponse],
) -> Callable[[http.Request], http.StreamResponse | None]:
    """Answers the next requests in this way, and lets the server answer the others."""
    left = [*answers]
    return lambda request: left.pop(0)() if left else None


def lists(cluster: StubCluster, path: str = "/api/v1/pods") -> int:
    return cluster.requests.count(("GET", path))


EVENTS = {
    "410 as an event": {"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}},
    "broken JSON": {"raw": b'{"type": "ADDED", "object": {\n'},
    "another document": {"raw": b"[1, 2]\n"},
    "an endless line": {"raw": b"x" * (MAX_LINE_BYTES + 2_000)},
    "an error without a code": {"type": "ERROR", "object": {"message": "etcd is gone"}},
}


@pytest.mark.parametrize("event", list(EVENTS.values()), ids=list(EVENTS))
async def test_a_watch_that_breaks_lists_again_and_sees_what_it_missed(cluster, tmp_path, event):
    async with engine_on(cluster, tmp_path / "engine") as engine:
        it = web()
        await engine.apply(it, 2)
        before = lists(cluster)
        cluster.say("pods", event)
        await until(lambda: _is(lists(cluster) > before))
        gone = cluster.all("pods")[0]["metadata"]
        cluster.starts = False
        cluster.drop("pods", gone["namespace"], gone["name"])
        await until(lambda: _is_count(engine, it.service, 1))


async def test_a_cut_watch_continues_at_its_last_version(cluster, tmp_path):
    asked: list[dict[str, str]] = []

    def note(request: http.Request) -> None:
        if request.path == "/api/v1/pods" and request.query.get("watch"):
            asked.append(dict(request.query))

    cluster.before = note
    async with engine_on(cluster, tmp_path / "engine") as engine:
        await engine.apply(web(), 1)
        cluster.end_watches()
        await until(lambda: _is(len(asked) == 2))
    assert "sendInitialEvents" in asked[0]
    assert "sendInitialEvents" not in asked[1]
    assert asked[1]["resourceVersion"].isdigit()


async def test_objects_that_cannot_be_read_do_not_hide_the_others(cluster, tmp_path):
    async with engine_on(cluster, tmp_path / "engine") as engine:
        it = web()
        await engine.apply(it, 1)
        labels = cluster.all("pods")[0]["metadata"]["labels"]
        odd = {
            "metadata": {"name": "odd", "namespace": "n", "labels": labels},
            "status": {"containerStatuses": 5},
        }
        cluster.say("pods", {"type": "ADDED", "object": odd})
        cluster.say(
            "pods", {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "900"}, "spec": None}}
        )
        await engine.apply(it, 2)
        assert len((await engine.observe(it.service)).instances) == 2


async def test_a_call_that_the_server_is_too_busy_for_is_sent_again_after_the_time_it_asks_for(cluster):
    api = ClusterApi(cluster.access, Reach(loopback=True))
    busy = lambda: refusal(429, "TooManyRequests", "later", **{"Retry-After": "0"})  # noqa: E731
    cluster.before = once_each(busy, busy)
    try:
        assert (await api.get("/api/v1/namespaces/kube-system", KubeObject)).metadata.name == "kube-system"
    finally:
        await api.close()
    assert len(cluster.requests) == 3


ANSWERS: dict[str, tuple[Callable[[], http.StreamResponse], type[Exception], str]] = {
    "401": (lambda: refusal(401, "Unauthorized", "no"), ClusterUnavailable, "Send the kubeconfig"),
    "503": (lambda: refusal(503, "", "etcd is away"), ClusterUnavailable, "503"),
    "403": (lambda: refusal(403, "Forbidden", "may not"), ClusterRefusal, "may not"),
    "a way to another server": (
        lambda: http.Response(status=302, headers={"Location": "http://169.254.169.254/"}),
        ClusterRefusal,
        "Check the address",
    ),
    "a page": (lambda: http.Response(text="<html>"), ClusterRefusal, "Check the address"),
    "too much": (lambda: http.Response(body=b" " * (17 << 20)), ClusterRefusal, "more than"),
}


@pytest.mark.parametrize(("answer", "failure", "words"), list(ANSWERS.values()), ids=list(ANSWERS))
async def test_an_answer_that_is_no_success_says_what_to_do(cluster, answer, failure, words):
    api = ClusterApi(cluster.access, Reach(loopback=True))
    cluster.before = lambda request: answer()
    try:
        with pytest.raises(failure, match=words):
            await api.get("/api/v1/namespaces/kube-system", KubeObject)
    finally:
        await api.close()


async def test_an_address_that_is_not_allowed_is_not_connected_to(cluster):
    api = ClusterApi(cluster.access, Reach())
    try:
        with pytest.raises(ClusterUnavailable, match="outbound_allow"):
            await api.get("/api/v1/namespaces/kube-system", KubeObject)
    finally:
        await api.close()
    assert cluster.requests == []


async def test_a_server_with_a_certificate_of_another_authority_is_refused(cluster, tmp_path):
    async with stub_cluster(tmp_path / "other") as other:
        other.server = cluster.server
        api = ClusterApi(other.access, Reach(loopback=True))
        try:
            with pytest.raises(ClusterUnavailable, match="certificate"):
                await api.get("/api/v1/namespaces/kube-system", KubeObject)
        finally:
            await api.close()
    assert cluster.requests == []


async def test_nothing_connects_to_an_address_of_a_pod_that_is_not_allowed(cluster, tmp_path):
    it = web(ports=(8080,))
    for allowed, wanted in (((), ""), (("10.9.9.9/32",), "10.9.9.9")):
        async with engine_on(cluster, tmp_path / wanted, allowed=allowed) as engine:
            (copy,) = (await engine.apply(it, 1)).instances
            assert (copy.address, copy.inside) == (wanted, wanted)
            assert bool(copy.ports) is bool(wanted)
            assert ("outbound_allow" in copy.unready) is not bool(wanted)


@pytest.mark.parametrize("text", ["169.254.169.254", "::ffff:10.9.9.9", "localhost", "10.9.9.9 "])
async def test_an_address_of_a_pod_is_one_in_numbers_and_allowed(cluster, tmp_path, text):
    it = web(ports=(8080,))
    async with engine_on(cluster, tmp_path / "engine") as engine:
        (copy,) = (await engine.apply(it, 1)).instances
        assert copy.is_ready
        (pod,) = cluster.all("pods")
        cluster.change("pods", pod["metadata"]["namespace"], pod["metadata"]["name"], podIP=text)

        async def is_closed() -> bool:
            (copy,) = (await engine.observe(it.service)).instances
            return not copy.address and not copy.ports and not copy.is_ready

        await until(is_closed)


def pod_event(name: str, service: str, version: int) -> dict[str, Any]:
    labels = {"windlass.dev/service": service, "windlass.dev/generation": "1"}
    metadata = {"name": name, "namespace": "n", "resourceVersion": str(version), "labels": labels}
    return {"type": "MODIFIED", "object": {"metadata": metadata}}


def sized_pod(name: str, namespace: str, version: int, **annotations: str) -> dict[str, Any]:
    event = pod_event(name, "s", version)
    event["object"]["metadata"] |= {"namespace": namespace, "annotations": annotations}
    return event


async def test_objects_of_one_namespace_do_not_take_the_room_of_others(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(kept_objects, "MAX_KEPT_BYTES", 128_000)
    async with engine_on(cluster, tmp_path / "engine") as engine:
        pods = engine._cache.pods
        for number in range(300):
            cluster.say("pods", sized_pod(f"p{number}", "n", 1000 + number, **{names.PORTS: "1" * 1_000}))
        for number in range(3):
            cluster.say("pods", sized_pod(f"q{number}", "m", 2000 + number, **{names.PORTS: "1" * 1_000}))
        await until(lambda: _is(all(pods.get("m", f"q{number}") for number in range(3))))
        assert 60 < len([pod for pod in pods.of("s") if pod.metadata.namespace == "n"]) < 128
        assert not engine.is_unavailable
        assert lists(cluster) == 1
        # What the namespace has given back, it may take again.
        for number in range(300):
            cluster.say("pods", sized_pod(f"p{number}", "n", 3000 + number) | {"type": "DELETED"})
        cluster.say("pods", sized_pod("last", "n", 4000))
        await until(lambda: _is(pods.get("n", "last")))


async def test_annotations_that_are_not_read_are_not_kept(cluster, tmp_path):
    async with engine_on(cluster, tmp_path / "engine") as engine:
        large = {"example.com/large": "x" * 250_000, names.PORTS: "80"}
        for number in range(3):
            cluster.say("pods", sized_pod(f"p{number}", "n", 1000 + number, **large))
        found = await until(lambda: _is(engine._cache.pods.get("n", "p2")))
        assert found.metadata.annotations == {names.PORTS: "80"}


@pytest.mark.parametrize("size", [kept_objects.MAX_OBJECT_BYTES, MAX_LINE_BYTES])
async def test_an_object_that_is_too_large_counts_as_missing_and_is_named(cluster, tmp_path, caplog, size):
    async with engine_on(cluster, tmp_path / "engine") as engine:
        pods = engine._cache.pods
        for name in ("small", "large"):
            cluster.say("pods", sized_pod(name, "n", 1000))
        await until(lambda: _is(pods.get("n", "large")))
        cluster.say("pods", sized_pod("large", "n", 1001, **{names.PORTS: "1" * size}))
        await until(lambda: _is(not pods.get("n", "large")))
        assert pods.get("n", "small")
        assert (lists(cluster), engine.is_unavailable) == (1, False)
    (told,) = [record for record in caplog.records if "passed over" in record.getMessage()]
    assert (told.namespace, told.object) == ("n", "large")


async def test_a_pod_that_changes_its_service_is_kept_once(cluster, tmp_path):
    async with engine_on(cluster, tmp_path / "engine") as engine:
        pods = engine._cache.pods
        for number in range(3):
            cluster.say("pods", pod_event("p", f"s{number}", 1000 + number))
        await until(lambda: _is(bool(pods.of("s2"))))
        assert not pods.of("s0")
        assert not pods.of("s1")


async def test_while_the_server_is_away_nothing_is_claimed_and_its_return_is_told(cluster, tmp_path):
    told = Told()
    async with engine_on(cluster, tmp_path / "engine", told) as engine:
        it = web()
        await engine.apply(it, 1)
        cluster.before = lambda request: refusal(503, "", "etcd is away")
        cluster.end_watches()
        await until(lambda: _is(engine.is_unavailable))
        with pytest.raises(EngineUnavailable):
            await engine.observe(it.service)
        with pytest.raises(EngineUnavailable):
            await engine.apply(it, 2)
        cluster.before = lambda request: None
        await until(lambda: _is(not engine.is_unavailable and told.missed == 1))
        assert len((await engine.observe(it.service)).ready) == 1


async def test_another_cluster_at_the_address_is_refused(cluster, tmp_path):
    async with engine_on(cluster, tmp_path / "engine", expected_id="another") as engine:
        await until(lambda: _is(engine.is_unavailable))
        with pytest.raises(EngineUnavailable, match="another cluster"):
            await engine.apply(web(), 1)
        assert cluster.all("deployments") == []


async def test_an_engine_without_a_server_starts_and_says_why_it_can_do_nothing(
    cluster, tmp_path, monkeypatch
):
    monkeypatch.setattr("windlass.kubernetes.engine._START_TIMEOUT", 0.1)
    monkeypatch.setattr("windlass.kubernetes.engine._LISTING", 0.1)
    cluster.before = lambda request: refusal(401, "Unauthorized", "no")
    async with engine_on(cluster, tmp_path / "engine") as engine:
        with pytest.raises(EngineError, match="Send the kubeconfig"):
            await engine.observe("a-service")
        assert "Send the kubeconfig" in await engine.problem()


async def test_a_program_that_ends_is_told_and_what_the_engine_does_itself_is_not(cluster, tmp_path):
    told = Told()
    async with engine_on(cluster, tmp_path / "engine", told) as engine:
        it = web()
        await engine.apply(it, 1)
        assert told.notices == []
        pod = cluster.all("pods")[0]
        (status,) = pod["status"]["containerStatuses"]
        ended = {"terminated": {"exitCode": 3, "finishedAt": "2026-01-01T00:00:00Z"}}
        waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
        after = {**status, "ready": False, "state": waiting, "lastState": ended, "restartCount": 1}
        metadata = pod["metadata"]
        cluster.change("pods", metadata["namespace"], metadata["name"], containerStatuses=[after])
        await until(lambda: _is(told.notices == [it.service]))
        (seen,) = (await engine.observe(it.service)).instances
        assert (seen.exit_code, seen.reason, seen.restarts) == (3, "exited with code 3", 1)


async def _is(value: Any) -> Any:
    return value


async def _is_count(engine: Any, service: str, count: int) -> bool:
    await asyncio.sleep(0)
    return len((await engine.observe(service)).instances) == count


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (
            {"waiting": {"reason": "ErrImagePull", "message": "shop/web:1: not found"}},
            "^Correct the name of the image.*. web was not started$",
        ),
        (
            {"waiting": {"reason": "CreateContainerConfigError", "message": "no such key"}},
            "^Correct the image or the start command.*no such key",
        ),
    ],
)
async def test_a_reason_that_waiting_does_not_change_ends_the_wait_at_once(cluster, tmp_path, state, words):
    cluster.starts = False
    noted: list[str] = []

    async def note(reason: str) -> None:
        noted.append(reason)

    async with engine_on(cluster, tmp_path / "engine") as engine:
        it = web(patience=1000.0)
        applying = asyncio.ensure_future(engine.apply(it, 1))
        await until(lambda: _is(cluster.all("pods")))
        metadata = cluster.all("pods")[0]["metadata"]
        status = {"name": "app", "state": state}
        cluster.change("pods", metadata["namespace"], metadata["name"], containerStatuses=[status])
        await applying
        with pytest.raises(NotReady, match=words):
            await engine.wait_until_ready(it, 1, note)
    assert len(noted) == 1


async def test_a_missing_node_is_told_at_once_and_waited_for(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("windlass.kubernetes.instances._PLACEMENT_MS", 0)
    cluster.starts = False
    told = asyncio.Event()

    async def note(reason: str) -> None:
        assert reason.startswith("Ask for less cpu or memory, or add a node")
        told.set()

    async with engine_on(cluster, tmp_path / "engine") as engine:
        it = web()
        applying = asyncio.ensure_future(engine.apply(it, 1))
        await until(lambda: _is(cluster.all("pods")))
        metadata = cluster.all("pods")[0]["metadata"]
        message = "0/1 nodes are available: 1 Insufficient memory."
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
        cluster.change("pods", metadata["namespace"], metadata["name"], conditions=[condition])
        await applying
        waiting = asyncio.ensure_future(engine.wait_until_ready(it, 1, note))
        await told.wait()
        assert not waiting.done()
        cluster.starts = True
        pod = cluster.objects["pods", metadata["namespace"], metadata["name"]]
        cluster.put("pods", {**pod, "status": {"phase": "Pending"}})
        await waiting


async def test_calls_that_were_told_to_wait_do_not_delay_others(cluster):
    api = ClusterApi(cluster.access, Reach(loopback=True))

    def busy(request: http.Request) -> http.StreamResponse | None:
        is_asked = "default" in request.path
        return refusal(429, "TooManyRequests", "later", **{"Retry-After": "10"}) if is_asked else None

    cluster.before = busy
    path = "/api/v1/namespaces/default"
    waiting = [asyncio.ensure_future(api.get(path, KubeObject)) for _ in range(MAX_CALLS * 2)]
    try:
        await until(lambda: _is(cluster.requests.count(("GET", path)) == MAX_CALLS * 2))
        assert (await api.get("/api/v1/namespaces/kube-system", KubeObject)).metadata.name == "kube-system"
        assert not any(call.done() for call in waiting)
    finally:
        for call in waiting:
            call.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await api.close()
