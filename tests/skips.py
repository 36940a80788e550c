"""In CI, a skipped test is a failure: a pytest plugin."""

import os

import pytest

SKIPPED = 10
"""The exit status of pytest if tests were skipped: not that of failed tests, which .ci/steady runs again."""


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    if skipped_in_ci(session.config) and exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
        session.exitstatus = SKIPPED


def pytest_terminal_summary(terminalreporter, config):
    if skipped := skipped_in_ci(config):
        terminalreporter.section("skipped in CI, which is a failure", red=True)
        for report in skipped:
            terminalreporter.line(f"{report.nodeid}: {reason(report)}", red=True)


def skipped_in_ci(config):
    reporter = config.pluginmanager.get_plugin("terminalreporter")  # absent in the workers of xdist
    return reporter.stats.get("skipped", []) if reporter and os.environ.get("CI") else []


def reason(report):
    return report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
