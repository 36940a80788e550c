"""Runs of jobs, as the API returns them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from windlass.core.declare.fields import Id, Timestamp, example, id_of_subject
from windlass.core.declare.spec import Shown


class JobRun(Shown):
    """A run of a job."""

    id: Id
    job_id: Annotated[Id, id_of_subject()]
    number: Annotated[int, Meta(description="Counts the runs of the job, from 1"), example(42)]
    status: Annotated[
        str,
        Meta(description="QUEUED, RUNNING, or one of SUCCEEDED, FAILED, CANCELED, SKIPPED"),
        example("SUCCEEDED"),
    ]
    cause: Annotated[str, Meta(description="SCHEDULE, FORCED, RETRY or EVENT"), example("SCHEDULE")]
    event: Annotated[
        str,
        Meta(description="ON_START, ON_STOP, ON_DELETE or CRON: the command that it runs"),
        example("CRON"),
    ]
    message: Annotated[str, Meta(description="Why it ended as it did, or was skipped")] = ""
    created_at: Timestamp
    updated_at: Timestamp
    scheduled_for: Annotated[
        Timestamp | None,
        Meta(description="The due time of a scheduled run"),
        example("2026-01-31T02:30:00.000Z"),
    ] = None
    missed: Annotated[
        int, Meta(description="Due times that passed before, while no server of Windlass ran")
    ] = 0
    started_at: Timestamp | None = None
    ended_at: Timestamp | None = None
    duration_seconds: Annotated[float | None, example(12.5)] = None
    exit_code: Annotated[
        int | None,
        Meta(description="128 and its number if a signal ended it; null while it runs, and if it was lost"),
        example(0),
    ] = None
    peak_memory_bytes: Annotated[
        int | None,
        Meta(description="Greatest use of memory; null where it is not known"),
        example(52_428_800),
    ] = None
    attempt: Annotated[int, Meta(description="0 for the first try, then the number of the retry")] = 0
    retry_of: Annotated[Id | None, Meta(description="The first try")] = None
    deployment_id: Annotated[Id, Meta(description="The deployment whose version it runs")]
    entrypoint: Annotated[str, Meta(description="Empty: that of the image or the repository")] = ""
    arguments: list[str] = []
    output: Annotated[list[str], Meta(description="The last lines that it wrote")] = []
    output_variables: Annotated[
        list[str],
        Meta(description="Keys of the variables by which services of the environment get its outputs"),
    ] = []
    triggered_by: Annotated[str, example("Ada Lovelace")] = ""
