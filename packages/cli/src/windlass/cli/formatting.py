"""Formats values of a response as text: times, numbers and lists, in a table or as a list of fields."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import zip_longest
from typing import Any, Final

import click
import msgspec

from windlass.terminal.tables import pairs, plain, table

STATE_FIELDS: Final = ("state", "status")
SERVING_AFTER_ERROR: Final = "ERROR, serving"
"""The state of a service whose last deployment failed but whose earlier instances still serve."""
_TIME_WITH_ZONE_PATTERN: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_TIME_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_MAX_RELATIVE_SECONDS: Final = 60 * 86_400
"""Seconds up to which a time is shown relative to now. Other times are shown as a date."""


def cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(cell(item) for item in value)
        case dict():
            return plain(msgspec.json.encode(value).decode())
        case str():
            return plain(moment(value))
        case _:
            return str(value)


def short_cell(value: Any) -> str:
    """Returns a value for a table column: a time relative to now, or the first line of a text."""
    if isinstance(value, str):
        when = _time_of(value)
        return ago(when, time.time()) if when else plain(value.partition("\n")[0])
    return cell(value)


def ago(when: datetime, now: float) -> str:
    """Returns a time relative to now: `5 min ago`, `in 30 d`."""
    seconds = int(now - when.timestamp())
    if abs(seconds) >= _MAX_RELATIVE_SECONDS:
        return f"{when.astimezone():%Y-%m-%d}"
    unit, size = next((unit for unit in _TIME_UNITS if abs(seconds) >= unit[1]), _TIME_UNITS[-1])
    count = abs(seconds) // size
    return f"{count} {unit} ago" if seconds >= 0 else f"in {count} {unit}"


def duration(started_at: str, ended_at: str) -> str:
    """Returns the time between two moments as text."""
    seconds = max(
        0.0, (datetime.fromisoformat(ended_at) - datetime.fromisoformat(started_at)).total_seconds()
    )
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def is_state(name: str) -> bool:
    return name.rpartition("_")[2] in STATE_FIELDS


def show_fields(document: dict[str, Any]) -> None:
    """Prints a document as a list of fields."""
    times = {name: value for name, value in document.items() if _are_times(value)}
    others = {name: value for name, value in document.items() if name not in times}
    fields = [(name, value, "") for name, value in _flatten(with_counts(others))]
    if not fields and not times:
        click.echo("There is nothing to show.", err=True)
        return
    if fields:
        pairs(fields, states=is_state)
    if times:
        if fields:
            click.echo()
        _show_times(times)


def _show_times(lists: dict[str, list[str]]) -> None:
    """Prints lists of times as columns of a table."""
    rows = [
        [_format_clock(value) for value in moments] for moments in zip_longest(*lists.values(), fillvalue="")
    ]
    titles = [name.upper().replace("_", " ") for name in lists]
    widths = [max(len(text) for text in column) for column in zip(titles, *rows, strict=True)]
    table(titles, widths, rows)


def _are_times(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_time(item) for item in value)


def _is_time(value: Any) -> bool:
    return isinstance(value, str) and _TIME_WITH_ZONE_PATTERN.fullmatch(value) is not None


def _format_clock(text: str) -> str:
    """Returns a time with seconds: a UTC time in the local time zone, another time in its own time zone."""
    if text.endswith("Z"):
        return moment(text)
    return f"{text[:19].replace('T', ' ')} {text[19:]}" if text else ""


def with_counts(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row with the numbers of instances merged into one field: `2/3` means two of three are ready.
    If a service still serves after a failure, its state shows both."""
    if "ready_instances" not in row:
        return row
    changed = {"instances": f"{row['ready_instances']}/{row['instances']}"}
    if row.get("state") == "ERROR" and row["ready_instances"]:
        changed["state"] = SERVING_AFTER_ERROR
    kept = {name: row[name] for name in row if name not in {"running_instances", "ready_instances"}}
    return kept | changed


def show_apart(rows: list[dict[str, Any]]) -> None:
    """Prints each row as a list of fields."""
    for place, row in enumerate(rows):
        if place:
            click.echo()
        show_fields(row)


def _flatten(document: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yields non-empty fields with their paths."""
    for name, value in document.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for place, item in enumerate(value):
                yield f"{prefix}{name}[{place}]", ", ".join(f"{key} {text}" for key, text in _flatten(item))
        elif value not in (None, "", []):
            yield f"{prefix}{name}", cell(value)


def moment(text: str) -> str:
    """Formats a time in the local time zone. Other texts are returned unchanged."""
    when = _time_of(text)
    return f"{when.astimezone():%Y-%m-%d %H:%M:%S}" if when else text


def _time_of(text: str) -> datetime | None:
    if len(text) == 24 and text[10] == "T" and text.endswith("Z"):
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(text)
    return None
