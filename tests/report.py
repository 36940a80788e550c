"""A report of a run as a file: a pytest plugin. `pytest --report FILE` writes it, `make nightly` does so."""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from tests.marks import RUN
from tests.skips import reason

SLOWEST = 40
"""So many tests are listed with their durations."""


def pytest_addoption(parser):
    parser.addoption("--report", metavar="FILE", help="write outcomes, failures and durations")


def pytest_terminal_summary(terminalreporter, config):
    if file := config.getoption("report"):
        Path(file).write_text(report_of(terminalreporter.stats))
        terminalreporter.line(f"The report of this run: {file}")


def report_of(stats: dict[str, list[Any]]) -> str:
    """Returns Markdown. A test counts once, and its duration includes its fixtures."""
    seconds: dict[str, float] = defaultdict(float)
    for outcome in ("", "passed", "failed", "error", "skipped", "xfailed", "xpassed"):
        for each in stats.get(outcome, []):
            seconds[each.nodeid] += each.duration
    outcomes = {
        outcome: {each.nodeid: each for each in stats.get(outcome, [])}
        for outcome in ("passed", "failed", "error", "skipped", "xfailed")
    }
    slowest = sorted(seconds, key=lambda id: seconds[id], reverse=True)[:SLOWEST]
    counts = ", ".join(f"{len(tests)} {outcome}" for outcome, tests in outcomes.items() if tests)
    parts = [
        f"# Tests ({RUN}), {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC\n\n{counts or 'no tests'}",
        *_failures({**outcomes["failed"], **outcomes["error"]}),
        *_reasons(outcomes["skipped"]),
        "## Areas\n\n| area | tests | failed | seconds of all workers |\n|---|---|---|---|\n"
        + "\n".join(_areas(seconds, {*outcomes["failed"], *outcomes["error"]})),
        "## Slowest tests\n\n| seconds | test |\n|---|---|\n"
        + "\n".join(f"| {seconds[id]:.1f} | `{id}` |" for id in slowest),
    ]
    return "\n\n".join(parts) + "\n"


def _failures(failed: dict[str, Any]):
    if failed:
        yield "## Failed\n\n" + "\n\n".join(
            f"`{id}`\n\n```\n{each.longreprtext[-3000:]}\n```" for id, each in failed.items()
        )


def _reasons(skipped: dict[str, Any]):
    if skipped:
        yield "## Skipped\n\n" + "\n".join(f"- `{id}`: {reason(each)}" for id, each in skipped.items())


def _areas(seconds: dict[str, float], failed: set[str]):
    areas: dict[str, list[str]] = defaultdict(list)
    for id in seconds:
        areas["/".join(id.partition("::")[0].split("/")[:2])].append(id)
    for area, tests in sorted(areas.items(), key=lambda each: -sum(seconds[id] for id in each[1])):
        total = sum(seconds[id] for id in tests)
        yield f"| {area} | {len(tests)} | {len(failed.intersection(tests))} | {total:.0f} |"
