"""Servers that share a Docker engine and a database: one puts a service to sleep, and any other wakes it."""

from __future__ import annotations

import pytest

from tests.running.test_logs_of_replicas import replicas  # noqa: F401 (a fixture)
from tests.running.test_place_owner import look as renew
from tests.running.test_sleep import ASLEEP, AWAKE, MINUTE, deployed, look, routed, seen, settings, used, wake
from tests.world import World
from windlass.routers.router import Absence

pytestmark = pytest.mark.slow


@pytest.fixture
async def pair(replicas: tuple[World, World]) -> tuple[World, World, str]:  # noqa: F811
    """Two servers with gateways of their own, and an application that sleeps after a quarter of an hour."""
    first, second = replicas
    app = await deployed(first)
    await settings(first, app, after_minutes=15)
    await routed(second)
    for world in replicas:
        await look(world)
    return first, second, app


async def later(minutes: float, acting: World, other: World) -> None:
    """Lets time pass, in which both servers renew their lease, and one of them looks at the requests."""
    acting.clock.turn(minutes * MINUTE)
    await renew(acting, other)
    await look(acting)


async def test_one_server_puts_a_service_to_sleep_and_another_one_wakes_it(pair: tuple[World, World, str]):
    first, second, app = pair
    await later(15, first, second)
    assert await seen(second, app) == ASLEEP
    await routed(second)
    assert {route.absence for route in second.router.routes[app]} == {Absence.SLEEPING}
    await wake(second, app)
    assert await seen(first, app) == AWAKE
    for world in (first, second):
        await routed(world)
        assert all(route.endpoints for route in world.router.routes[app])


async def test_a_use_that_another_servers_gateway_has_seen_keeps_a_service_awake(
    pair: tuple[World, World, str],
):
    first, second, app = pair
    used(second, app, 1)
    await later(10, second, first)
    await later(5, first, second)
    assert await seen(first, app) == AWAKE
    await later(10, first, second)
    assert await seen(first, app) == ASLEEP


async def test_both_gateways_ask_at_once_and_it_is_woken_once(pair: tuple[World, World, str]):
    first, second, app = pair
    await later(15, second, first)
    begun = first.engine.begun
    for world in (first, second):
        world.router.ask_wakes([app])
    await first.installation.sleepers.wake_asked()
    await second.installation.sleepers.wake_asked()
    await second.settle()
    await first.settle()
    assert await seen(first, app) == AWAKE
    assert first.engine.begun == begun + 1
