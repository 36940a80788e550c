"""Runs of jobs: their states, their causes, and the stored body of each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct


class RunState(StrEnum):
    """The state of a run. All but the first two are final."""

    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    SKIPPED = "SKIPPED"
    """The run was due, but was not started; its message has the reason."""


OPEN_RUNS: Final = frozenset({RunState.QUEUED, RunState.RUNNING})


class Cause(StrEnum):
    """The reason why a run began."""

    SCHEDULE = "SCHEDULE"
    """The timetable of the job was due."""
    FORCED = "FORCED"
    """A person requested the run."""
    RETRY = "RETRY"
    """The run before it failed."""
    EVENT = "EVENT"
    """Its environment, or the job itself, was deployed, stopped or deleted."""


class RunEvent(StrEnum):
    """The part of the schedule of a job that a run follows."""

    ON_START = "ON_START"
    ON_STOP = "ON_STOP"
    ON_DELETE = "ON_DELETE"
    CRON = "CRON"


class RunCommand(Struct, frozen=True):
    """The command of a run, instead of that of its image or its build. Empty parts leave theirs."""

    entrypoint: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()


class JobPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The schedule of a job, as it was when the job was deployed."""

    commands: Mapping[RunEvent, RunCommand]
    """The command of each event that the job runs at."""
    retries: int = 0
    scheduled_at: str = ""
    """The timetable of cron; empty for a job that runs at events of its environment."""
    timezone: str = "Etc/UTC"
    runs_missed: bool = True
    """True if due times that passed while no server ran are made up for by one run."""


class RunDetails(Struct, omit_defaults=True, kw_only=True):
    """The body of a run."""

    event: RunEvent
    command: RunCommand
    actor_id: str = ""
    actor_name: str = ""
    attempt: int = 0
    """0 for the first try."""
    retries: int = 0
    """Retries that follow if it fails."""
    retry_of: str = ""
    """The first run of which this is a retry."""
    is_scheduled: bool = False
    """True for a run that a timetable has started, and for its retries, also once that run is deleted."""
    missed: int = 0
    """Due times before its own that passed while no server ran."""
    is_cancelled: bool = False
    """True if a cancellation was requested."""
    is_given_up: bool = False
    """True if it fails, before it is ended: nothing of it is started again."""
    message: str = ""
    waits: str = ""
    """The reason why it cannot begin now, or why its end is unknown."""
    began: int = 0
    ended: int = 0
    exit_code: int | None = None
    output: tuple[str, ...] = ()
    """The last lines that it wrote."""
    peak_memory: int = 0
    """Bytes; 0 if it is not known."""
    outputs: tuple[str, ...] = ()
    """The keys of variables that it has set."""


FIRST_PAUSE: Final = 10
LONGEST_PAUSE: Final = 360
"""Seconds before a retry."""


def pause_before(attempt: int) -> int:
    """Returns the seconds before a retry: 10, 20, 40 and so on, to six minutes."""
    return min(LONGEST_PAUSE, FIRST_PAUSE << min(attempt - 1, 10))
