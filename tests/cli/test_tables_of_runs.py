"""Runs, due times, plans and registries for people: the columns that they look for come first."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.cli.listener import listening
from tests.cli.said import Said, say

JOB = "6f1c1f0a-0000-4b8e-9d43-6f4a5a0f7a11"
RUN = "6f1c1f0a-0000-4b8e-9d43-6f4a5a0f7a12"
WHEN = "2020-01-31T12:00:00.000Z"


def shown(answer: Any, *words: str) -> Said:
    with listening() as server:
        server.answer = (200, {}, json.dumps(answer).encode())
        return say(*words, "--text", url=server.url, width=120)


def columns(line: str) -> list[str]:
    return re.split("  +", line.strip())


def test_a_list_of_runs_says_how_each_ended_and_how_long_it_took():
    row = {
        "id": RUN, "job_id": JOB, "number": 7, "status": "FAILED", "cause": "SCHEDULE", "event": "CRON",
        "message": "exited with code 3", "created_at": WHEN, "updated_at": WHEN, "started_at": WHEN,
        "duration_seconds": 12.5, "exit_code": 3, "deployment_id": JOB, "output": ["one", "two"],
    }  # fmt: skip
    head, line = shown({"results": [row]}, "job-run", "list", "--job", JOB).out.splitlines()
    assert columns(head)[:7] == ["NUMBER", "STATUS", "CAUSE", "STARTED", "SECONDS", "EXIT", "MESSAGE"]
    assert columns(line)[:7] == ["7", "FAILED", "SCHEDULE", "2020-01-31", "12.5", "3", "exited with code 3"]


@pytest.mark.parametrize(
    ("answer", "words", "line"),
    [
        ({"clean_kubernetes_jobs": [RUN, RUN]}, "job clean-failed-job", "Deleted 2 failed runs."),
        ({"clean_kubernetes_jobs": []}, "job clean-failed-job", "There was no failed run."),
        (
            {"clean_job_ids": [JOB], "clean_kubernetes_jobs": [RUN]},
            "environment clean-failed-jobs",
            "Deleted 1 failed run of 1 job.",
        ),
        (
            {"clean_job_ids": [], "clean_kubernetes_jobs": []},
            "environment clean-failed-jobs",
            "There was no failed run.",
        ),
    ],
)
def test_a_purge_says_how_many_runs_it_has_deleted(answer: Any, words: str, line: str):
    assert shown(answer, *words.split(), JOB).out.splitlines() == [line]


def test_an_empty_answer_prints_a_notice_on_standard_error():
    said = shown({"scheduled_at": "", "timezone": "", "due_at": []}, "job", "due-times", JOB)
    assert (said.code, said.out, said.err) == (0, "", "There is nothing to show.\n")


def test_due_times_are_rows_with_the_clock_of_the_reader_and_that_of_the_job():
    answer = {
        "scheduled_at": "30 3 * * *", "timezone": "Europe/Berlin", "is_active": True,
        "due_at": ["2026-01-31T02:30:00.000Z", "2026-02-01T02:30:00.000Z"],
        "local_times": ["2026-01-31T03:30:00+01:00", "2026-02-01T03:30:00+01:00"],
    }  # fmt: skip
    lines = shown(answer, "job", "due-times", JOB).out.splitlines()
    assert columns(lines[-3]) == ["DUE AT", "LOCAL TIMES"]
    assert [columns(line)[1] for line in lines[-2:]] == [
        "2026-01-31 03:30:00 +01:00",
        "2026-02-01 03:30:00 +01:00",
    ]
    assert not re.search(r"\dT\d", "".join(lines))


def test_a_terraform_plan_is_shown_with_its_counts_and_the_text_of_the_newest_plan():
    row = {
        "deployment_id": RUN, "created_at": WHEN, "added": 1, "changed": 0, "destroyed": 2,
        "applicable": True, "resources": [{"address": "random_pet.box", "action": "create"}],
        "text": "\n  # random_pet.box will be created\n  + resource\n",
    }  # fmt: skip
    older = row | {"deployment_id": JOB, "applicable": False, "text": "an older text"}
    said = shown({"results": [row, older]}, "terraform", "plan", JOB)
    head, first, *_ = said.out.splitlines()
    assert columns(head) == ["ADDED", "DESTROYED", "APPLICABLE", "DEPLOYMENT", "CREATED"]
    assert columns(first)[:4] == ["1", "2", "yes", RUN]
    assert "  # random_pet.box will be created\n  + resource" in said.out
    assert "an older text" not in said.out


def test_a_list_of_registries_says_how_the_last_check_ended():
    row = {
        "id": JOB, "created_at": WHEN, "updated_at": WHEN, "name": "ours", "kind": "GENERIC_CR",
        "url": "https://registry.example.com", "check": {"status": "FAILED", "problem": "TLS"},
    }  # fmt: skip
    head, line = shown(
        {"results": [row]}, "container-registry", "list", "--organization", JOB
    ).out.splitlines()
    assert columns(head)[:3] == ["NAME", "STATUS", "URL"]
    assert columns(line)[:3] == ["ours", "FAILED", "https://registry.example.com"]
