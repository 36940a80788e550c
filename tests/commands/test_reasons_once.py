"""A command that waits prints the reason of a failed build once: at its end, with what to do."""

from __future__ import annotations

import pytest

from tests.commands.test_stories import shop
from tests.commands.waits import meanwhile
from windlass.builders.builder import BuildError


@pytest.fixture
def build(windlass, monkeypatch):
    """Lets the builder write lines, and fail if it is told why."""

    def lines_and_reason(*lines: str, reason: str = "") -> None:
        built = windlass.world.builder.build

        async def build(order, say):
            for line in lines:
                say(line)
            if reason:
                raise BuildError(reason)
            return await built(order, lambda line: None)

        monkeypatch.setattr(windlass.world.builder, "build", build)

    return lines_and_reason


async def test_the_reason_of_a_build_is_printed_once(windlass, build):
    await shop(windlass)
    build("Installing", reason="Correct flask==99 in the dependencies: there is no such version.")
    said = await meanwhile(windlass, "application", "deploy", "web", "--wait")
    assert said.code == 1
    assert "  Installing\n" in said.err
    assert said.err.count("Correct flask==99 in the dependencies") == 1, said.err


async def test_a_line_of_the_program_that_only_begins_like_a_reason_is_shown(windlass, build):
    await shop(windlass)
    build("Failed: 1 test of 3", "Failed: 2 tests of 3", reason="Correct the tests: they fail.")
    said = await meanwhile(windlass, "application", "deploy", "web", "--wait")
    assert said.code == 1
    assert said.err.index("  Failed: 1 test of 3\n") < said.err.index("  Failed: 2 tests of 3\n")


async def test_the_last_line_of_a_build_that_succeeds_is_shown(windlass, build):
    await shop(windlass)
    build("Installing", "Failed: 0 tests")
    said = await meanwhile(windlass, "application", "deploy", "web", "--wait")
    assert said.code == 0
    assert said.err.count("  Failed: 0 tests\n") == 1, said.err
