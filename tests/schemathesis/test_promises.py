"""Every operation does what the document says: schemathesis looks for a request that proves otherwise.

The fixed form tries every third operation on SQLite, and every sixth one with a few of the cases that its
schema asks for: one server and one generator of the document keep these promises for all. The long form tries
each operation with all of them, on both databases.
`SEED=2 EXAMPLES=100 make nightly TESTS=tests/schemathesis` looks elsewhere, and longer.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys

import jsonschema_rs
import pytest
from schemathesis.core.jsonschema.patterns import update_quantifier

from tests.documented import DOCUMENT, Document, within
from tests.marks import either
from tests.schemathesis.serving import served
from tests.schemathesis.town import Holding, Town
from tests.schemathesis.trial import EVERYTHING, PHASES, Report, Trial
from tests.world import make_world
from windlass.families import registry

SEED = int(os.environ.get("SEED", "1"))
EXAMPLES = int(os.environ.get("EXAMPLES", "0")) or either(1, 10)
"""Number of generated cases for each operation, besides those that its schema requires."""
COVERING = either(2, None)
"""Number of cases that the coverage phase tries for an operation."""
ALONE, COVERED = EVERYTHING[:: either(3, 1)], EVERYTHING[:: either(6, 1)]
"""The operations that are tried by themselves, and those of them that the coverage phase tries. Stories are
made of all operations that create things."""
FEW = either(0.15, 0)
"""The share of operations that may be tried without success: in a few cases of each, some have no luck."""
ENOUGH = either(400, 10_000)
"""Cases on each database."""
NOTHING_ABOVE = {"overrideProjectEnvironmentVariable", "overrideProjectSecret"}
"""Operations that never succeed: a project inherits no variables, so there the answer is always 409."""

_ECMA_PATTERN = jsonschema_rs.Draft202012Validator({"format": "regex"}, validate_formats=True)


@pytest.mark.timeout(either(900, 3600) + 90 * EXAMPLES)
@pytest.mark.slow
async def test_the_server_keeps_every_promise_of_its_document(database_url, capsys):
    kept_in_postgres = bool(database_url)
    base = "/api/v1" if kept_in_postgres else ""  # both servers of the document, one on each database
    async with make_world(database_url, engine=Holding(), parallel_deployments=40) as world:
        town = Town(world)
        await town.build()
        await world.installation.start()
        async with served(world) as address:
            trial = Trial(
                address,
                town,
                seed=SEED,
                examples=EXAMPLES,
                base=base,
                alone=ALONE,
                covered=COVERED,
                most=COVERING,
            )
            report = await asyncio.to_thread(trial.run)
    with capsys.disabled():
        print(_summary("PostgreSQL" if kept_in_postgres else "SQLite", report), file=sys.stderr, flush=True)
    assert not report.complaints, "\n\n".join(report.complaints[:10])
    assert report.cases.total() >= ENOUGH
    assert all(report.cases[phase] >= 25 for phase in PHASES), report.cases
    never = _never_succeeded(report)
    assert never >= NOTHING_ABOVE.intersection(ALONE)
    assert len(never - NOTHING_ABOVE) <= FEW * len(ALONE), never


def _never_succeeded(report: Report) -> set[str]:
    """If one never does, no real thing was tried: then the promise is empty."""
    return {
        operation.id
        for operation in registry().operations
        if operation.id in ALONE
        and not report.answers[f"{operation.method} {operation.path}"][operation.status]
    }


def _summary(database: str, report: Report) -> str:
    phases = ", ".join(f"{phase} {count}" for phase, count in report.cases.items())
    return f"\nschemathesis: {report.cases.total()} cases on {database} with seed {SEED} ({phases})"


def test_patterns_of_the_document_use_no_classes_that_python_and_ecmascript_read_differently():
    """Python reads `\\s`, `\\d`, `\\w` and `\\b` in its own way, JSON Schema as ECMA 262 does."""
    patterns = [part["pattern"] for part in within(DOCUMENT) if isinstance(part.get("pattern"), str)]
    assert len(patterns) > 50
    assert [pattern for pattern in patterns if re.search(r"(?<!\\)(\\\\)*\\[sSdDwWbB]", pattern)] == []


def test_patterns_of_the_document_stay_valid_when_schemathesis_adds_the_length():
    """schemathesis writes invisible characters of higher planes with Python's escapes, unlike ECMA 262."""
    assert _unreadable({"pattern": "^[^\U000e0000-\U000e007f]*$", "maxLength": 9})
    assert [
        part for part in within(DOCUMENT) if isinstance(part.get("pattern"), str) and _unreadable(part)
    ] == []


def _unreadable(part: Document) -> bool:
    written = update_quantifier(part["pattern"], part.get("minLength"), part.get("maxLength"))
    return not _ECMA_PATTERN.is_valid(written)
