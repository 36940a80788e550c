"""The list of services tells which of them answer requests with errors now, as far as this server knows."""

from __future__ import annotations

import pytest

from tests.running.deployments import deployed
from tests.world import World
from windlass.base.clock import MINUTE, SECOND
from windlass.control.context.usage_history import INTERVAL_MS


async def share(world: World) -> float | None:
    (service,) = (await world.get(f"/organization/{world.org}/services"))["results"]
    found: float | None = service["error_share"]
    return found


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ({"5xx": 2.0}, 1.0),
        ({"5xx": 1.0, "2xx": 1.0, "4xx": 1.0, "none": 1.0}, 0.25),
        ({"2xx": 1.0}, 0.0),
        ({}, None),
        ({"p50": 3.0}, None),
    ],
)
async def test_the_error_share_of_a_service_is_its_5xx_share_of_recent_requests(
    world: World, rates, expected
):
    app = await deployed(world)
    assert await share(world) is None  # no request is no error
    world.installation.ctx.usage.note_requests(world.clock.now(), {app: rates} if rates else {})
    assert await share(world) == expected


async def test_errors_older_than_five_minutes_do_not_count_in_the_error_share(world: World):
    app = await deployed(world)
    usage = world.installation.ctx.usage
    usage.note_requests(world.clock.now(), {app: {"5xx": 1.0}})
    world.clock.turn(4 * MINUTE / SECOND)
    assert await share(world) == 1.0
    usage.note_requests(world.clock.now(), {app: {"2xx": 3.0}})
    assert await share(world) == 0.25
    world.clock.turn(2 * MINUTE / SECOND)
    assert await share(world) == 0.0
    world.clock.turn(5 * MINUTE / SECOND + INTERVAL_MS / SECOND)
    assert await share(world) is None


async def test_requests_to_other_services_do_not_count_in_the_error_share(world: World):
    await deployed(world)
    world.installation.ctx.usage.note_requests(world.clock.now(), {"another": {"5xx": 1.0}})
    assert await share(world) is None
