"""The line after a wait says what was done: a plan, for instance, deploys nothing."""

from __future__ import annotations

import pytest

from windlass.cli.deployments import EndedDeployment, StartedDeployment, summary


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("TERRAFORM_PLAN_ONLY", "is planned, and nothing is changed"),
        ("TERRAFORM_FORCE_UNLOCK_STATE", "has no lock on its state now"),
        ("TERRAFORM_MIGRATE_STATE", "has its state in the present backend now"),
        ("TERRAFORM_PLAN_AND_APPLY", "is deployed"),
        ("NONE", "is deployed"),
    ],
)
def test_only_a_run_that_applies_says_that_the_service_is_deployed(action, words):
    when = "2020-01-31T12:00:00.000Z"
    deployment = {
        "action": "RUN", "status": "SUCCEEDED", "number": 3, "created_at": when, "finished_at": when,
        "status_details": {"sub_action": action},
    }  # fmt: skip
    line = summary(EndedDeployment(StartedDeployment("/terraform/id", "bucket", "id"), deployment), "")
    assert line.startswith(f"bucket {words}")
    assert line.endswith("(0.0 s, v3)")
