"""The health of a release after its deployment, judged from its objects in the cluster."""

from __future__ import annotations

from msgspec.structs import replace

from windlass.engines.releases import ReleasedController
from windlass.helm.health import DeployedController, judge

DEPLOYED = DeployedController("Deployment", "web", 3, 2)
PRESENT = ReleasedController(
    kind="Deployment", name="web", release="helm-z1", generation=3, wanted=2, ready=2
)


def test_a_release_as_it_was_deployed_is_healthy():
    health = judge([DEPLOYED], [PRESENT], scales_itself=False)
    assert (health.problem, health.drift) == ("", "")


def test_a_pod_that_crashes_is_a_problem_with_its_reason():
    crashing = replace(PRESENT, ready=1, reason="the container web of the Pod web-1 exited with 3")
    health = judge([DEPLOYED], [crashing], scales_itself=False)
    assert health.is_certain
    assert "Deployment/web has 1 of 2 Pods ready: the container web of the Pod web-1 exited" in health.problem


def test_a_pod_that_is_not_ready_yet_may_become_so():
    health = judge([DEPLOYED], [replace(PRESENT, ready=1)], scales_itself=False)
    assert health.problem
    assert not health.is_certain


def test_the_object_with_a_reason_is_named_first():
    other = replace(PRESENT, name="api", ready=0)
    crashing = replace(PRESENT, ready=0, reason="it exited")
    assert "Deployment/web" in judge([], [other, crashing], scales_itself=False).problem


def test_an_object_that_others_have_deleted_is_a_problem():
    health = judge([DEPLOYED], [], scales_itself=False)
    assert health.problem == "Deploy again: Deployment/web was deleted from the cluster"


def test_changes_by_others_are_drift_and_no_problem():
    changed = judge([DEPLOYED], [replace(PRESENT, generation=4)], scales_itself=False)
    assert changed.problem == ""
    assert changed.drift.startswith("Deploy again to undo it, or change the chart")
    assert changed.drift.endswith("Deployment/web was changed in the cluster")
    scaled = replace(PRESENT, generation=4, wanted=5, ready=5)
    assert judge([DEPLOYED], [scaled], scales_itself=False).drift.endswith(
        "Deployment/web was scaled from 2 to 5 Pods in the cluster"
    )


def test_an_autoscaler_of_the_chart_is_no_drift():
    scaled = replace(PRESENT, generation=4, wanted=5, ready=5)
    assert judge([DEPLOYED], [scaled], scales_itself=True).drift == ""


def test_a_daemon_set_that_has_a_pod_on_each_node_is_not_scaled_by_others():
    deployed = DeployedController("DaemonSet", "agent", 1, 1)
    present = replace(PRESENT, kind="DaemonSet", name="agent", generation=2, wanted=3, ready=3)
    assert judge([deployed], [replace(present, generation=1)], scales_itself=False).drift == ""
    changed = judge([deployed], [present], scales_itself=False).drift
    assert changed.endswith("DaemonSet/agent was changed in the cluster")
    assert judge([deployed], [], scales_itself=False).problem.startswith("Deploy again: DaemonSet/agent was")
