"""The status of a deployment stage, computed from the deployments of its services. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from windlass.core.deploy.states import Progress, State, action_status


class StageStatus(StrEnum):
    """The status of a stage, or of a deployment in it, in the vocabulary of the full interface."""

    QUEUED = "QUEUED"
    ONGOING = "ONGOING"
    DONE = "DONE"
    ERROR = "ERROR"
    SKIPPED = "SKIPPED"
    """Nothing of it began: a deployment of an earlier stage failed, or the stage has no services."""
    CANCELED = "CANCELED"


_STATUS_BY_PROGRESS: Final = {
    Progress.QUEUED: StageStatus.QUEUED,
    Progress.BUILDING: StageStatus.ONGOING,
    Progress.DEPLOYING: StageStatus.ONGOING,
    Progress.SUCCEEDED: StageStatus.DONE,
    Progress.FAILED: StageStatus.ERROR,
    Progress.CANCELED: StageStatus.CANCELED,
    Progress.SUPERSEDED: StageStatus.CANCELED,
}
_STATUS_BY_ACTION_STATUS: Final = {
    "SUCCESS": StageStatus.DONE,
    "CANCELING": StageStatus.ONGOING,
    "NEVER": StageStatus.SKIPPED,
}
_HAS_BEGUN: Final = frozenset({StageStatus.ONGOING, StageStatus.DONE, StageStatus.ERROR})
_STATUSES_BY_PRECEDENCE: Final = (
    StageStatus.QUEUED,
    StageStatus.ERROR,
    StageStatus.CANCELED,
    StageStatus.DONE,
    StageStatus.SKIPPED,
)


def of_deployment(progress: Progress, *, is_skipped: bool = False) -> StageStatus:
    return StageStatus.SKIPPED if is_skipped else _STATUS_BY_PROGRESS[progress]


def of_state(state: State) -> StageStatus:
    """Returns the status of a service in its stage, from the service's state."""
    word = action_status(state)
    return _STATUS_BY_ACTION_STATUS.get(word) or StageStatus(word)


def together(statuses: Iterable[StageStatus]) -> StageStatus:
    """Returns the status of a stage, or of several stages together."""
    present = set(statuses)
    is_under_way = StageStatus.QUEUED in present and bool(present & _HAS_BEGUN)
    if is_under_way or StageStatus.ONGOING in present:
        return StageStatus.ONGOING
    return next((status for status in _STATUSES_BY_PRECEDENCE if status in present), StageStatus.SKIPPED)
