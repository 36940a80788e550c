"""The deployment rule of an environment."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, field

from windlass.core.declare.fields import WITHOUT_EFFECT, Timestamp, example
from windlass.core.declare.resource import Spec

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
Zone = Annotated[str, Meta(max_length=255), WITHOUT_EFFECT, example("UTC")]
START: Final = "1970-01-01T08:00:00.000Z"
STOP: Final = "1970-01-01T19:00:00.000Z"


class DeploymentRule(Spec):
    """Whether pull requests get previews."""

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
    auto_stop: Annotated[bool, WITHOUT_EFFECT] = False
    timezone: Zone = "UTC"
    start_time: Annotated[Timestamp, WITHOUT_EFFECT] = START
    stop_time: Annotated[Timestamp, WITHOUT_EFFECT] = STOP
    weekdays: Annotated[list[Weekday], Meta(max_length=7), WITHOUT_EFFECT] = field(
        default_factory=lambda: [*ALL_DAYS]
    )
