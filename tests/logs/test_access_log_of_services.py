"""The requests to a service are a log beside its output."""

from __future__ import annotations

import pytest

from tests.world import make_world
from windlass.routers.builtin.service_log import LoggedLine, ServiceLogs
from windlass.routers.rules import RouteLog

FORMAT = "windlass.access_log.format"


@pytest.fixture
async def world(database_url):
    async with make_world(database_url) as made:
        yield made


async def test_the_gateway_writes_where_the_log_of_requests_is_read(world):
    app = await world.application(ports=[{"internal_port": 80, "publicly_accessible": True}])
    await world.put(f"/application/{app}/advancedSettings", {FORMAT: "combined"})
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    (log,) = {route.rules.log for route in world.router.routes[app] if route.hosts}
    assert isinstance(log, RouteLog)
    assert log.form == "combined"
    gateway = ServiceLogs()
    gateway._write([(log, app, LoggedLine(world.installation.ctx.clock.now(), "GET / HTTP/1.1"))])
    await gateway.close()

    async def messages(query: str) -> list[str]:
        found = (await world.get(f"/application/{app}/log{query}"))["results"]
        return [line["message"] for line in found]

    assert await messages("?access=true") == ["GET / HTTP/1.1"]
    assert await messages("?access=true&search=POST") == []
    assert "GET / HTTP/1.1" not in await messages("")
