"""The next step of a service follows from its records alone, in every case."""

from __future__ import annotations

from itertools import product

from tests.tables import rows
from windlass.control.deploying.steps import STEPS
from windlass.core.deploy.plan import OpenDeployment, Step, plan
from windlass.core.deploy.states import OPEN_STATES_OF_DEPLOYMENTS, Do, Progress

CASES = [
    (None, False, Step.REST),
    (None, True, Step.KEEP),
    (OpenDeployment(Do.DEPLOY, Progress.QUEUED), True, Step.BEGIN),
    (OpenDeployment(Do.DEPLOY, Progress.BUILDING), True, Step.BUILD),
    (OpenDeployment(Do.DEPLOY, Progress.DEPLOYING), False, Step.RELEASE),
    (OpenDeployment(Do.RESTART, Progress.DEPLOYING), True, Step.RELEASE),
    (OpenDeployment(Do.RUN, Progress.BUILDING), False, Step.BUILD),
    (OpenDeployment(Do.RUN, Progress.DEPLOYING), False, Step.RUN),
    (OpenDeployment(Do.STOP, Progress.DEPLOYING), True, Step.STOP),
    (OpenDeployment(Do.UNINSTALL, Progress.DEPLOYING), False, Step.UNINSTALL),
    (OpenDeployment(Do.DELETE, Progress.DEPLOYING), False, Step.DELETE),
    (OpenDeployment(Do.DEPLOY, Progress.DEPLOYING, cancelled=True), True, Step.ABANDON),
    (OpenDeployment(Do.RUN, Progress.DEPLOYING, cancelled=True), False, Step.ABANDON),
    (OpenDeployment(Do.DEPLOY, Progress.DEPLOYING, cancelled=True, switched=True), True, Step.RELEASE),
]


@rows(("head", "serving", "step"), CASES)
def test_the_next_step_is_planned_from_the_oldest_open_deployment(
    head: OpenDeployment | None, serving: bool, step: Step
):
    assert plan(head, serving) is step


def test_every_state_of_a_deployment_is_planned_to_a_step_with_a_function():
    flags = (False, True)
    for action, progress, cancelled, switched, serving in product(
        Do, OPEN_STATES_OF_DEPLOYMENTS, flags, flags, flags
    ):
        step = plan(OpenDeployment(action, progress, cancelled, switched), serving)
        assert step is Step.BEGIN or step in STEPS
