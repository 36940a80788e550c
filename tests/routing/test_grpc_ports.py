"""Public ports of gRPC are reached by HTTP/2, others by HTTP/1.1."""

from __future__ import annotations

import pytest

from tests.world import make_world


@pytest.fixture
async def world(database_url):
    async with make_world(database_url) as made:
        yield made


async def test_only_ports_of_grpc_get_requests_by_http2(world) -> None:
    ports = [
        {"internal_port": 8080, "publicly_accessible": True, "protocol": "HTTP", "is_default": True},
        {"internal_port": 9090, "publicly_accessible": True, "protocol": "GRPC", "name": "calls"},
    ]
    app = await world.application(ports=ports)
    await world.post(f"/application/{app}/deploy")
    await world.settle()
    speaks = {
        route.endpoints[0].port: route.speaks_http2 for route in world.router.routes[app] if route.hosts
    }
    assert sorted(speaks.values()) == [False, True]
    by_name = {route.port: route.speaks_http2 for route in world.router.routes[app] if route.hosts}
    assert by_name["calls"]
