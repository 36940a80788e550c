"""Says why an instance does not start, and what to do. Pure.

Kubernetes has the reason in several places, often only as a word such as `ImagePullBackOff`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from windlass.kubernetes import names
from windlass.kubernetes.documents import (
    ClusterEvent,
    ContainerStatus,
    GenerationObject,
    ObjectCondition,
    Pod,
)

_IMAGE_REASONS: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
    }
)
_CONFIG_REASONS: Final = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
)
_USUAL_REASONS: Final = frozenset({"", "ContainerCreating", "PodInitializing", "CrashLoopBackOff"})
_QUOTA_PATTERN: Final = re.compile(r"exceeded quota: [^,]{0,100}, (.{0,300})")
_FORBIDDEN: Final = "is forbidden: "
_FILES_VOLUME: Final = 'volume "files"'
"""The Secret of a generation, which is always made before its Pods."""
_MAX_LENGTH: Final = 300

_CERTAIN: Final = (
    "not found",
    "manifest unknown",
    "does not exist",
    "access denied",
    "unauthorized",
    "authentication required",
    "InvalidImageName",
    "couldn't parse image",
    "not-found",
    "403 Forbidden",
)
"""Parts of messages about images that another attempt does not change."""


def pending_reason(pod: Pod) -> str:
    """Returns why the program of a Pod does not start, as readable text; empty if no obstacle is known."""
    for status in (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())):
        if reason := _waiting_reason(status):
            return reason
    for condition in pod.status.conditions or ():
        if (
            condition.type == "PodScheduled"
            and condition.status == "False"
            and condition.reason == "Unschedulable"
        ):
            return unschedulable_reason(condition.message)
    return ""


def is_certain(reason: str) -> bool:
    """Returns whether waiting longer cannot help."""
    return reason.startswith(_CERTAIN_STARTS)


def _waiting_reason(status: ContainerStatus) -> str:
    waiting = status.state.waiting
    if waiting is None or waiting.reason in _USUAL_REASONS:
        return ""
    said = _short(waiting.message)
    if waiting.reason in _IMAGE_REASONS:
        if waiting.reason == "InvalidImageName" or any(part in waiting.message for part in _CERTAIN):
            return f"{_CORRECT_IMAGE}: it cannot be pulled ({said or waiting.reason})"
        return f"{_CHECK_REGISTRY}: the image cannot be pulled ({said or waiting.reason})"
    if waiting.reason in _CONFIG_REASONS:
        return f"{_CORRECT_START}: its container cannot be started ({said or waiting.reason})"
    return f"its container waits: {waiting.reason} {said}".rstrip()


def unschedulable_reason(message: str) -> str:
    said = _short(message)
    if "persistentvolumeclaim" in message.lower() and "Insufficient" not in message:
        return f"{_GIVE_STORAGE}: one of its volumes does not exist yet ({said})"
    if "Insufficient" in message:
        return f"{_ADD_NODE}: no node has enough room for it ({said})"
    return f"{_ADD_ANY_NODE}: no node of the cluster accepts it ({said})"


def controller_reason(controllers: Iterable[GenerationObject]) -> str:
    """Returns why a controller creates no Pods; empty if it can."""
    for controller in controllers:
        for condition in controller.status.conditions or ():
            if reason := _failure_reason(condition):
                return reason
    return ""


def _failure_reason(condition: ObjectCondition) -> str:
    if condition.type != "ReplicaFailure" or condition.status != "True":
        return ""
    return creation_reason(condition.message)


def creation_reason(message: str) -> str:
    """Returns why the API server refuses a Pod."""
    if match := _QUOTA_PATTERN.search(message):
        return f"{_RAISE_QUOTA}: the quota of its namespace is used up ({_short(match[1])})"
    said = _short(message.rpartition(_FORBIDDEN)[2])
    return f"{_ALLOW_POD}: the cluster refuses its Pod ({said})"


def event_reason(events: Iterable[ClusterEvent]) -> str:
    """Returns the reason in the events of a claim or StatefulSet; empty if there is none."""
    for event in events:
        if event.reason == "ProvisioningFailed":
            return f"{_GIVE_STORAGE}: one of its volumes cannot be provisioned ({_short(event.message)})"
        if event.reason == "FailedCreate":
            return creation_reason(event.message)
        if event.reason in ("FailedMount", "FailedAttachVolume") and _FILES_VOLUME not in event.message:
            return f"{_GIVE_STORAGE}: one of its volumes cannot be mounted ({_short(event.message)})"
    return ""


def probe_reason(events: Iterable[ClusterEvent]) -> str:
    """Returns what the latest failed probe of a Pod answered; empty if none failed."""
    said = [event.message for event in events if event.reason == "Unhealthy"]
    return _short(said[-1]) if said else ""


def killed_by_probe(events: Iterable[ClusterEvent]) -> bool:
    """Returns whether the node ended the program because it was not alive."""
    return any(event.reason == "Killing" and "failed liveness probe" in event.message for event in events)


def _short(message: str) -> str:
    plain = "".join(filter(str.isprintable, message.replace("\n", " ")))
    return plain.replace(f'container "{names.CONTAINER}"', "the container")[:_MAX_LENGTH].strip()


_CORRECT_IMAGE: Final = "Correct the name of the image, or add its registry with a login"
_CHECK_REGISTRY: Final = "Check that the nodes of the cluster reach the registry"
_CORRECT_START: Final = "Correct the image or the start command"
_GIVE_STORAGE: Final = (
    "Give the cluster a storage class that provisions volumes, or set kubernetes_storage_class"
)
_ADD_NODE: Final = "Ask for less cpu or memory, or add a node to the cluster"
_ADD_ANY_NODE: Final = "Make a node of the cluster ready, or add one"
_RAISE_QUOTA: Final = "Ask for less, or raise the quota"
_ALLOW_POD: Final = "Ask the operator of the cluster to allow it"
_CERTAIN_STARTS: Final = (_CORRECT_IMAGE, _CORRECT_START, _RAISE_QUOTA, _ALLOW_POD)
