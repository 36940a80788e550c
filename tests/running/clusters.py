"""Clusters with fake engines, for the tests of places."""

from __future__ import annotations

from typing import Any

from tests.fakes.engine import FakeEngine
from tests.world import FakeConnector, World

STRANGER = "99999999-aaaa-4aaa-8aaa-000000000009"
HTTP = {"internal_port": 8080, "protocol": "HTTP", "publicly_accessible": True}
TCP = {"internal_port": 5432, "external_port": 9432, "protocol": "TCP", "publicly_accessible": True}
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n"
TLS: dict[str, Any] = {
    "engine": "DOCKER",
    "engine_address": "tcp://10.0.0.5:2376",
    "engine_ca_certificate": PEM,
    "engine_certificate": PEM,
    "engine_key": KEY,
}


def connector(world: World) -> FakeConnector:
    found = world.installation.ctx.places._connector
    assert isinstance(found, FakeConnector)
    return found


async def cluster(world: World, name: str = "east", **fields: Any) -> str:
    return await world.made(f"/organization/{world.org}/cluster", {"name": name} | (fields or TLS))


async def application_on(world: World, cluster: str, **fields: Any) -> str:
    project = await world.made(f"/organization/{world.org}/project", {"name": world.name("project")})
    environment = await world.made(
        f"/project/{project}/environment", {"name": world.name("env"), "cluster_id": cluster}
    )
    return await world.application(environment, **fields)


async def deploy(world: World, app: str) -> None:
    assert (await world.post(f"/application/{app}/deploy")).status == 202
    await world.settle()
    assert await world.state(f"/application/{app}") == "RUNNING"


def engine_of(world: World, cluster: str) -> FakeEngine:
    return connector(world).engines[cluster]


async def status(world: World, cluster: str) -> Any:
    return await world.get(f"/organization/{world.org}/cluster/{cluster}/status")
