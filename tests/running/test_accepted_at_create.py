"""What an engine cannot run is refused when it is created or changed; the rest can be deployed."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.builders.test_databases import machine, postgresql
from tests.fakes.engine import FakeEngine
from tests.world import REPOSITORY, World, make_world
from windlass.builders.databases import NativeDatabases
from windlass.core.deploy import databases

GIT = {"git_repository": {"url": REPOSITORY}}
IMAGE = {"image_name": "nginx", "tag": "1"}
HERE = "16"
"""The only version of PostgreSQL, and the only database server, of the machine in these tests."""
DATABASES = [
    ("database", {"type": type, "version": version, "mode": mode})
    for type in ("POSTGRESQL", "MONGODB")
    for version in ("latest", HERE)
    for mode in databases.MODES
]
SETTINGS: list[dict[str, Any]] = [
    {},
    {"entrypoint": "sh -c 'exec run'"},
    {"entrypoint": "sh -c 'exec"},
    {"storage": [{"size": 1, "mount_point": "/data"}, {"size": 1, "mount_point": "/other"}]},
    {"storage": [{"size": 1, "mount_point": "/data"}, {"size": 1, "mount_point": "/data/"}]},
    {"storage": [{"size": 1, "mount_point": "//"}]},
    *({"healthchecks": {"readiness_probe": {"type": {kind: {}}}}} for kind in ("tcp", "http", "grpc")),
    {"healthchecks": {"readiness_probe": {"type": {"http": {}}}}, "ports": [{"internal_port": 80}]},
    {"healthchecks": {"liveness_probe": {"type": {"tcp": {"port": 80}}}}},
]
PROGRAMS = [
    (family, own | more) for family, own in (("application", GIT), ("container", IMAGE)) for more in SETTINGS
]


@asynccontextmanager
async def world_with(takes: Any, tmp_path: Path):
    postgresql(tmp_path, f"{HERE}.4")
    servers = NativeDatabases(tmp_path / "home", machine(tmp_path))
    async with make_world(engine=FakeEngine(takes), servers=servers) as world:
        yield world


async def is_accepted(world: World, environment: str, family: str, body: dict[str, Any]) -> bool:
    """Creates a service: one that is accepted runs, and a refusal names a field of it."""
    answer = await world.post(f"/environment/{environment}/{family}", {"name": world.name("one")} | body)
    if answer.status == 400:
        assert answer.message.partition(":")[0].partition(".")[0].partition("[")[0] in body, answer
        return False
    assert answer.status == 201, answer
    path = f"/{family}/{answer['id']}"
    assert (await world.post(f"{path}/deploy")).status == 202
    await world.settle()
    assert await world.state(path) == "RUNNING", (body, (await world.get(f"{path}/status"))["message"])
    return True


@pytest.mark.parametrize("takes", ["native", "image"])
@pytest.mark.parametrize("rows", [DATABASES, PROGRAMS], ids=["databases", "programs"])
async def test_accepted_services_can_be_deployed_and_refusals_name_the_field(tmp_path, takes, rows):
    async with world_with(takes, tmp_path) as world:
        environment = await world.environment()
        accepted = [await is_accepted(world, environment, family, body) for family, body in rows]
        assert any(accepted)
        assert all(accepted) == (takes == "image" and rows is DATABASES)


async def test_a_version_that_can_be_installed_is_accepted_and_its_deployment_says_what_to_do(tmp_path):
    async with world_with("native", tmp_path) as world:
        database = await world.database(version="11")
        assert (await world.post(f"/database/{database}/deploy")).status == 202
        await world.settle()
        assert await world.state(f"/database/{database}") == "ERROR"
        message = (await world.get(f"/database/{database}/status"))["message"]
        assert f"Set the version to {HERE} or `latest`" in message
