"""The Pods of a release, and what the cluster has told about them and their controllers. They are read on
demand."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from windlass.base.foreign_json import BadJson, read_json
from windlass.engines.releases import ReleasedEvent, ReleasedPod
from windlass.kubernetes import paths
from windlass.kubernetes.api import ClusterApi, ClusterRefusal
from windlass.kubernetes.documents import ClusterEvent, Pod, RawItems
from windlass.kubernetes.instances import milliseconds

MAX_PODS: Final = 500
MAX_EVENTS: Final = 200
_MAX_MATCHES: Final = 200_000
"""Maximum number of comparisons of a Pod with a selector."""
_LISTED: Final = "1000"
_MAX_TEXT: Final = 1_000
_WARNING: Final = "Warning"
_MADE_BY_DEPLOYMENT: Final = "ReplicaSet"


class _InvolvedObject(Struct, frozen=True):
    kind: str = ""
    name: str = ""


class _ReleaseEvent(ClusterEvent, frozen=True, rename="camel"):
    involved_object: _InvolvedObject = _InvolvedObject()
    count: int | None = None
    last_timestamp: str | None = None
    event_time: str | None = None

    @property
    def about(self) -> str:
        """The address of its object, or of the Deployment whose ReplicaSet the object is."""
        kind, name = self.involved_object.kind, self.involved_object.name
        return f"Deployment/{name.rpartition('-')[0]}" if kind == _MADE_BY_DEPLOYMENT else f"{kind}/{name}"


def shown_pods(
    pods: Sequence[Pod], selectors: Sequence[Mapping[str, str]], release: str, mark: str
) -> list[Pod]:
    """Returns the Pods of a release: those that one of its controllers selects, and those with its mark.
    `mark`: the annotation with the name of the release."""
    found = (
        pod
        for pod in islice(pods, _MAX_MATCHES // max(1, len(selectors)))
        if pod.annotation(mark) == release
        or any(labels and labels.items() <= (pod.metadata.labels or {}).items() for labels in selectors)
    )
    return [*islice(found, MAX_PODS)]


def released_pod(pod: Pod, reason: str) -> ReleasedPod:
    statuses = pod.status.container_statuses or ()
    return ReleasedPod(
        name=pod.metadata.name,
        phase=pod.status.phase,
        node=pod.spec.node_name,
        ready=bool(statuses) and all(status.ready for status in statuses),
        restarts=sum(status.restart_count for status in statuses),
        reason=reason[:_MAX_TEXT],
        created=milliseconds(pod.metadata.creation_timestamp),
    )


async def read_release_events(
    api: ClusterApi, namespace: str, addresses: Collection[str]
) -> list[ReleasedEvent]:
    """Returns the newest events about these objects, the newest first; none if the account may not read
    events."""
    try:
        items = (await api.get(paths.events(namespace), RawItems, {"limit": _LISTED})).items
    except ClusterRefusal:
        return []
    found = []
    for item in items:
        try:
            event = read_json(bytes(item), _ReleaseEvent)
        except BadJson:
            continue
        if event.about in addresses:
            found.append(
                ReleasedEvent(
                    address=event.about,
                    reason=event.reason[:_MAX_TEXT],
                    message=event.message[:_MAX_TEXT],
                    is_warning=event.type == _WARNING,
                    count=event.count or 1,
                    at=milliseconds(
                        event.last_timestamp or event.event_time or event.metadata.creation_timestamp
                    ),
                )
            )
    return sorted(found, key=lambda event: -event.at)[:MAX_EVENTS]
