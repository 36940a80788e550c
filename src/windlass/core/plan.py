"""What to do next for a service, given its deployments that are not final. Pure, total, tested as a table."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from windlass.core.states import Progress


class Step(StrEnum):
    REST = "rest"
    START = "start"
    """Begin the oldest that waits."""
    CONTINUE = "continue"
    """Go on with the one that was begun, perhaps by a worker that is no more."""


def plan(waiting: Sequence[str]) -> Step:
    """`waiting` are the statuses of the open deployments, oldest first."""
    if not waiting:
        return Step.REST
    return Step.START if waiting[0] == Progress.QUEUED else Step.CONTINUE


def superseded(waiting: Sequence[str]) -> list[int]:
    """Which of the open deployments a new one makes pointless: those that were not begun."""
    return [place for place, status in enumerate(waiting) if status == Progress.QUEUED]
