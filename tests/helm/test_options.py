"""A run of Helm passes on allowed options, and explains failures."""

from __future__ import annotations

import pytest

from windlass.launch.helm import hint_for, options_of_program


def test_options_of_earlier_versions_are_translated_and_those_that_tell_secrets_left_out():
    asked = ["--atomic", "--debug", "--debug=true", "--wait", "--description=--debug"]
    assert options_of_program(asked) == ["--rollback-on-failure", "--wait", "--description=--debug"]


@pytest.mark.parametrize(
    ("output", "hint"),
    [
        (
            "Error: UPGRADE FAILED: conflict occurred while applying object",
            "arguments: add --force-conflicts",
        ),
        ("Error: invalid ownership metadata; label validation error", "arguments: add --take-ownership"),
        ('namespaces is forbidden: User "x" cannot list', "allow_cluster_wide_resources: turn it on"),
        ("Error: UPGRADE FAILED: context deadline exceeded", "timeout_sec: raise it"),
        ("Error: something else", ""),
    ],
)
def test_known_failures_have_a_remedy(output: str, hint: str):
    assert hint_for(output).startswith(hint)
    assert bool(hint_for(output)) is bool(hint)
