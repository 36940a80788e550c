"""Decides the next step of a service's deployment. Pure and total; tested as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from windlass.core.deploy.states import ENDING_ACTIONS, DeploymentPhase, Do, Progress


class Step(StrEnum):
    REST = "rest"
    """End all instances of a service that should not run, then do nothing."""
    KEEP = "keep"
    """Keep the deployed release running."""
    WAKE = "wake"
    """Start the instances of a sleeping service."""
    BEGIN = "begin"
    """Begin the oldest queued deployment."""
    ABANDON = "abandon"
    """Remove the instances of a cancelled deployment. The previous release continues to serve."""
    BUILD = "build"
    RELEASE = "release"
    RUN = "run"
    STOP = "stop"
    UNINSTALL = "uninstall"
    DELETE = "delete"


FIRST_STAGES: Final[Mapping[Step, DeploymentPhase]] = {
    Step.BUILD: DeploymentPhase.FETCH,
    Step.RELEASE: DeploymentPhase.START,
    Step.RUN: DeploymentPhase.START,
}
"""The deployment phase in which a step begins."""


class OpenDeployment(Struct, frozen=True):
    """A deployment that is not finished."""

    do: str
    progress: str
    cancelled: bool = False
    switched: bool = False
    """Returns whether the deployment's instances already serve, so that it can no longer be cancelled."""


def plan(head: OpenDeployment | None, serving: bool, *, waking: bool = False) -> Step:
    """Returns the next step. `head`: the oldest open deployment. `waking`: the service sleeps, and is to be
    woken. A deployment begins after that, so that the present version serves until the new one does. The
    result is the same after an interruption, so that the step is repeated."""
    if waking and serving and (head is None or _begins_awake(head)):
        return Step.WAKE
    if head is None:
        return Step.KEEP if serving else Step.REST
    if head.cancelled and not head.switched:
        return Step.ABANDON
    if head.progress == Progress.QUEUED:
        return Step.BEGIN
    if head.progress == Progress.BUILDING:
        return Step.BUILD
    return _STEPS_BY_ACTION.get(Do(head.do), Step.RELEASE)


def _begins_awake(head: OpenDeployment) -> bool:
    return head.progress == Progress.QUEUED and not head.cancelled and Do(head.do) not in ENDING_ACTIONS


_STEPS_BY_ACTION: Final[Mapping[Do, Step]] = {
    Do.RUN: Step.RUN,
    Do.STOP: Step.STOP,
    Do.UNINSTALL: Step.UNINSTALL,
    Do.DELETE: Step.DELETE,
}


def superseded_positions(waiting: Sequence[str]) -> list[int]:
    """Returns the positions of queued deployments that a new deployment supersedes."""
    return [position for position, status in enumerate(waiting) if status == Progress.QUEUED]
