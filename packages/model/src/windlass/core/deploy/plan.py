"""Decides the next step of a service. Pure, total, tested as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from windlass.core.deploy.states import DeploymentStage, Do, Progress


class Step(StrEnum):
    REST = "rest"
    """End all instances of a service that should not run, and then do nothing."""
    KEEP = "keep"
    """Keep the deployed release running."""
    BEGIN = "begin"
    """Begin the oldest deployment that waits."""
    ABANDON = "abandon"
    """Remove the instances of a cancelled deployment; the previous release continues to serve."""
    BUILD = "build"
    RELEASE = "release"
    RUN = "run"
    STOP = "stop"
    UNINSTALL = "uninstall"
    DELETE = "delete"


FIRST_STAGES: Final[Mapping[Step, DeploymentStage]] = {
    Step.BUILD: DeploymentStage.FETCH,
    Step.RELEASE: DeploymentStage.START,
    Step.RUN: DeploymentStage.START,
}
"""The stage of a deployment in which a step begins."""


class OpenDeployment(Struct, frozen=True):
    """A deployment that has not ended."""

    do: str
    progress: str
    cancelled: bool = False
    switched: bool = False
    """True if its generation serves already: it is too late to cancel."""


def plan(head: OpenDeployment | None, serving: bool) -> Step:
    """Returns the next step. `head` is the oldest open deployment. After an interruption the step is the same
    again."""
    if head is None:
        return Step.KEEP if serving else Step.REST
    if head.cancelled and not head.switched:
        return Step.ABANDON
    if head.progress == Progress.QUEUED:
        return Step.BEGIN
    if head.progress == Progress.BUILDING:
        return Step.BUILD
    return _STEPS.get(Do(head.do), Step.RELEASE)


_STEPS: Final[Mapping[Do, Step]] = {
    Do.RUN: Step.RUN,
    Do.STOP: Step.STOP,
    Do.UNINSTALL: Step.UNINSTALL,
    Do.DELETE: Step.DELETE,
}


def superseded_positions(waiting: Sequence[str]) -> list[int]:
    """Returns the positions of the waiting deployments that a new one replaces."""
    return [position for position, status in enumerate(waiting) if status == Progress.QUEUED]
