"""Output that a program or a build step chooses does not keep the server busy: one pass finds the remedy.

Nothing else runs in the server while it searches. An expression that begins anew at each word would take
minutes for the output below.
"""

from __future__ import annotations

import pytest

from tests.tables import rows
from windlass.builders.remedies import build_remedy
from windlass.engines.start_remedies import LOOKED_AT, database_remedy, remedy_of

FILLERS = [
    "connection broken by ",
    "1 Requires-Python >=3 ",
    "Because a.a-a.",
    "execute of template failed",
    "Node.js version ",
    "Could not open requirements file: a'",
    "org.springframework",
    "TemplateResponse(",
    "PSQLException: Connection to localhost:1 refused",
    "in _execute_child FileNotFoundError: [Errno 2] a",
    "open /a/",
    "a.",
    "1",
    "A_",
]


@pytest.mark.timeout(30)
@rows("filler", FILLERS)
def test_the_last_lines_of_a_build_are_examined_in_one_pass(filler: str) -> None:
    line = (filler * 1000)[:1000]
    build_remedy(1, [line] * 200)
    build_remedy(1, [line * 128], is_image=True)


@pytest.mark.timeout(30)
@rows("filler", FILLERS)
def test_the_last_lines_of_a_program_are_examined_in_one_pass(filler: str) -> None:
    output = [(filler * 16_000)[:16_000]] * LOOKED_AT
    remedy_of("exited with code 1", "shop", output)
    database_remedy("shop", output)


def test_parts_of_an_error_that_are_far_apart_are_found() -> None:
    far = ["x" * 100] * 50
    assert "Python that" not in build_remedy(1, ["2.1 Requires-Python >=3.12", *far])
    version = build_remedy(
        1, ["2.1 Requires-Python >=3.12", *far, "No matching distribution found for a==2.1"]
    )
    assert version.startswith("Set language_version to 3.12")
    other = build_remedy(1, ["2.2 Requires-Python >=3.12", *far, "No matching distribution found for a==2.1"])
    assert other.startswith("Correct a==2.1")
    away = ["connection broken by NewConnectionError", *far, "(from versions: none)"]
    assert "could not be reached" in build_remedy(1, away)
    refused = "PSQLException: Connection to localhost:5432 refused"
    for lines in (
        ["org.springframework.boot", *far[:40], refused],
        [refused, *far[:40], "org.springframework.boot"],
    ):
        assert "SPRING_DATASOURCE_URL" in remedy_of("", "shop", lines)
