"""The report of a run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.report import report_of


def passed(id: str, **properties: str) -> Any:
    return SimpleNamespace(nodeid=f"tests/{id}", duration=0.1, user_properties=[*properties.items()])


def test_the_report_has_what_tests_have_measured():
    assert "## Measured" not in report_of({"passed": [passed("quiet")]})
    report = report_of({"passed": [passed("quiet"), passed("loud", turns="0.5 s: GET /organization")]})
    assert "## Measured\n\nturns\n\n```\n0.5 s: GET /organization\n```" in report
