"""Runs of jobs: their states, causes and stored bodies."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct


class RunState(StrEnum):
    """The state of a run. All states except QUEUED and RUNNING are final."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    SKIPPED = "SKIPPED"
    """The run was due, but was not started. Its message contains the reason."""


OPEN_RUNS: Final = frozenset({RunState.QUEUED, RunState.RUNNING})


class Cause(StrEnum):
    """The reason why a run was created."""

    SCHEDULE = "SCHEDULE"
    """The job's schedule was due."""
    FORCED = "FORCED"
    """A user requested the run."""
    RETRY = "RETRY"
    """The previous run failed."""
    EVENT = "EVENT"
    """The job or its environment was deployed, stopped or deleted."""


class RunEvent(StrEnum):
    """The event of a job's schedule that triggers a run."""

    ON_START = "ON_START"
    ON_STOP = "ON_STOP"
    ON_DELETE = "ON_DELETE"
    CRON = "CRON"


class RunCommand(Struct, frozen=True):
    """The command of a run. Empty fields keep the defaults of the image or build."""

    entrypoint: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


class JobPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The schedule of a job, as of its deployment."""

    commands: Mapping[RunEvent, RunCommand]
    """The command for each event that triggers a run."""
    retries: int = 0
    scheduled_at: str = ""
    """Cron expression; empty for a job that is triggered by events of its environment."""
    timezone: str = "Etc/UTC"
    runs_missed: bool = True
    """Whether a single run makes up for scheduled times at which no server was running."""


class RunDetails(Struct, omit_defaults=True, kw_only=True):
    """The stored body of a run."""

    event: RunEvent
    command: RunCommand
    actor_id: str = ""
    actor_name: str = ""
    attempt: int = 0
    """Number of the attempt; 0 for the first."""
    retries: int = 0
    """Maximum number of retries after a failure."""
    retry_of: str = ""
    """The first run, if this run is a retry."""
    is_scheduled: bool = False
    """Whether a schedule triggered the run, or the first run if this is a retry (even if the first run was
    deleted)."""
    missed: int = 0
    """Number of earlier scheduled times at which no server was running."""
    is_cancelled: bool = False
    """Whether cancellation was requested."""
    is_given_up: bool = False
    """Whether the run has failed but its instances have not ended yet. Nothing of it is started again."""
    message: str = ""
    waits: str = ""
    """Why the run cannot start yet, or why its outcome is not known."""
    began: int = 0
    ended: int = 0
    exit_code: int | None = None
    output: tuple[str, ...] = ()
    """The last output lines."""
    peak_memory: int = 0
    """Peak memory usage in bytes; 0 if unknown."""
    outputs: tuple[str, ...] = ()
    """Keys of the output variables that the run has set."""


FIRST_PAUSE_SECONDS: Final = 10
MAX_PAUSE_SECONDS: Final = 360
"""Minimum and maximum back-off before a retry, in seconds."""


def pause_before(attempt: int) -> int:
    """Returns the back-off before a retry in seconds: 10, 20, 40 and so on, up to six minutes."""
    return min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS << min(attempt - 1, 10))
