"""Failures are printed as they happen; the last lines say what was skipped and why: a pytest plugin.

In CI, a skipped test is a failure.
"""

import os
from collections import defaultdict

import pytest

SKIPPED = 10
"""The exit status of pytest if tests were skipped in CI: .ci/steady repeats only tests that failed."""
MOST_NAMES = 3
"""So many tests are named for each reason to skip."""


def pytest_sessionstart(session):
    config = session.config
    if reporter := reporter_of(config):
        config.pluginmanager.register(AsTheyHappen(reporter))


class AsTheyHappen:
    """Without it, the failures of a run of minutes are shown at its end."""

    def __init__(self, reporter):
        self._reporter = reporter

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report):
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            message = crash.message.splitlines()[0] if crash and crash.message else ""
            self._reporter.line("")
            self._reporter.line(f"FAILED {report.nodeid}: {message}"[:400], red=True)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    if skipped_in_ci(session.config) and exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
        session.exitstatus = SKIPPED


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter, config):
    if skipped := skipped_in_ci(config):
        terminalreporter.section("skipped in CI, which is a failure", red=True)
        for report in skipped:
            terminalreporter.line(f"{report.nodeid}: {reason(report)}", red=True)
    elif skipped := terminalreporter.stats.get("skipped", []):
        terminalreporter.section(f"skipped here: {len(skipped)} tests")
        for why, names in by_reason(skipped).items():
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            terminalreporter.line(f"{why}: {', '.join(names[:MOST_NAMES])}{more}")


def by_reason(skipped):
    tests = defaultdict(list)
    for report in skipped:
        tests[reason(report)].append(report.nodeid)
    return tests


def skipped_in_ci(config):
    reporter = reporter_of(config)
    return reporter.stats.get("skipped", []) if reporter and os.environ.get("CI") else []


def reporter_of(config):
    """Returns None in the workers of xdist."""
    return config.pluginmanager.get_plugin("terminalreporter")


def reason(report):
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return why.removeprefix("Skipped: ")
