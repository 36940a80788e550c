"""The Kubernetes engine for the conformance suite; see `tests/engines/stations.py`."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from tests.engines.stations import Opener
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.node import cgroup, cgroups
from windlass.base.addresses import Reach
from windlass.engines.workload import Artifact
from windlass.kubernetes import names
from windlass.kubernetes.access import read_kubeconfig
from windlass.kubernetes.provider import make_engine

_KINDS = (
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/statefulsets",
    "/api/v1/pods",
    "/api/v1/persistentvolumeclaims",
    "/api/v1/secrets",
    "/api/v1/services",
)


class KubernetesRig:
    cannot: Mapping[str, str] = {"fixed ports": "an instance is reached at the ports of its service"}

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder / "engine"
        self._installation = f"test-{uuid.uuid4()}"  # the cluster may outlive the run of tests

    def opener(self) -> Opener:
        return partial(
            make_engine,
            read_kubeconfig(json.dumps(self._cluster.kubeconfig())),
            Reach(("0.0.0.0/0", "::/0")),
            folder=self._folder,
            installation=self._installation,
            helper_image=self._cluster.registry.box(),
            storage_class="",
        )

    async def artifact(self, program: str) -> Artifact:
        ref = await asyncio.to_thread(self._cluster.registry.program, program)
        return Artifact(kind="image", ref=ref, command=("python3", "main.py"), workdir="/app")

    async def copies(self, service: str) -> Sequence[tuple[int, int]]:
        """Returns the copies by the processes in the control groups of their pods."""
        return await asyncio.to_thread(lambda: [*self._copies(service)])

    async def traces(self, service: str) -> Collection[str]:
        return await asyncio.to_thread(lambda: [*self._traces(service)])

    async def remembered(self) -> bytes:
        return b"".join(path.read_bytes() for path in self._folder.rglob("*") if path.is_file())

    def erase(self) -> None:
        """Deletes the namespaces of this rig, with pods that are kept for their results."""
        for kind in ("/api/v1/pods", "/apis/apps/v1/deployments", "/apis/apps/v1/statefulsets"):
            for each in self._all(kind):
                path = kind.replace("v1/", f"v1/namespaces/{each['metadata']['namespace']}/")
                with suppress(OSError):  # it may be gone already
                    no_finalizers = {"metadata": {"finalizers": None}}
                    patch = "application/merge-patch+json"
                    self._cluster.ask(f"{path}/{each['metadata']['name']}", no_finalizers, "PATCH", patch)
        for namespace in self._all("/api/v1/namespaces"):
            self._cluster.ask(f"/api/v1/namespaces/{namespace['metadata']['name']}", method="DELETE")

    def _copies(self, service: str) -> Iterator[tuple[int, int]]:
        pods = {pod["metadata"]["uid"]: pod["metadata"] for pod in self._all("/api/v1/pods", service)}
        unknown = Counter[int]()
        for uid in self._running():
            if pod := pods.get(uid):
                generation = int(pod["labels"][names.GENERATION])
                index = self._index(pod)
                if index is None:
                    unknown[generation] += 1
                    index = -unknown[generation]
                yield generation, index

    def _running(self) -> Iterator[str]:
        """Yields the uid of the pod of each container in which a program of the suite runs."""
        for folder in _pods(cgroup(self._cluster.network)):
            for processes in folder.glob("*/cgroup.procs"):
                with suppress(OSError):  # it has ended meanwhile
                    if any(map(_is_program, processes.read_text().split())):
                        yield folder.name.removeprefix("pod")

    def _index(self, pod: Mapping[str, Any]) -> int | None:
        if found := pod["labels"].get(names.INDEX):
            return int(found)
        (owner,) = pod["ownerReferences"]
        if owner["kind"] == "StatefulSet":
            return int(pod["name"].rpartition("-")[2])
        service, generation = pod["labels"][names.SERVICE], pod["labels"][names.GENERATION]
        for each in self._all("/apis/apps/v1/deployments", service):
            if each["metadata"]["labels"][names.GENERATION] == generation:
                known = json.loads(each["metadata"].get("annotations", {}).get(names.INDEXES, "{}"))
                index: int | None = known.get(pod["name"])
                return index
        return None

    def _traces(self, service: str) -> Iterator[str]:
        for kind in _KINDS:
            for each in self._all(kind, service):
                is_removed = names.REMOVED in each["metadata"].get("labels", {})
                if not is_removed and not _has_ended_and_is_deleted(each):
                    yield f"{kind}: {each['metadata']['name']}"

    def _all(self, kind: str, service: str = "") -> Sequence[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = self._cluster.ask(
            f"{kind}?labelSelector={names.selector(self._installation, service).replace('=', '%3D')}"
        )["items"]
        return found


def _pods(group: str) -> Iterator[Path]:
    """Yields the control group of each pod, in one hierarchy."""
    hierarchy = next(each for each in cgroups(group) if each.parent.name in ("memory", "cgroup"))
    for quality in ("", "burstable", "besteffort"):
        yield from (hierarchy / "kubepods" / quality).glob("pod*")


def _is_program(process: str) -> bool:
    words = Path("/proc", process, "cmdline").read_bytes().split(b"\0")
    return any(word.endswith(b"main.py") for word in words)


def _has_ended_and_is_deleted(each: Mapping[str, Any]) -> bool:
    ended = each.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return ended and "deletionTimestamp" in each["metadata"]
