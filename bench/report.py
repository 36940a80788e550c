"""The numbers as a table, on the terminal and in README.md between two marks."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from bench.measure import Bench, Line, Target

README = Path(__file__).parent / "README.md"
BEGIN, END = "<!-- report: written by `make bench ARGS=--write` -->", "<!-- end of report -->"
_HEAD = ("What", "Ours", "Limit", "Ratio", "Target", "Rounds")
_TOO_BUSY, _TOO_IDLE = 0.9, 0.9

Report = dict[str, Sequence[Line] | str]
"""The lines of each case, or the reason why it did not come to its end."""


def table(report: Report) -> str:
    """One heading row for each case, then its lines."""
    rows = ["| " + " | ".join(_HEAD) + " |", "|---|--:|--:|--:|--:|--:|"]
    for name, lines in report.items():
        rows.append(f"| **{name}** | | | | | |")
        if isinstance(lines, str):
            rows.append(f"| did not come to its end: {lines.replace('|', ' ')} | | | | | |")
        else:
            rows += ["| " + " | ".join(cells(line)) + " |" for line in lines]
    return "\n".join(rows)


def cells(line: Line) -> tuple[str, ...]:
    ratio = f"{statistics.median(line.ratios):.2f}" if line.limit else "—"
    limit = shown(statistics.median(line.limit), line.unit) if line.limit else "—"
    return (
        line.what,
        shown(statistics.median(line.ours), line.unit),
        limit,
        ratio,
        _target(line),
        _rounds(line),
    )


def shown(value: float, unit: str) -> str:
    """Three significant digits are more than a benchmark knows."""
    number = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return f"{number} {unit}" if unit and not unit.startswith("/") else number + unit


def _target(line: Line) -> str:
    if line.target is None:
        return "for the record"
    return f"{_bound(line.target)}, {'met' if line.is_met else 'missed'}"


def _bound(target: Target) -> str:
    return f"{target.sign} {target.bound:g} {target.unit}".strip()


def _rounds(line: Line) -> str:
    unit = line.unit if line.judged is line.ours else ""
    low, high = (shown(value, unit) for value in (min(line.judged), max(line.judged)))
    return f"{low} – {high}"


def trust(bench: Bench) -> str:
    """What the reader has to know before believing a number."""
    said = []
    if bench.busy:
        said.append(f"The load generator was computing for at most {max(bench.busy):.0%} of the time")
        said.append(": it may itself have been the limit. " if max(bench.busy) > _TOO_BUSY else ". ")
    if bench.served:
        said.append(
            f"Servers that had nothing to wait for had their core for at least {min(bench.served):.0%}"
        )
        said.append(": something else ran on it. " if min(bench.served) < _TOO_IDLE else ". ")
    return "".join(said)


def text(report: Report, machine: str, command: str, bench: Bench) -> str:
    return f"Made by `{command}` on {machine}. {trust(bench)}".rstrip() + f"\n\n{table(report)}"


def write(report: str, file: Path = README) -> None:
    """Puts a new report in the place of the old one."""
    before, _, rest = file.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    file.write_text(f"{before}{BEGIN}\n\n{report}\n\n{END}{after}")
