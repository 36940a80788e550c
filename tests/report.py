"""A report of a run as a file: a pytest plugin. `pytest --report FILE` writes it, `make nightly` does so.

Besides its seconds, each test has those that a processor worked for it: in the test process and in programs
that have ended and whose parent it was. A busy machine makes the former longer and leaves the latter as they
are. `--report-over 1` lists all tests that took more than a second.
"""

from __future__ import annotations

import resource
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.marks import RUN
from tests.skips import reason

SLOWEST = 40
"""So many tests are listed with their durations."""


def processor_seconds() -> float:
    """Returns what processors have worked for this process and for those that it has waited for."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


_before = processor_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    global _before
    report = yield
    before, _before = _before, processor_seconds()
    report.processor = _before - before
    return report


def pytest_addoption(parser):
    parser.addoption("--report", metavar="FILE", help="write outcomes, failures and durations")
    parser.addoption("--report-over", metavar="SECONDS", type=float, help="list all tests that take longer")


def pytest_terminal_summary(terminalreporter, config):
    if file := config.getoption("report"):
        Path(file).write_text(report_of(terminalreporter.stats, config.getoption("report_over")))
        terminalreporter.line(f"The report of this run: {file}")


def report_of(stats: dict[str, list[Any]], over: float | None = None) -> str:
    """Returns Markdown. A test counts once, and its duration includes its fixtures."""
    seconds: dict[str, float] = defaultdict(float)
    processor: dict[str, float] = defaultdict(float)
    for outcome in ("", "passed", "failed", "error", "skipped", "xfailed", "xpassed"):
        for each in stats.get(outcome, []):
            seconds[each.nodeid] += each.duration
            processor[each.nodeid] += getattr(each, "processor", 0.0)
    outcomes = {
        outcome: {each.nodeid: each for each in stats.get(outcome, [])}
        for outcome in ("passed", "failed", "error", "skipped", "xfailed")
    }
    slowest = sorted(seconds, key=lambda id: seconds[id], reverse=True)
    slowest = slowest[:SLOWEST] if over is None else [id for id in slowest if seconds[id] > over]
    counts = ", ".join(f"{len(tests)} {outcome}" for outcome, tests in outcomes.items() if tests)
    parts = [
        f"# Tests ({RUN}), {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC\n\n{counts or 'no tests'}",
        *_failures({**outcomes["failed"], **outcomes["error"]}),
        *_reasons(outcomes["skipped"]),
        *_measured({**outcomes["passed"], **outcomes["failed"]}),
        "## Areas\n\n| area | tests | failed | seconds of workers | of processors |\n|---|---|---|---|---|\n"
        + "\n".join(_areas(seconds, processor, {*outcomes["failed"], *outcomes["error"]})),
        "## Slowest tests\n\n| seconds | of processors | test |\n|---|---|---|\n"
        + "\n".join(f"| {seconds[id]:.1f} | {processor[id]:.1f} | `{id}` |" for id in slowest),
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


def _measured(ended: dict[str, Any]):
    """What tests have measured, with the fixture `record_property`."""
    if found := [(name, text) for each in ended.values() for name, text in each.user_properties]:
        yield "## Measured\n\n" + "\n\n".join(f"{name}\n\n```\n{text}\n```" for name, text in found)


def _areas(seconds: dict[str, float], processor: dict[str, float], failed: set[str]):
    areas: dict[str, list[str]] = defaultdict(list)
    for id in seconds:
        areas["/".join(id.partition("::")[0].split("/")[:2])].append(id)
    for area, tests in sorted(areas.items(), key=lambda each: -sum(seconds[id] for id in each[1])):
        total, worked = (sum(of[id] for id in tests) for of in (seconds, processor))
        yield f"| {area} | {len(tests)} | {len(failed.intersection(tests))} | {total:.0f} | {worked:.0f} |"
