"""Ports on which servers answer the API are never ports of services."""

from __future__ import annotations

from pathlib import Path

from tests.running.deployments import deploy
from tests.world import World, make_world

API, FREE = 8187, 8189
KEY = "ab" * 32


async def serve_once(url: str, folder: Path, port: int) -> None:
    """A server was started with this port, and stopped."""
    folder.mkdir(exist_ok=True)
    async with make_world(url, folder=folder, port=port, key=KEY) as world:
        await world.installation.start()


async def outcome(world: World, port: int) -> tuple[str, str]:
    """The state and message of a service that was deployed with this external port."""
    public = {"internal_port": 8080, "external_port": port, "protocol": "TCP", "publicly_accessible": True}
    app = await world.application(ports=[public])
    await deploy(world, app)
    await world.settle()
    status = await world.get(f"/application/{app}/status")
    return status["state"], status["message"]


async def test_a_service_cannot_get_the_api_port_of_a_stopped_server(database_url: str, tmp_path: Path):
    """The gateway goes on meanwhile, and would listen there. The second service is the control."""
    await serve_once(database_url, tmp_path, API)
    async with make_world(database_url, folder=tmp_path, port=FREE, key=KEY) as world:
        state, message = await outcome(world, API)
        assert (state, f"{API} is the API port of Windlass" in message) == ("ERROR", True)
        assert await outcome(world, FREE + 1) == ("RUNNING", "")


async def test_a_service_keeps_its_port_if_another_server_is_later_configured_with_it(
    postgres_url: str, tmp_path: Path
):
    """They may listen at different addresses."""
    async with make_world(postgres_url, folder=tmp_path, key=KEY) as world:
        assert await outcome(world, API) == ("RUNNING", "")
        (app,) = {key[0] for key in world.engine.instances}
        await serve_once(postgres_url, tmp_path / "two", API)
        await deploy(world, app)
        await world.settle()
        assert await world.state(f"/application/{app}") == "RUNNING"
