"""The answer to each operation, under `/compat`, has the type that the published client declares for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.compat.npm import HERE, install_packages
from tests.derived.operations import OPERATIONS
from tests.derived.stage import Stage, staged
from tests.interface.coverage import route
from windlass.core.declare.operations import Operation


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    install_packages()
    async with staged("") as made:
        yield made


async def answered(stage: Stage, operation: Operation) -> dict[str, Any] | None:
    """Returns the answer to an operation, as the check reads it; None if it has no JSON."""
    stage.plot.make_room()
    subject = await stage.plot.subject(operation)
    answer = await stage.ask(subject, subject.tenant.admin, base="/compat")
    assert answer.status == subject.status, (operation.id, answer)
    is_json = answer.headers.get("content-type", "").startswith("application/json")
    if answer.status >= 300 or not answer.body or not is_json:
        return None
    method, _, path = route(operation.method, operation.path).partition(" ")
    return {"method": method, "path": path, "body": answer.json}


async def checked(answers: list[dict[str, Any]]) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        "node", "declared.mjs", cwd=HERE,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate(json.dumps(answers).encode())
    assert process.returncode == 0, err.decode()
    report: dict[str, Any] = json.loads(out)
    return report


@pytest.mark.slow
async def test_each_operation_answers_with_the_type_that_the_published_client_declares(stage: Stage):
    answers = [found for operation in OPERATIONS if (found := await answered(stage, operation))]
    report = await checked(answers)
    assert report["problems"] == []
    assert len(report["control"]) == 3, "the check of the answers finds nothing"
    assert (report["known"] > 500, report["checked"] > 250) == (True, True), report
