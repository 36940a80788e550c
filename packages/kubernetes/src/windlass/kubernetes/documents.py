"""The objects of the API server, with the fields that the engine reads. Other fields are skipped.

A bookmark has almost nothing but a version, so every field has a default.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import Raw, Struct, field

ObjectT = TypeVar("ObjectT", bound="KubeObject")


class OwnerReference(Struct, frozen=True, rename="camel"):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class ObjectMetadata(Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    finalizers: list[str] | None = None
    owner_references: list[OwnerReference] | None = None


class KubeObject(Struct, frozen=True):
    metadata: ObjectMetadata = ObjectMetadata()

    def label(self, name: str) -> str:
        return (self.metadata.labels or {}).get(name, "")

    def annotation(self, name: str) -> str:
        return (self.metadata.annotations or {}).get(name, "")


class ObjectCondition(Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class WaitingState(Struct, frozen=True):
    reason: str = ""
    message: str = ""


class RunningState(Struct, frozen=True, rename="camel"):
    started_at: str | None = None


class TerminatedState(Struct, frozen=True, rename="camel"):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(Struct, frozen=True):
    waiting: WaitingState | None = None
    running: RunningState | None = None
    terminated: TerminatedState | None = None


class ContainerStatus(Struct, frozen=True, rename="camel"):
    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = field(name="podIP", default="")
    conditions: list[ObjectCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class PodSpec(Struct, frozen=True, rename="camel"):
    node_name: str = ""


class Pod(KubeObject, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class ControllerSpec(Struct, frozen=True):
    replicas: int = 1


class ControllerStatus(Struct, frozen=True, rename="camel"):
    replicas: int = 0
    observed_generation: int = 0
    conditions: list[ObjectCondition] | None = None


class GenerationObject(KubeObject, frozen=True):
    """A Deployment, a ReplicaSet or a StatefulSet."""

    spec: ControllerSpec = ControllerSpec()
    status: ControllerStatus = ControllerStatus()

    @property
    def is_settled(self) -> bool:
        """Whether its controller has acted on the last change."""
        return self.status.observed_generation >= self.metadata.generation


class ClaimStatus(Struct, frozen=True):
    phase: str = ""


class VolumeClaim(KubeObject, frozen=True):
    status: ClaimStatus = ClaimStatus()


class FailureStatus(Struct, frozen=True):
    """The answer of the API server to a request that failed."""

    code: int = 0
    reason: str = ""
    message: str = ""


class WatchEvent(Struct, frozen=True):
    type: str
    object: Raw


class RawItems(Struct, frozen=True):
    """A list whose entries are decoded one by one."""

    items: list[Raw] = []


class ObjectList(Struct, frozen=True):
    """A short list of which only the metadata is read."""

    items: list[KubeObject] = []


class ClusterEvent(KubeObject, frozen=True, rename="camel"):
    reason: str = ""
    message: str = ""
    type: str = ""
