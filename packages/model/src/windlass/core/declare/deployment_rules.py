"""The deployment rule of an environment: previews, and running hours."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, Protocol

from msgspec import Meta, field

from windlass.core.declare.fields import Timestamp, example
from windlass.core.declare.resource import Spec, clash
from windlass.core.declare.validation import did_you_mean
from windlass.core.words.due_times import is_zone, similar_zones
from windlass.core.words.running_hours import RunningHours

Weekday = Literal["MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"]
ALL_DAYS: Final[tuple[Weekday, ...]] = (
    "MONDAY",
    "TUESDAY",
    "WEDNESDAY",
    "THURSDAY",
    "FRIDAY",
    "SATURDAY",
    "SUNDAY",
)
Zone = Annotated[
    str,
    Meta(max_length=255, description="Time zone of both times, such as Europe/Oslo"),
    example("UTC"),
]
AutoStop = Annotated[
    bool,
    Meta(
        description="The environment is started at start_time of each of the weekdays, and stopped at "
        "stop_time. What is started or stopped by hand stays so until the next of these times"
    ),
]
StartTime = Annotated[Timestamp, Meta(description="Only the time of day counts, in the time zone")]
StopTime = Annotated[
    Timestamp,
    Meta(description="Likewise. A time that is not after start_time belongs to the next day"),
]
START: Final = "1970-01-01T08:00:00.000Z"
STOP: Final = "1970-01-01T19:00:00.000Z"
_HOUR_AND_MINUTE_PATTERN: Final = re.compile(r"T([0-9]{2}):([0-9]{2})")


class WithHours(Protocol):
    """A rule with running hours."""

    auto_stop: bool
    timezone: str
    start_time: str
    stop_time: str
    weekdays: list[Weekday]


class DeploymentRule(Spec):
    """Whether pull requests get previews, and when the environment runs."""

    auto_preview: Annotated[
        bool,
        Meta(
            description="Each pull request for a service of the environment gets a preview, unless the "
            "service has auto_preview off"
        ),
    ] = False
    on_demand_preview: Annotated[
        bool,
        Meta(description="A pull request gets a preview if it has the label `preview` at the git server"),
    ] = False
    auto_stop: AutoStop = False
    timezone: Zone = "UTC"
    start_time: StartTime = START
    stop_time: StopTime = STOP
    weekdays: Annotated[list[Weekday], Meta(max_length=7, description="Days on which it is started")] = field(
        default_factory=lambda: [*ALL_DAYS]
    )


def check_hours(rule: WithHours) -> None:
    """Raises Invalid for running hours that no environment can follow."""
    if not is_zone(rule.timezone):
        meant = did_you_mean(similar_zones(rule.timezone))
        raise clash("timezone", f"must be a time zone such as Europe/Oslo{meant}")
    if rule.auto_stop and not rule.weekdays:
        raise clash("weekdays", "name at least one day, or turn auto_stop off")
    if rule.auto_stop and _minute_of_day(rule.start_time) == _minute_of_day(rule.stop_time):
        raise clash("stop_time", "choose another time than start_time, or turn auto_stop off")


def hours_of_rule(rule: DeploymentRule) -> RunningHours | None:
    """Returns the running hours of a rule; None if it has none."""
    if not rule.auto_stop:
        return None
    return RunningHours(
        start=_minute_of_day(rule.start_time),
        stop=_minute_of_day(rule.stop_time),
        weekdays=sorted({(ALL_DAYS.index(day) + 1) % len(ALL_DAYS) for day in rule.weekdays}),
        timezone=rule.timezone,
    )


def _minute_of_day(time_of_day: str) -> int:
    found = _HOUR_AND_MINUTE_PATTERN.search(time_of_day)
    assert found is not None
    return int(found[1]) * 60 + int(found[2])
