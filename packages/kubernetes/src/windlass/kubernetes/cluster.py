"""Reads facts about a whole cluster: its id, the size of its nodes, and the usage of instances."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from msgspec import Struct

from windlass.engines.engine import UNKNOWN_LIMITS, EngineLimits
from windlass.engines.workload import Usage
from windlass.kubernetes import names, paths
from windlass.kubernetes.api import ClusterApi, ClusterRefusal, ClusterUnavailable
from windlass.kubernetes.documents import KubeObject, ObjectMetadata, Pod
from windlass.kubernetes.instances import is_running

_FIRST_PAUSE, _MAX_PAUSE, _INTERVAL = 1.0, 30.0, 1800.0
_MEBIBYTE: Final = 1 << 20
_QUANTITY_PATTERN: Final = re.compile(r"([0-9.]+)(m|[KMGTPE]i?|k)?\Z")
_MOST: Final = 2.0**60
_UNITS: Final = {
    "": 1.0,
    "m": 0.001,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "E": 1e18,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
    "Pi": 2.0**50,
    "Ei": 2.0**60,
}


NoteCluster = Callable[[str, EngineLimits], None]
"""Callback with the id of a cluster, and what its largest node has."""


class _NodeStatus(Struct, frozen=True):
    allocatable: dict[str, str] = {}


class _ClusterNode(KubeObject, frozen=True):
    status: _NodeStatus = _NodeStatus()


class _Nodes(Struct, frozen=True):
    items: list[_ClusterNode] = []


class _CpuUse(Struct, frozen=True, rename="camel"):
    usage_core_nano_seconds: int = 0


class _WorkingSet(Struct, frozen=True, rename="camel"):
    working_set_bytes: int = 0


class _ContainerUse(Struct, frozen=True):
    name: str = ""
    cpu: _CpuUse | None = None
    memory: _WorkingSet | None = None


class _PodUse(Struct, frozen=True, rename="camel"):
    pod_ref: ObjectMetadata = ObjectMetadata()
    containers: list[_ContainerUse] | None = None


class _Summary(Struct, frozen=True):
    pods: list[_PodUse] = []


class ClusterState:
    def __init__(self, api: ClusterApi, expected_id: str, note: NoteCluster) -> None:
        self._api, self._expected, self._note = api, expected_id, note
        self.wrong_cluster = ""
        """Why the cluster at the address is not the right one; empty if it is."""

    def expect(self, expected_id: str) -> None:
        """Changes the cluster that is the right one, after its credentials were sent again."""
        self._expected, self.wrong_cluster = expected_id, ""

    async def run(self) -> None:
        """Reads the state until it is cancelled."""
        pause = _FIRST_PAUSE
        while True:
            with suppress(ClusterUnavailable, ClusterRefusal):
                await self.look()
                pause = _INTERVAL
            await asyncio.sleep(pause)
            pause = min(pause * 2, _MAX_PAUSE) if pause != _INTERVAL else _FIRST_PAUSE

    async def look(self) -> None:
        identity = await cluster_id(self._api)
        self.wrong_cluster = (
            "Send the kubeconfig of the cluster again if it was replaced on purpose: another cluster "
            "answers at its "
            "address"
            if self._expected and identity != self._expected
            else ""
        )
        limits = UNKNOWN_LIMITS
        with suppress(ClusterRefusal):  # the account may not read nodes
            limits = await _limits(self._api)
        self._note(identity, limits)


async def cluster_id(api: ClusterApi) -> str:
    """Returns the uid of a namespace that every cluster has, and that lives as long as the cluster."""
    return (await api.get(f"{paths.NAMESPACES}/kube-system", KubeObject)).metadata.uid


async def _limits(api: ClusterApi) -> EngineLimits:
    """Returns what the largest node has for one instance."""
    nodes = [node.status.allocatable for node in (await api.get(paths.NODES, _Nodes)).items]
    cpu = max((quantity(node.get("cpu", "")) for node in nodes), default=0.0)
    memory = max((quantity(node.get("memory", "")) for node in nodes), default=0.0)
    return EngineLimits(
        cpu=int(cpu * 1000) or None, memory=int(memory) // _MEBIBYTE or None, gpu=0, least_memory=6
    )


def quantity(text: str) -> float:
    """Converts a quantity such as `1930m` or `7950Mi`; 0 for any other text."""
    if match := _QUANTITY_PATTERN.fullmatch(text):
        with suppress(ValueError):
            return min(float(match[1]) * _UNITS[match[2] or ""], _MOST)
    return 0.0


async def read_usage(api: ClusterApi, pods: Sequence[Pod]) -> Mapping[str, Usage]:
    """Returns the usage of running instances, from the node of each."""
    by_node: dict[str, dict[tuple[str, str], Pod]] = defaultdict(dict)
    for pod in pods:
        if is_running(pod) and pod.spec.node_name:
            by_node[pod.spec.node_name][pod.metadata.namespace, pod.metadata.name] = pod
    found: dict[str, Usage] = {}
    for node, of_node in by_node.items():
        try:
            summary = await api.get(f"{paths.NODES}/{node}/proxy/stats/summary", _Summary)
        except (
            ClusterUnavailable,
            ClusterRefusal,
        ):  # the account may not ask nodes, or this one does not answer
            continue
        for used in summary.pods:
            if (used.pod_ref.namespace, used.pod_ref.name) in of_node:
                for usage in filter(None, map(_usage, used.containers or ())):
                    found[used.pod_ref.name] = usage
    return found


def _usage(used: _ContainerUse) -> Usage | None:
    if used.name != names.CONTAINER or used.cpu is None or used.memory is None:
        return None
    return Usage(cpu_ms=used.cpu.usage_core_nano_seconds // 1_000_000, memory=used.memory.working_set_bytes)
