"""The engine says why an instance does not begin or has ended, in words that name what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from windlass.base.foreign_json import read_json
from windlass.engines.workload import Phase
from windlass.kubernetes.documents import ClusterEvent, GenerationObject, Pod
from windlass.kubernetes.instances import instance, outcome
from windlass.kubernetes.reasons import controller_reason, event_reason, is_certain, pending_reason
from windlass.kubernetes.runs import output_of


def pod(state: dict[str, Any] | None = None, *, conditions: Any = None, **status: Any) -> Pod:
    """A Pod as the API server writes it, with the state of its container."""
    containers = [] if state is None else [{"name": "app", "ready": True, "started": True, **state}]
    document = {
        "metadata": {
            "name": "web-1",
            "labels": {"windlass.dev/service": "s", "windlass.dev/generation": "7"},
            "annotations": {"windlass.dev/memory": "64", "windlass.dev/ports": "80"},
        },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.9",
            "conditions": conditions,
            "containerStatuses": containers,
        }
        | status,
    }
    return read_json(json.dumps(document), Pod)


def waiting(reason: str, message: str = "") -> Pod:
    return pod({"state": {"waiting": {"reason": reason, "message": message}}}, phase="Pending")


def ended(**end: Any) -> Pod:
    state = {"terminated": {"startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:02Z", **end}}
    return pod({"state": state}, phase="Failed")


PENDING = [
    (
        waiting("ErrImagePull", 'failed to pull "shop/wbe:1": not found'),
        "Correct the name of the image",
        True,
    ),
    (
        waiting("ImagePullBackOff", "Back-off pulling: 401 unauthorized"),
        "Correct the name of the image",
        True,
    ),
    (waiting("InvalidImageName", "couldn't parse"), "Correct the name of the image", True),
    (
        waiting("ErrImagePull", "dial tcp 10.0.0.1:443: i/o timeout"),
        "nodes of the cluster reach the registry",
        False,
    ),
    (
        waiting("CreateContainerConfigError", 'secret "x" not found'),
        "Correct the image or the start command",
        True,
    ),
    (waiting("ContainerCreating"), "", False),
    (waiting("CrashLoopBackOff"), "", False),
]


@pytest.mark.parametrize(("found", "words", "certain"), PENDING)
def test_a_container_that_waits_has_a_reason_with_a_remedy(found, words, certain):
    reason = pending_reason(found)
    assert words in reason
    assert bool(reason) is bool(words)
    assert is_certain(reason) is certain


UNSCHEDULABLE = [
    ("0/1 nodes are available: 1 Insufficient memory.", "Ask for less cpu or memory"),
    ("0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.", "storage class"),
    ('persistentvolumeclaim "data" not found', "storage class"),
    ("0/2 nodes are available: 2 node(s) had untolerated taint(s)", "Make a node of the cluster ready"),
]


@pytest.mark.parametrize(("message", "words"), UNSCHEDULABLE)
def test_a_pod_without_a_node_says_what_is_missing(message, words):
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    found = pod(None, conditions=[condition], phase="Pending")
    assert words in pending_reason(found)
    seen = instance(found, 0)
    assert seen is not None
    assert seen.phase is Phase.WAITING


def test_a_quota_is_named_with_its_numbers():
    used = "requested: memory=128Mi, used: memory=1Gi, limited: memory=1Gi"
    message = f'pods "web" is forbidden: exceeded quota: small, {used}'
    condition = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}
    found = read_json(json.dumps({"status": {"conditions": [condition]}}), GenerationObject)
    reason = controller_reason([found])
    assert reason.startswith("Ask for less, or raise the quota")
    assert "requested: memory=128Mi" in reason
    assert is_certain(reason)
    assert controller_reason([GenerationObject()]) == ""


def test_events_of_claims_and_stateful_sets_are_reasons():
    provisioning = ClusterEvent(reason="ProvisioningFailed", message="no disk left", type="Warning")
    quota = ClusterEvent(
        reason="FailedCreate", message="is forbidden: exceeded quota: q, requested: pods=1", type="Warning"
    )
    assert "no disk left" in event_reason([ClusterEvent(reason="Scheduled"), provisioning])
    assert "quota" in event_reason([quota])
    assert event_reason([ClusterEvent(reason="Pulled", message="fine")]) == ""


ENDS = [
    ({"exitCode": 3}, 3, "exited with code 3"),
    ({"exitCode": 0}, 0, "exited with code 0"),
    ({"exitCode": 139}, 139, "was killed by SIGSEGV"),
    ({"exitCode": 127}, 127, "exited with code 127: the command was not found"),
    ({"exitCode": 137, "reason": "OOMKilled"}, 137, "was killed: out of memory (it may use 64 MB)"),
    ({"exitCode": 0, "reason": "OOMKilled"}, 137, "was killed: out of memory (it may use 64 MB)"),
    (
        {"exitCode": 128, "reason": "StartError", "message": "no such file"},
        128,
        "could not be started: no such file",
    ),
]


@pytest.mark.parametrize(("end", "code", "reason"), ENDS)
def test_a_run_tells_its_exit_code_and_how_it_ended(end, code, reason):
    found = outcome(ended(**end))
    assert found is not None
    assert (found.exit_code, found.reason) == (code, reason)
    assert found.ended_at - found.started_at == 2000


def test_a_run_that_was_lost_with_its_node_has_no_exit_code():
    found = outcome(pod(None, phase="Failed", reason="NodeLost", message="the node is gone"))
    assert found is not None
    assert (found.exit_code, found.reason) == (None, "was lost with its node")
    assert outcome(pod({"state": {"running": {}}})) is None


def test_an_instance_that_is_restarted_keeps_the_reason_of_its_last_end():
    state = {"running": {"startedAt": "2026-01-01T00:00:05Z"}}
    last = {"terminated": {"exitCode": 3}}
    seen = instance(pod({"state": state, "lastState": last, "restartCount": 2}), 1)
    assert seen is not None
    assert (seen.phase, seen.restarts, seen.reason, seen.index) == (Phase.RUNNING, 2, "exited with code 3", 1)
    assert (seen.address, seen.ports, seen.is_ready) == ("10.0.0.9", {80: 80}, True)


def test_an_instance_whose_container_is_being_made_is_not_there_yet():
    assert instance(waiting("ContainerCreating"), 0) is None


@pytest.mark.parametrize(
    ("said", "content"),
    [(b"none\n", None), (b"file\naGVsbG8=\nend\n", b"hello"), (b"file\nend\n", b""), (b"", None)],
)
def test_an_output_file_is_what_the_container_beside_the_run_says(said, content):
    assert output_of(said) == content
