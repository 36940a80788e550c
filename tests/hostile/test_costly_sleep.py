"""Services that may sleep cost the server a limited time, however many variables are around them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.running.test_sleep import ASLEEP, AWAKE, deployed, look, seen, settings
from tests.turns import counted_turns
from tests.world import World
from windlass.base import fair_share
from windlass.control.background import mentions
from windlass.control.variables import inputs

VARIABLES = 5


class Forgetful(dict[Any, Any]):
    """A memory that finds nothing again."""

    def __contains__(self, key: object) -> bool:
        return False

    def get(self, key: object, default: Any = None) -> Any:
        return default


async def beside_variables(world: World, number: int) -> list[str]:
    """So many services that may sleep, in an environment with variables."""
    environment = await world.environment()
    for place in range(VARIABLES):
        body = {"key": f"KEY_{place}", "value": "http://api.example.com"}
        await world.made(f"/environment/{environment}/environmentVariable", body)
    services = [await deployed(world, environment, name=f"api-{place}") for place in range(number)]
    for service in services:
        await settings(world, service, after_minutes=15)
    await look(world)
    return services


@pytest.mark.parametrize("is_remembered", [True, False])
async def test_a_look_reads_the_variables_of_an_environment_once_for_all_its_services(
    world: World, monkeypatch: pytest.MonkeyPatch, is_remembered: bool
):
    """Negative control: without a memory, they are read for each service."""
    read: list[str] = []
    original = inputs.entry_of

    def counted(ctx: Any, row: Any) -> Any:
        read.append(row.id)
        return original(ctx, row)

    monkeypatch.setattr(mentions, "entry_of", counted)
    found = world.installation.sleepers._mentions
    if not is_remembered:
        monkeypatch.setattr(found, "_kept", Forgetful())
        monkeypatch.setattr(found, "_looks", Forgetful())
    services = await beside_variables(world, 3)
    await look(world, 15)
    assert [await seen(world, service) for service in services] == [ASLEEP] * 3
    assert (len(read) == VARIABLES) is is_remembered


@pytest.mark.parametrize("minutes", [4, 5])
async def test_variables_that_change_are_read_again_after_some_minutes(world: World, minutes: int):
    """Until then, no service is put to sleep that they might mention."""
    first, second = await beside_variables(world, 2)
    environment = (await world.get(f"/application/{first}"))["environment"]["id"]
    await settings(world, second, after_minutes=15 + minutes)
    await look(world, 15)
    assert await seen(world, first) == ASLEEP
    body = {"key": "NEW", "value": "https://example.com"}
    await world.made(f"/environment/{environment}/environmentVariable", body)
    await look(world, minutes)
    assert await seen(world, second) == (AWAKE if minutes == 4 else ASLEEP)


@pytest.mark.parametrize("seconds", [0.0, 60.0])
async def test_other_requests_are_answered_while_variables_are_read(
    world: World, monkeypatch: pytest.MonkeyPatch, seconds: float
):
    """Negative control: with a long share, several variables are read in one turn."""
    await beside_variables(world, 1)
    monkeypatch.setattr(fair_share, "_TURN_SECONDS", seconds)
    original = inputs.entry_of
    async with counted_turns() as counts:

        def counted(ctx: Any, row: Any) -> Any:
            counts.add(1)
            return original(ctx, row)

        monkeypatch.setattr(mentions, "entry_of", counted)
        world.clock.turn(15 * 60)
        await world.installation.sleepers.put_unused_to_sleep()
    assert counts.total == VARIABLES
    assert (counts.most == 1) is (seconds == 0.0)
