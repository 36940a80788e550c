"""A service that is created can be deployed, or its status says from the start why its engine cannot run it.

Settings that no engine could follow are refused when a service is created or changed.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.engine import FakeEngine
from tests.process.databases.test_databases import machine, postgresql
from tests.world import REPOSITORY, World, make_world
from windlass.core.deploy import databases
from windlass.engines.engine import EngineLimits
from windlass.process.databases import NativeDatabases

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
UDP = {"internal_port": 53, "protocol": "UDP"}
DATA = {"size": 1, "mount_point": "/data"}
SHARED = {"storage": [DATA], "min_running_instances": 2, "max_running_instances": 2}
LIMITS = EngineLimits(cpu=2000, memory=4096, gpu=0, least_cpu=10, least_memory=6)
SETTINGS: list[dict[str, Any]] = [
    {},
    {"entrypoint": "sh -c 'exec run'"},
    {"entrypoint": "sh -c 'exec"},
    {"storage": [{"size": 1, "mount_point": "/data"}, {"size": 1, "mount_point": "/other"}]},
    {"storage": [{"size": 1, "mount_point": "/data"}, {"size": 1, "mount_point": "/data/"}]},
    {"storage": [{"size": 1, "mount_point": "//"}]},
    *({"storage": [{"size": 1, "mount_point": path}]} for path in ("/a/../b", "/./a", "/..")),
    *({"healthchecks": {"readiness_probe": {"type": {kind: {}}}}} for kind in ("tcp", "http", "grpc")),
    {"healthchecks": {"readiness_probe": {"type": {"http": {}}}}, "ports": [{"internal_port": 80}]},
    {"healthchecks": {"liveness_probe": {"type": {"tcp": {"port": 80}}}}, "ports": [{"internal_port": 80}]},
    {"healthchecks": {"readiness_probe": {"type": {"exec": {"command": ["true"]}}}}, "ports": [UDP]},
    {"ports": [UDP | {"publicly_accessible": True}]},
    *({"cpu": cpu} for cpu in (9, 10, 2000, 2001)),
    *({"memory": memory} for memory in (5, 6, 4096, 4097)),
    *({"gpu": gpu} for gpu in (0, 1)),
    SHARED,
    {"storage": [DATA], "min_running_instances": 1, "max_running_instances": 2},
]
PROGRAMS = [
    (family, own | more) for family, own in (("application", GIT), ("container", IMAGE)) for more in SETTINGS
]


@asynccontextmanager
async def world_with(takes: Any, tmp_path: Path):
    postgresql(tmp_path, f"{HERE}.4")
    servers = NativeDatabases(tmp_path / "home", machine(tmp_path))
    engine = FakeEngine(takes)
    engine.limits = LIMITS
    async with make_world(engine=engine, servers=servers) as world:
        yield world


async def outcome(world: World, environment: str, family: str, body: dict[str, Any]) -> str:
    """Creates and deploys a service. Returns REFUSED if it is not created, and otherwise its final state.
    A refusal names a field, and the reason of an engine is in the status before the deployment."""
    answer = await world.post(f"/environment/{environment}/{family}", {"name": world.name("one")} | body)
    if answer.status == 400:
        assert answer.message.partition(":")[0].partition(".")[0].partition("[")[0] in body, answer
        return "REFUSED"
    assert answer.status == 201, answer
    path = f"/{family}/{answer['id']}"
    foretold = (await world.get(f"{path}/status"))["message"]
    assert (await world.post(f"{path}/deploy")).status == 202
    await world.settle()
    state, message = await world.state(path), (await world.get(f"{path}/status"))["message"]
    assert state == ("ERROR" if foretold else "RUNNING"), (body, foretold, message)
    assert foretold in message
    return state


@pytest.mark.parametrize("takes", ["native", "image"])
@pytest.mark.parametrize("rows", [DATABASES, PROGRAMS], ids=["databases", "programs"])
async def test_a_created_service_runs_or_fails_for_the_reason_that_its_status_gave_before(
    tmp_path, takes, rows
):
    async with world_with(takes, tmp_path) as world:
        environment = await world.environment()
        outcomes = {await outcome(world, environment, family, body) for family, body in rows}
        refused = {"REFUSED"} if rows is PROGRAMS else set()
        assert outcomes == {"RUNNING"} | refused | ({"ERROR"} if takes == "native" else set())


@pytest.mark.parametrize("path", ["/", "/a/../b", "/a/../../b", "/./a", "/.."])
async def test_an_ambiguous_volume_mount_path_is_refused(tmp_path, path):
    async with world_with("image", tmp_path) as world:
        environment = await world.environment()
        for family, own in (("application", GIT), ("container", IMAGE)):
            storage = [DATA, {"size": 1, "mount_point": path}]
            answer = await world.post(
                f"/environment/{environment}/{family}", {"name": "one", "storage": storage} | own
            )
            assert (answer.status, answer.message.partition(" a ")[0]) == (
                400,
                "storage[1].mount_point: must be",
            )


@pytest.mark.parametrize("path", ["/proc", "//sys/", "/dev/shm"])
async def test_a_volume_over_a_file_system_of_the_kernel_is_refused(tmp_path, path):
    async with world_with("image", tmp_path) as world:
        environment = await world.environment()
        for family, own in (("application", GIT), ("container", IMAGE)):
            storage = [DATA, {"size": 1, "mount_point": path}]
            body = {"name": "one", "storage": storage} | own
            answer = await world.post(f"/environment/{environment}/{family}", body)
            assert (answer.status, "belongs to the system" in answer.message) == (400, True)
            storage[1]["mount_point"] = f"/data{path}"
            assert (await world.post(f"/environment/{environment}/{family}", body)).status == 201


async def test_an_installable_but_missing_database_version_is_accepted_and_its_deployment_gives_advice(
    tmp_path,
):
    async with world_with("native", tmp_path) as world:
        database = await world.database(version="11")
        assert (await world.post(f"/database/{database}/deploy")).status == 202
        await world.settle()
        assert await world.state(f"/database/{database}") == "ERROR"
        message = (await world.get(f"/database/{database}/status"))["message"]
        assert f"Set the version to {HERE} or `latest`" in message


async def test_a_service_with_more_cpu_than_the_engine_has_can_still_be_edited(tmp_path):
    """The engine may have had more when the service was created."""
    async with world_with("native", tmp_path) as world:
        app = await world.application(cpu=2000)
        world.engine.limits = replace(LIMITS, cpu=1000)
        assert (await world.patch(f"/application/{app}", {"memory": 1024})).status == 200
        refused = await world.patch(f"/application/{app}", {"cpu": 1500})
        assert (refused.status, refused.message) == (
            400,
            "cpu: must be at most 1000: the engine of this cluster has 1000 thousandths of a core",
        )
        assert (await world.patch(f"/application/{app}", {"cpu": 1000})).status == 200


@pytest.mark.parametrize("ports", [[{"internal_port": 80}], [UDP | {"internal_port": 81}]])
async def test_a_probe_of_an_undeclared_port_fails_the_deployment_with_advice(tmp_path, ports):
    probe = {"healthchecks": {"readiness_probe": {"type": {"tcp": {"port": 81}}}}}
    async with world_with("native", tmp_path) as world:
        app = await world.application(ports=ports, **probe)
        await world.post(f"/application/{app}/deploy")
        await world.settle()
        message = (await world.get(f"/application/{app}/status"))["message"]
        assert message.startswith("healthchecks.readiness_probe: add port 81 to `ports`")
        assert not world.engine.applied


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"cpu": 9}, "cpu"),
        ({"cpu": 2001}, "cpu"),
        ({"memory": 5}, "memory"),
        ({"memory": 4097}, "memory"),
        ({"gpu": 1}, "gpu"),
    ],
)
async def test_a_size_beyond_the_engine_is_refused_when_a_service_is_created_or_changed(
    tmp_path, body, field
):
    async with world_with("native", tmp_path) as world:
        environment, app = await world.environment(), await world.application()
        path = f"/environment/{environment}/application"
        created = await world.post(path, GIT | {"name": "another"} | body)
        for answer in (created, await world.patch(f"/application/{app}", body)):
            assert answer.status == 400
            assert answer.message.startswith(f"{field}: ")
