"""A container in which the starts of many commands hang takes no further command."""

from __future__ import annotations

import pytest

from windlass.docker.client import command_starts
from windlass.docker.client.command_starts import MAX_HANGING_COMMANDS, CommandStarts
from windlass.engines.engine import EngineError


class Asked:
    def __init__(self, *hanging: str) -> None:
        self.hanging, self.commands = hanging, list[str]()

    async def __call__(self, command: str) -> bool:
        self.commands.append(command)
        return command in self.hanging


MANY = [f"c{number}" for number in range(MAX_HANGING_COMMANDS)]


def begun(*commands: str, hanging: tuple[str, ...]) -> tuple[CommandStarts, Asked]:
    asked = Asked(*hanging)
    starts = CommandStarts(asked)
    for command in commands:
        starts.begun("a", command)
    return starts, asked


async def test_a_container_whose_commands_all_hang_takes_no_more_until_one_goes_on():
    starts, asked = begun(*MANY, hanging=(*MANY,))
    with pytest.raises(EngineError, match="the starts of others hang"):
        await starts.refuse_many("a")
    await starts.refuse_many("b")
    asked.hanging = asked.hanging[1:]
    await starts.refuse_many("a")


async def test_many_commands_that_run_are_no_obstacle():
    starts, asked = begun(*MANY, "more", hanging=())
    await starts.refuse_many("a")
    assert sorted(asked.commands) == sorted([*MANY, "more"])


async def test_the_engine_is_not_asked_about_few_commands():
    starts, asked = begun(*MANY, hanging=(*MANY,))
    starts.ended("a", MANY[0])
    await starts.refuse_many("a")
    assert asked.commands == []


async def test_a_container_rests_after_the_engine_has_not_created_a_command(monkeypatch):
    starts, _ = begun(hanging=())
    starts.rest("a")
    with pytest.raises(EngineError, match="the starts of others hang"):
        await starts.refuse_many("a")
    await starts.refuse_many("b")
    monkeypatch.setattr(command_starts, "REST_SECONDS", 0.0)
    starts.rest("a")
    await starts.refuse_many("a")
