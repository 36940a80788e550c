"""Prints the metrics of a service: one row per metric, with a chart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import click
from msgspec import Struct

from windlass.terminal.tables import COLUMN_GAP, room, table

_COLUMN_TITLES: Final = ("METRIC", "NOW", "HIGHEST")
_BLOCK_CHARACTERS: Final = "▁▂▃▄▅▆▇█"
_WIDEST, _NARROWEST = 60, 9
_MAX_HOURS: Final = 48
"""Hours up to which a time is told in hours."""
_PERCENTILE_NAMES: Final = ("p50", "p90", "p99")

Numbers = Sequence[float | None]


class MetricRow(Struct, frozen=True):
    title: str
    numbers: Numbers
    pattern: str
    unit: int = 1

    @property
    def cells(self) -> tuple[str, str, str]:
        """The title, the current value and the highest value; a value is empty if it is unknown."""
        return (
            self.title,
            self._format_number(self.numbers[-1]),
            self._format_number(_max_number(self.numbers)),
        )

    def _format_number(self, number: float | None) -> str:
        return "" if number is None else self.pattern.format(number / self.unit)


def show_metrics(metrics: Mapping[str, Any]) -> None:
    if not metrics["times"]:
        click.echo("Nothing was measured in this time.", err=True)
        return
    rows = [*_rows_of(metrics)]
    widths = [
        max(map(len, column)) for column in zip(_COLUMN_TITLES, *(row.cells for row in rows), strict=True)
    ]
    left = min(_WIDEST, max(_NARROWEST, room() - sum(widths) - COLUMN_GAP * (len(widths) + 1)))
    cells = [(*row.cells, course(row.numbers, left)) for row in rows]
    table((*_COLUMN_TITLES, _chart_title(metrics)), (*widths, left), cells)


def _chart_title(metrics: Mapping[str, Any]) -> str:
    first, last = (datetime.fromisoformat(metrics["times"][index]) for index in (0, -1))
    if metrics["usage"] is None:
        return "LAST HOUR"
    hours = round((last - first).total_seconds() / 3600) or 1
    return (
        f"LAST {hours} HOUR{'S' * (hours > 1)}" if hours <= _MAX_HOURS else f"LAST {round(hours / 24)} DAYS"
    )


def course(values: Numbers, width: int) -> str:
    """Draws numbers as a bar chart of at most `width` characters. Each character shows the highest number of
    its interval; a blank stands for an unknown number."""
    step = -(-len(values) // width)
    highest = [_max_number(values[first : first + step]) for first in range(0, len(values), step)]
    top = _max_number(highest) or 1
    return "".join(
        " " if number is None else _BLOCK_CHARACTERS[round(number / top * (len(_BLOCK_CHARACTERS) - 1))]
        for number in highest
    )


def _max_number(values: Numbers) -> float | None:
    return max((number for number in values if number is not None), default=None)


def _rows_of(metrics: Mapping[str, Any]) -> Iterator[MetricRow]:
    if usage := metrics["usage"]:
        yield MetricRow("instances", usage["instances"], "{:.0f}")
        yield MetricRow("cpu", usage["cpu"], "{:.1f} m")
        yield MetricRow("memory", usage["memory"], "{:.1f} MB", 1 << 20)
    for instance in metrics["instances"]:
        yield MetricRow(f"cpu {instance['name']}", instance["cpu"], "{:.1f} m")
        yield MetricRow(f"memory {instance['name']}", instance["memory"], "{:.1f} MB", 1 << 20)
    if requests := metrics["requests"]:
        for name, rates in requests["by_status"].items():
            yield MetricRow(f"requests {name}", rates, "{:.2f}/s")
        for name in _PERCENTILE_NAMES:
            yield MetricRow(f"latency {name}", requests[name], "{:.0f} ms")
