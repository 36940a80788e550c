"""A gateway tells its server the requests of services."""

from __future__ import annotations

from tests.gateway.conftest import GatewayTown
from tests.routers.town import request
from windlass.gateway.router import GatewayRouter


async def test_a_gateway_tells_the_requests_of_services_that_had_some(town: GatewayTown):
    router: GatewayRouter = town.router  # type: ignore[assignment]
    await town.shop(await town.instance("one"))
    assert await router.traffic() == ()
    for _ in range(3):
        await town.ask(request())
    (told,) = await router.traffic()
    assert (told.service, told.requests, told.active) == ("shop", 3, 0)
    assert told.answers == (0, 0, 3, 0, 0, 0)
    assert sum(told.buckets) > 0
    assert told.seconds > 0
