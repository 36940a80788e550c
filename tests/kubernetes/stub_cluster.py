"""An API server in the process of a test, with controllers that behave as those of a cluster.

Nothing runs: a Pod of it only has states, which tests change."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.certificates import authority, write_pair
from windlass.kubernetes.access import ClusterAccess, read_kubeconfig

Document = dict[str, Any]
Key = tuple[str, str, str]
"""Kind, namespace and name."""
COLLECTIONS = {
    "namespaces",
    "nodes",
    "pods",
    "persistentvolumeclaims",
    "secrets",
    "services",
    "events",
    "serviceaccounts",
}
POD_RESOURCE = {"resource": "pods", "scope": "Namespaced"}
GROUPS: Document = {
    "/api": [{"metadata": {"name": ""}, "versions": [{"resources": [POD_RESOURCE]}]}],
    "/apis": [{"metadata": {"name": "apps"}, "versions": []}],
}
END_OF_LIST = {"k8s.io/initial-events-end": "true"}


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class StubCluster:
    def __init__(self) -> None:
        self.objects: dict[Key, Document] = {}
        self.requests: list[tuple[str, str]] = []
        """Method and path of each request."""
        self.before: Callable[[web.Request], web.StreamResponse | None] = lambda request: None
        """May answer a request in place of the server."""
        self.handler: Callable[[web.Request], Awaitable[web.StreamResponse]] = self.handle
        """Answers all requests."""
        self.forbidden: set[str] = set()
        """Resources for which reviews say that the account has no rights."""
        self.starts = True
        """Whether Pods begin by themselves."""
        self.server = ""
        self.ca = ""
        self._version = 1
        self._watchers: list[tuple[str, Callable[[Document], bool], asyncio.Queue[Document | None]]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def access(self) -> ClusterAccess:
        return read_kubeconfig(self.kubeconfig())

    def kubeconfig(self, **user: Any) -> str:
        data = base64.b64encode(self.ca.encode()).decode()
        return json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [
                    {"name": "c", "cluster": {"server": self.server, "certificate-authority-data": data}}
                ],
                "users": [{"name": "u", "user": user or {"token": "a-token"}}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            }
        )

    # What tests do to it

    def all(self, kind: str) -> list[Document]:
        return [found for (of_kind, _, _), found in self.objects.items() if of_kind == kind]

    def writes(self) -> list[tuple[str, str]]:
        return [each for each in self.requests if each[0] != "GET"]

    def change(self, kind: str, namespace: str, name: str, **status: Any) -> None:
        found = self.objects[kind, namespace, name]
        self.put(kind, {**found, "status": {**found.get("status", {}), **status}})

    def put(self, kind: str, document: Document, event: str = "") -> Document:
        metadata = document["metadata"]
        key = kind, metadata.get("namespace", ""), metadata["name"]
        self._version += 1
        old = self.objects.get(key)
        generation = metadata.get("generation", 0) + (old is None or old.get("spec") != document.get("spec"))
        metadata = {
            "uid": secrets.token_hex(8),
            "creationTimestamp": now(),
            **metadata,
            "resourceVersion": str(self._version),
            "generation": generation,
        }
        made = {**document, "metadata": metadata}
        self.objects[key] = made
        self._send(kind, event or ("MODIFIED" if old else "ADDED"), made)
        if kind in ("deployments", "statefulsets", "pods"):
            self._later(kind, key)
        return made

    def drop(self, kind: str, namespace: str, name: str) -> None:
        found = self.objects.pop((kind, namespace, name), None)
        if found is not None:
            self._version += 1
            gone = {**found, "metadata": {**found["metadata"], "resourceVersion": str(self._version)}}
            self._send(kind, "DELETED", gone)

    def end_watches(self) -> None:
        for _, _, queue in self._watchers:
            queue.put_nowait(None)

    def say(self, kind: str, event: Document) -> None:
        """Sends an event to all watches of a kind."""
        for of_kind, _, queue in self._watchers:
            if of_kind == kind:
                queue.put_nowait(event)

    def _send(self, kind: str, event: str, document: Document) -> None:
        for of_kind, fits, queue in self._watchers:
            if of_kind == kind and fits(document):
                queue.put_nowait({"type": event, "object": document})

    # Its controllers

    def _later(self, kind: str, key: Key) -> None:
        task = asyncio.ensure_future(self._control(kind, key))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _control(self, kind: str, key: Key) -> None:
        await asyncio.sleep(0.002)
        found = self.objects.get(key)
        if found is None:
            return
        if kind == "pods":
            self._run(found)
        else:
            self._scale(kind, found)

    def _scale(self, kind: str, controller: Document) -> None:
        metadata, spec = controller["metadata"], controller["spec"]
        pods = [
            pod
            for pod in self.all("pods")
            if pod["metadata"].get("ownerReferences", [{}])[0].get("uid") == metadata["uid"]
            and "deletionTimestamp" not in pod["metadata"]
        ]
        current = [pod for pod in pods if pod["spec"] == _pod_spec(spec)]
        for pod in pods:
            if pod not in current:
                self._end(pod)
        if kind == "statefulsets":
            names = [f"{metadata['name']}-{index}" for index in range(spec["replicas"])]
        else:
            names = [pod["metadata"]["name"] for pod in current]
            names += [
                f"{metadata['name']}-{secrets.token_hex(4)}" for _ in range(spec["replicas"] - len(current))
            ]
        present = {pod["metadata"]["name"] for pod in current}
        for name in names:
            if name not in present and len(current) == len(pods):
                template = spec["template"]
                own = {**template["metadata"], "name": name, "namespace": metadata["namespace"]}
                own["ownerReferences"] = [
                    {"kind": controller["kind"], "name": metadata["name"], "uid": metadata["uid"]}
                ]
                self.put("pods", {"metadata": own, "spec": _pod_spec(spec), "status": {"phase": "Pending"}})
        surplus = len(current) - spec["replicas"]
        if surplus > 0:
            for pod in sorted(current, key=_cost)[:surplus]:
                self._end(pod)
        status = {"observedGeneration": metadata["generation"], "replicas": spec["replicas"]}
        if controller.get("status") != status:
            self.put(kind, {**controller, "status": status})

    def _run(self, pod: Document) -> None:
        if self.starts and pod["status"]["phase"] == "Pending" and "deletionTimestamp" not in pod["metadata"]:
            running = {"running": {"startedAt": now()}}
            status = {
                "name": "app",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": running,
                "lastState": {},
            }
            ready = {"phase": "Running", "podIP": "10.9.9.9", "containerStatuses": [status]}
            self.put("pods", {**pod, "spec": {**pod["spec"]}, "status": ready})

    def _end(self, pod: Document) -> None:
        metadata = pod["metadata"]
        if metadata.get("finalizers"):
            ended = {"phase": "Failed"} if pod["status"]["phase"] in ("Pending", "Running") else {}
            metadata = {**metadata, "deletionTimestamp": now()}
            self.put("pods", {**pod, "metadata": metadata, "status": {**pod["status"], **ended}})
            return
        self.drop("pods", metadata["namespace"], metadata["name"])
        for kind in ("deployments", "statefulsets"):
            for controller in self.all(kind):
                if controller["metadata"]["uid"] == metadata.get("ownerReferences", [{}])[0].get("uid"):
                    self._later(kind, (kind, metadata["namespace"], controller["metadata"]["name"]))

    # Its API

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path))
        if (answer := self.before(request)) is not None:
            return answer
        if request.path in ("/readyz", "/version"):
            return web.json_response({"gitVersion": "v1.36.3", "major": "1", "minor": "36"})
        if request.path in ("/api", "/apis"):
            return web.json_response({"items": GROUPS[request.path]})
        kind, namespace, name = _parse(request.path)
        if kind == "selfsubjectaccessreviews":
            asked = (await request.json())["spec"]["resourceAttributes"]["resource"]
            return web.json_response({"status": {"allowed": asked not in self.forbidden}})
        if request.query.get("watch"):
            return await self._watch(request, kind)
        match request.method:
            case "GET" if name:
                return self._found(kind, namespace, name)
            case "GET":
                fits = _selects(request.query.get("labelSelector", ""))
                items = [
                    each
                    for each in self.all(kind)
                    if fits(each) and each["metadata"].get("namespace") in (namespace, None)
                ]
                return web.json_response({"items": items})
            case "POST":
                return self._create(kind, namespace, await request.json())
            case "PUT" | "PATCH":
                return self._write(
                    kind, namespace, name, await request.json(), merges=request.method == "PATCH"
                )
            case _:
                return self._delete(kind, namespace, name, request.query.get("labelSelector", ""))

    def _found(self, kind: str, namespace: str, name: str) -> web.Response:
        found = self.objects.get((kind, namespace, name))
        return web.json_response(found) if found else refusal(404, "NotFound", f"{kind} {name} not found")

    def _create(self, kind: str, namespace: str, document: Document) -> web.Response:
        metadata = document["metadata"]
        if (kind, namespace, metadata["name"]) in self.objects:
            return refusal(409, "AlreadyExists", "it exists")
        if kind == "namespaces":
            self.put("serviceaccounts", {"metadata": {"namespace": metadata["name"], "name": "default"}})
        elif namespace and ("namespaces", "", namespace) not in self.objects:
            return refusal(404, "NotFound", f'namespaces "{namespace}" not found')
        status = {"status": {"phase": "Pending"}} if kind in ("pods", "persistentvolumeclaims") else {}
        return web.json_response(self.put(kind, {**status, **document}), status=201)

    def _write(
        self, kind: str, namespace: str, name: str, document: Document, *, merges: bool
    ) -> web.Response:
        found = self.objects.get((kind, namespace, name))
        if found is None:
            return refusal(404, "NotFound", f"{kind} {name} not found")
        asked = document["metadata"].get("resourceVersion")
        if asked and asked != found["metadata"]["resourceVersion"]:
            return refusal(409, "Conflict", "the object has been modified")
        if merges:
            changed = _merge(found, document)
        else:
            kept = {key: found["metadata"][key] for key in ("uid", "creationTimestamp", "generation")}
            changed = {
                **document,
                "metadata": {**document["metadata"], **kept},
                "status": found.get("status", {}),
            }
        made = self.put(kind, changed)
        if (
            kind == "pods"
            and "deletionTimestamp" in made["metadata"]
            and not made["metadata"].get("finalizers")
        ):
            self.drop(kind, namespace, name)
        return web.json_response(made)

    def _delete(self, kind: str, namespace: str, name: str, selector: str) -> web.Response:
        fits = _selects(selector)
        chosen = [
            key
            for key, found in self.objects.items()
            if key[:2] == (kind, namespace) and (key[2] == name if name else fits(found))
        ]
        if name and not chosen:
            return refusal(404, "NotFound", f"{kind} {name} not found")
        for key in chosen:
            if kind == "pods":
                self._end(self.objects[key])
            else:
                self.drop(*key)
        return web.json_response({})

    async def _watch(self, request: web.Request, kind: str) -> web.StreamResponse:
        fits = _selects(request.query.get("labelSelector", ""))
        answer = web.StreamResponse()
        await answer.prepare(request)
        queue: asyncio.Queue[Document | None] = asyncio.Queue()
        entry = kind, fits, queue
        self._watchers.append(entry)
        try:
            if request.query.get("sendInitialEvents"):
                for found in filter(fits, self.all(kind)):
                    await _line(answer, {"type": "ADDED", "object": found})
                mark = {"metadata": {"resourceVersion": str(self._version), "annotations": END_OF_LIST}}
                await _line(answer, {"type": "BOOKMARK", "object": {**mark, "spec": {"containers": None}}})
            while (event := await queue.get()) is not None:
                await _line(answer, event)
        finally:
            self._watchers.remove(entry)
        return answer


async def _line(answer: web.StreamResponse, event: Document) -> None:
    await answer.write(event["raw"] if "raw" in event else json.dumps(event).encode() + b"\n")


def refusal(status: int, reason: str, message: str, **headers: str) -> web.Response:
    body = {"kind": "Status", "code": status, "reason": reason, "message": message}
    return web.json_response(body, status=status, headers=headers)


def _pod_spec(spec: Document) -> Document:
    return {**spec["template"]["spec"], "nodeName": "node1"}


def _cost(pod: Document) -> int:
    return int(pod["metadata"].get("annotations", {}).get("controller.kubernetes.io/pod-deletion-cost", "0"))


def _parse(path: str) -> Key:
    parts = path.strip("/").split("/")[2 if path.startswith("/api/") else 3 :]
    if parts[0] == "namespaces" and len(parts) > 2:
        return parts[2], parts[1], parts[3] if len(parts) > 3 else ""
    return parts[0], "", parts[1] if len(parts) > 1 else ""


def _selects(selector: str) -> Callable[[Document], bool]:
    parts = [part for part in selector.split(",") if part]
    wanted = [part.partition("=") for part in parts if part[0] != "!"]
    unwanted = [part[1:] for part in parts if part[0] == "!"]

    def fits(found: Document) -> bool:
        labels = found["metadata"].get("labels") or {}
        return not any(name in labels for name in unwanted) and all(
            name in labels and (not equals or labels[name] == value) for name, equals, value in wanted
        )

    return fits


def _merge(old: Any, new: Any) -> Any:
    if not isinstance(new, dict):
        return new
    made = dict(old) if isinstance(old, dict) else {}
    for key, value in new.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = _merge(made.get(key), value)
    return made


@asynccontextmanager
async def stub_cluster(folder: Path) -> AsyncIterator[StubCluster]:
    import ssl

    by = authority(folder / "authority")
    certificate, key = write_pair(by, "server", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    cluster = StubCluster()
    cluster.ca = by.file.read_text()
    cluster.put("namespaces", {"metadata": {"name": "kube-system"}})
    node = {"metadata": {"name": "node1"}, "status": {"allocatable": {"cpu": "2", "memory": "4Gi"}}}
    cluster.put("nodes", node)
    app = web.Application()

    async def answer(request: web.Request) -> web.StreamResponse:
        return await cluster.handler(request)

    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    cluster.server = f"https://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield cluster
    finally:
        cluster.end_watches()
        await runner.cleanup()
