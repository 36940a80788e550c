"""`--wait` of a run: its log appears until it ends, and the exit code says how it ended."""

from __future__ import annotations

import pytest

from tests.cli.said import say
from tests.commands.test_linked_places import SCHEDULE, SOURCE
from tests.commands.test_stories import shop
from tests.commands.waits import meanwhile
from tests.tables import table
from windlass.cli.derived_commands import commands_of
from windlass.cli.options import options_of
from windlass.core.declare.job_runs import JobRun
from windlass.families import registry

REGISTRY = registry()
COMMANDS = [command for words in commands_of(REGISTRY).values() for command in words.values()]


@table("command", COMMANDS, lambda command: f"{command.group}-{command.word}")
def test_the_wait_option_exists_exactly_for_commands_that_start_a_deployment_or_a_run(command):
    can_wait = any("--wait" in option.opts for option in options_of(REGISTRY, command).params)
    # A request is named by its id alone, and services of a whole organization are not watched.
    has_place = command.family is not None and command.family.parent is not None
    answer = command.operation.answer
    goes_on = answer is None or answer is JobRun or "deployment_request_id" in answer.__struct_fields__
    assert can_wait == (command.operation.starts and has_place and goes_on)


def test_help_lists_the_option_to_wait_where_the_command_has_it():
    assert "--wait " in say("application", "deploy", "--help").out
    assert "--wait " not in say("application", "create", "--help").out


@pytest.fixture
async def nightly(windlass):
    """A job that is deployed."""
    await shop(windlass)
    create = ("job", "create", "--name", "nightly", "--environment", "shop/production")
    await windlass.done(*create, "--field", f"source={SOURCE}", "--field", f"schedule={SCHEDULE}")
    await windlass.done("job", "deploy", "nightly")
    await windlass.world.settle()
    return windlass


async def test_job_run_with_wait_returns_when_the_run_has_ended(nightly):
    said = await meanwhile(nightly, "job", "run", "nightly", "--wait")
    assert (said.code, said.json["number"], said.json["status"]) == (0, 1, "SUCCEEDED"), said
    said = await meanwhile(nightly, "job", "run", "nightly", "--wait", "--text")
    assert said.out.startswith("run 2 of nightly succeeded after "), said


async def test_a_run_that_fails_has_the_exit_code_1(nightly):
    async def work(wanted):
        return 3

    nightly.world.engine.work = work
    said = await meanwhile(nightly, "job", "run", "nightly", "--wait", "--text")
    assert (said.code, said.out) == (1, ""), said
    last = said.err.splitlines()[-1]
    assert last.startswith(
        "windlass: look at its output, and run it again: run 1 of nightly failed after "
    ), said
    assert last.endswith("exited with code 3"), said


async def test_a_started_run_prints_the_command_that_follows_its_log(nightly):
    said = await nightly("job", "run", "nightly", "--text")
    assert "Follow it with: windlass job-run log 1 --job nightly --follow" in said.err, said
