"""Times as options: a duration such as `30d`, from now or before now, or a time as the API takes it."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import click

_DURATION_PATTERN: Final = re.compile(r"([0-9]{1,9})([smhdwy])")
_TIME_UNITS: Final = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
    "y": timedelta(days=365),
}


class TimeOption(click.ParamType[str]):
    """A duration from now, such as `30d`. Any other text is sent unchanged, and the server validates it."""

    name = "when"
    sign = 1

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        match = _DURATION_PATTERN.fullmatch(value)
        if match is None:
            return value
        try:
            when = datetime.now(UTC) + self.sign * int(match[1]) * _TIME_UNITS[match[2]]
        except OverflowError:
            self.fail(f"{value} is too long", param, ctx)
        return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class PastTime(TimeOption):
    """A duration before now, such as `1h`, or a time."""

    sign = -1
