"""Schedules of jobs: a timetable, or events of the job's environment."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from windlass.core.declare.fields import WITHOUT_EFFECT, Line, Maybe, absent, example, shown_in_examples
from windlass.core.declare.program import Arguments, check_command
from windlass.core.declare.resource import Spec, clash
from windlass.core.declare.validation import did_you_mean
from windlass.core.words.cron import BadTimetable, parse
from windlass.core.words.due_times import is_zone, similar_zones

_EVENT_FIELDS: Final = ("on_start", "on_stop", "on_delete")
Entrypoint = Annotated[
    Maybe[Line], Meta(description="Command to run, instead of the one of the image or the repository")
]
RunArguments = Annotated[
    Arguments, Meta(description="Arguments of the entrypoint; without one, the command itself")
]


class JobEvent(Spec):
    """The command that runs at an event of the environment."""

    arguments: RunArguments = []
    entrypoint: Entrypoint = absent


class CronSchedule(Spec):
    """A timetable, and the command of its runs."""

    arguments: RunArguments = []
    entrypoint: Entrypoint = absent
    timezone: Annotated[
        str,
        Meta(max_length=64, description="Time zone of the IANA database, such as Europe/Berlin"),
        example("Europe/Berlin"),
    ] = "Etc/UTC"
    scheduled_at: Annotated[
        Maybe[Annotated[str, Meta(max_length=256)]],
        Meta(
            description="Five fields of cron (minute, hour, day of the month, month, day of the week), such "
            "as 30 3 * * 1-5, or @hourly, @daily, @weekly, @monthly, @yearly",
        ),
        example("30 3 * * *"),
    ] = absent
    missed_runs: Annotated[
        Literal["ONCE", "SKIP"],
        Meta(
            description="Due times that pass while no server of Windlass runs: ONCE runs the job once for "
            "all of them, SKIP not at all"
        ),
    ] = "ONCE"


class JobSchedule(Spec):
    """A timetable, or events of the environment: a job has one or the other."""

    on_start: Annotated[Maybe[JobEvent], Meta(description="Run when it is deployed"), shown_in_examples()] = (
        absent
    )
    on_stop: Annotated[Maybe[JobEvent], Meta(description="Run when it is stopped")] = absent
    on_delete: Annotated[
        Maybe[JobEvent], Meta(description="Run when it is uninstalled or deleted, before anything else")
    ] = absent
    cronjob: Annotated[Maybe[CronSchedule], Meta(description="Run by a timetable")] = absent
    lifecycle_type: Annotated[Maybe[Literal["GENERIC", "TERRAFORM", "CLOUDFORMATION"]], WITHOUT_EFFECT] = (
        absent
    )


def normalise_schedule(schedule: JobSchedule) -> None:
    """Removes empty alternatives, which existing clients send, and validates the remaining alternative."""
    events: dict[str, JobEvent] = {}
    for name in _EVENT_FIELDS:
        event = getattr(schedule, name) or absent
        setattr(schedule, name, event)
        if event:
            events[name] = event
    cron = schedule.cronjob or None
    if events and cron is not None and not cron.scheduled_at:
        cron = None
    schedule.cronjob = cron or absent
    if cron is not None and events:
        raise clash(
            "schedule",
            f"must have either cronjob or events of the environment, not {next(iter(events))} as well",
        )
    if cron is not None:
        _check_cron(cron)
    elif not events:
        raise clash(
            "schedule",
            "must say when it runs: by a timetable (`cronjob`), or `on_start`, `on_stop` or `on_delete`",
        )
    for name, event in events.items():
        check_command(f"schedule.{name}.entrypoint", event.entrypoint or "")


def _check_cron(cron: CronSchedule) -> None:
    check_command("schedule.cronjob.entrypoint", cron.entrypoint or "")
    if not cron.scheduled_at:
        raise clash("schedule.cronjob.scheduled_at", "is required: five fields of cron, such as 30 3 * * *")
    try:
        parse(cron.scheduled_at)
    except BadTimetable as error:
        raise clash("schedule.cronjob.scheduled_at", str(error)) from error
    if not is_zone(cron.timezone):
        meant = did_you_mean(similar_zones(cron.timezone))
        raise clash(
            "schedule.cronjob.timezone",
            f"must be a time zone of the IANA database, such as Europe/Berlin{meant}",
        )
