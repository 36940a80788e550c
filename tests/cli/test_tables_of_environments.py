"""Services, stages and rollbacks of environments for people: each row says which service it means."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.test_tables_of_runs import columns, shown
from windlass.cli.lists import show_list
from windlass.cli.overviews import SERVICES

ID = "6f1c1f0a-0000-4b8e-9d43-6f4a5a0f7a11"
OTHER = "6f1c1f0a-0000-4b8e-9d43-6f4a5a0f7a12"
WHEN = "2020-01-31T12:00:00.000Z"


def service(name: str, environment: str, project: str = "shop") -> dict[str, Any]:
    return {
        "id": ID, "name": name, "state": "RUNNING", "url": "", "service_type": "DATABASE",
        "environment_name": environment, "project_name": project,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("second", "rows"),
    [
        (service("db", "staging"), [["NAME", "ENVIRONMENT"], ["db", "production"], ["db", "staging"]]),
        (
            service("db", "production", "mail"),
            [["NAME", "ENVIRONMENT", "PROJECT"], ["db", "production", "shop"], ["db", "production", "mail"]],
        ),
        (service("web", "staging"), [["NAME", "STATE"], ["db", "RUNNING"], ["web", "RUNNING"]]),
    ],
)
def test_services_of_one_name_are_told_apart_by_their_environment_and_project(
    second, rows, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "80")
    show_list(SERVICES, [service("db", "production"), second])
    lines = capsys.readouterr().out.splitlines()
    assert [columns(line)[: len(rows[0])] for line in lines] == rows


def test_a_list_of_stages_names_the_services_of_each():
    staged = {"service_id": ID, "service_name": "web", "service_type": "APPLICATION", "is_skipped": False}
    stages = [
        {
            "id": ID, "name": "default-applications", "description": "New applications are placed here",
            "created_at": WHEN, "deployment_order": 1,
            "services": [staged, staged | {"service_name": "mail", "is_skipped": True}],
        },
        {"id": OTHER, "name": "last", "created_at": WHEN, "deployment_order": 2, "services": []},
    ]  # fmt: skip
    head, first, second, *_ = shown(
        {"results": stages}, "stage", "list", "--environment", ID
    ).out.splitlines()
    assert columns(head)[:2] == ["NAME", "SERVICES"]
    assert columns(first)[:2] == ["default-applications", "web, mail (skipped)"]
    assert columns(second)[0] == "last"


def test_the_difference_of_an_environment_has_its_variables_and_what_becomes_of_each_service():
    colour = {
        "subject": "VARIABLE", "scope": "ENVIRONMENT", "key": "COLOUR", "change": "CHANGE",
        "present": "green", "former": "red", "goes_back": True, "reason": "",
    }  # fmt: skip
    web = {
        "service_id": ID, "service_name": "web", "deployment_id": OTHER, "number": 3, "same_build": False,
        "git_commit_id": "51036d9b82ebdac5", "settings_known": True, "missing": ["KEY"],
        "changes": [colour | {"scope": "APPLICATION", "key": "LEVEL", "present": None, "former": "info"}],
        "is_deployed": True,
    }  # fmt: skip
    db = web | {"service_name": "db", "same_build": True, "changes": [], "missing": [], "is_deployed": False}
    mail = db | {"service_name": "mail", "deployment_id": None, "number": 0, "reason": "It is newer"}
    answer = {"environment_id": ID, "changes": [colour], "missing": [], "services": [web, db, mail]}
    lines = shown(answer, "environment", "rollback-difference", ID).out.splitlines()
    assert ["ENVIRONMENT", "COLOUR", "green", "red", "goes back"] in [columns(line) for line in lines]
    at = lines.index(next(line for line in lines if line.startswith("SERVICE")))
    assert [columns(line) for line in lines[at + 1 : at + 4]] == [
        ["web", "v3", "51036d9b", "is deployed"],
        ["db", "v3", "the same", "runs as it did then"],
        ["mail", "-", "-", "It is newer"],
    ]
    assert ["APPLICATION", "LEVEL", "-", "info", "goes back"] in [columns(line) for line in lines[at:]]
    assert lines[-1] == "Create these secrets again first, because they were deleted since: KEY"
