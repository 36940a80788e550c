"""Ports of the machine that services may listen on for others come from a range of the operator's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.running.deployments import deploy
from tests.world import World, make_world
from windlass.control.records import ports
from windlass.control.records.ports import PORT_PREFIX
from windlass.store import Tx
from windlass.store.tables.names import NameChanges

RANGE = "30000-30002"
PUBLIC = {
    "name": "kv",
    "type": "POSTGRESQL",
    "version": "16",
    "mode": "CONTAINER",
    "accessibility": "PUBLIC",
}
TCP = {"internal_port": 5432, "protocol": "TCP", "publicly_accessible": True}


@pytest.fixture
async def world():
    async with make_world(public_ports=RANGE) as world:
        yield world


async def runs(world: World, environment: str | None = None, **port: Any) -> str:
    app = await world.application(environment, ports=[TCP | port])
    await deploy(world, app)
    await world.settle()
    return app


async def test_a_port_outside_the_public_range_is_stored_and_its_deployment_is_refused(world):
    app = await world.application(ports=[TCP | {"external_port": 5432}])
    refused = await world.post(f"/application/{app}/deploy")
    assert refused.status == 409
    assert "ports[0].external_port" in refused.message
    assert "public_ports" in refused.message
    assert RANGE in refused.message


async def test_ports_without_an_external_number_get_free_ones_and_keep_them(world):
    apps = [await runs(world) for _ in range(3)]
    numbers = [await number(world, app) for app in apps]
    assert sorted(numbers) == [30000, 30001, 30002]
    await world.post(f"/application/{apps[0]}/stop")
    await world.settle()
    await world.patch(f"/application/{apps[0]}", {"description": "changed while it is stopped"})
    assert "public_ports" in await message(world, await runs(world))
    await deploy(world, apps[0])
    await world.settle()
    assert [await number(world, app) for app in apps] == numbers


async def test_a_port_is_free_again_once_its_service_is_deleted(world):
    apps = [await runs(world) for _ in range(3)]
    free = await number(world, apps[1])
    await world.delete(f"/application/{apps[1]}")
    await world.settle()
    assert await number(world, await runs(world)) == free


async def test_a_public_database_gets_a_port_of_the_public_range(world):
    database = await world.database(accessibility="PUBLIC")
    assert (await world.get(f"/database/{database}"))["port"] in range(30000, 30003)


async def test_an_external_http_port_outside_the_public_range_is_reached_by_host_name_only(world):
    numbers = [30001, 8443]
    apps = [await runs(world, protocol="HTTP", external_port=asked) for asked in numbers]
    ports = [{link["external_port"] for link in (await links(world, app))} for app in apps]
    assert [asked in found for asked, found in zip(numbers, ports, strict=True)] == [True, False]
    assert [await message(world, app) for app in apps] == ["", ""]


async def test_already_assigned_ports_are_kept_when_the_public_range_changes(tmp_path):
    async with make_world(folder=tmp_path) as world:
        apps = [await runs(world, external_port=9432), await runs(world)]
        assert [await number(world, app) for app in apps] == [9432, before := await number(world, apps[1])]
    async with make_world(folder=tmp_path, public_ports=RANGE) as world:
        for app in apps:
            await deploy(world, app)
        await world.settle()
        assert [await number(world, app) for app in apps] == [9432, before]


async def test_a_service_with_more_than_32_public_tcp_ports_is_refused():
    async with make_world() as world:
        ports = [TCP | {"internal_port": number, "name": f"p{number}"} for number in range(1000, 1040)]
        app = await world.application(ports=ports)
        refused = await world.post(f"/application/{app}/deploy")
        assert (refused.status, "32 public TCP ports" in refused.message) == (409, True)
        few = await world.application(ports=ports[:32])
        assert (await world.post(f"/application/{few}/deploy")).status == 202


async def has_ports(world: World, count: int, environment: str | None = None) -> str:
    """Deploys an application with so many public ports."""
    ports = [TCP | {"internal_port": 5000 + number, "name": f"p{number}"} for number in range(count)]
    app = await world.application(environment, ports=ports)
    await deploy(world, app)
    await world.settle()
    return app


async def takes_eleven(world: World) -> tuple[str, list[str]]:
    """An organization asks for eleven ports in each way there is. Returns an application with the first
    four, and the refusals of those beyond eight."""
    app = await has_ports(world, 4)
    for count in (2, 1, 1):
        await has_ports(world, count)
    one_more = await runs(world)
    database = await world.post(f"/environment/{await world.environment()}/database", PUBLIC)
    held = await world.installation.ctx.store.reads.names.beginning(PORT_PREFIX)
    free = next(number for number in range(30000, 30011) if f"{PORT_PREFIX}{number}" not in held)
    by_number = await runs(world, external_port=free)
    asked = [await message(world, app), await message(world, one_more), await message(world, by_number)]
    if database.status == 409:
        asked.append(database.message)
    return app, [refusal for refusal in asked if refusal]


async def another_gets_a_port(world: World) -> bool:
    org, token = await world.organization()
    project = await world.made(f"/organization/{org}/project", {"name": "p"}, token=token)
    environment = await world.made(f"/project/{project}/environment", {"name": "e"}, token=token)
    return (await world.post(f"/environment/{environment}/database", PUBLIC, token=token)).status == 201


async def test_an_organization_is_limited_to_its_share_of_public_ports(database_url):
    async with make_world(database_url, public_ports="30000-30010") as world:
        app, refusals = await takes_eleven(world)
        assert len(refusals) == 3
        assert all("an organization may have at most 8 of them" in refusal for refusal in refusals)
        await deploy(world, app)
        await world.settle()
        assert (await message(world, app), len(await links(world, app))) == ("", 4)
        assert await another_gets_a_port(world)


async def left_by_another(world: World) -> list[str]:
    """One environment asks for more ports than its organization may have. Returns the messages of two
    services: of this environment, and of another one of its organization."""
    environment = await world.environment()
    for _ in range(8):
        await runs(world, environment)
    return [await message(world, await runs(world, environment)), await message(world, await runs(world))]


async def test_an_environment_leaves_public_ports_for_other_environments_of_its_organization(database_url):
    async with make_world(database_url, public_ports="30000-30010") as world:
        own, other = await left_by_another(world)
        assert own.startswith("Make a public port of another service of this environment private and deploy")
        assert "and it has 4 of 8" in own
        assert other == ""


async def test_a_project_leaves_public_ports_for_other_projects_however_many_environments_it_has():
    async with make_world(public_ports="30000-30010") as world:
        project = await world.project()
        messages = [
            await message(world, await runs(world, await world.environment(project))) for _ in range(6)
        ]
        assert messages[:4] == [""] * 4
        assert "of this project" in messages[4]
        assert "a project may have as many as are left for others" in messages[5]
        assert await message(world, await runs(world)) == ""


async def test_without_a_limit_per_environment_one_environment_takes_all_public_ports(monkeypatch):
    monkeypatch.setattr(ports, "_leaves_few", lambda left, own: False)
    async with make_world(public_ports="30000-30010") as world:
        assert "an organization may have at most 8" in (await left_by_another(world))[1]


async def test_without_a_limit_per_organization_no_public_port_is_left_for_others(monkeypatch):
    monkeypatch.setattr(ports, "_ORG_SHARE_DIVISOR", 1)
    async with make_world(public_ports="30000-30010") as world:
        assert (await takes_eleven(world))[1] == []
        assert not await another_gets_a_port(world)


async def message(world: World, app: str) -> str:
    return str((await world.get(f"/application/{app}/status"))["message"])


async def links(world: World, app: str) -> list[Any]:
    return list((await world.get(f"/application/{app}/link"))["results"])


async def number(world: World, app: str) -> int:
    (link,) = await links(world, app)
    return int(link["external_port"])


async def test_a_service_has_a_bounded_number_of_ports(world):
    ports = [{"internal_port": number} for number in range(1000, 1065)]
    app = await world.application(ports=ports[1:])
    refused = await world.patch(f"/application/{app}", {"ports": ports})
    assert (refused.status, refused.message) == (
        400,
        "ports: name at most 64 ports: a service cannot have 65",
    )


async def test_a_service_has_a_bounded_number_of_volumes(world):
    storage = [{"size": 1, "mount_point": f"/v{number}"} for number in range(65)]
    app = await world.application(storage=storage[1:])
    refused = await world.patch(f"/application/{app}", {"storage": storage})
    assert (refused.status, refused.message) == (
        400,
        "storage: name at most 64 volumes: a service cannot have 65",
    )


async def test_the_last_free_public_port_is_found_in_at_most_2_tries(monkeypatch):
    async with make_world(public_ports="30000-30499") as world:
        store, tries = world.installation.ctx.store, list[str]()

        async def hold(tx: Tx) -> None:
            for held in {*range(30000, 30500)} - {30250}:
                await tx.names.reserve(f"{PORT_PREFIX}{held}", "00000000-aaaa-4aaa-8aaa-000000000001")

        await store.write(hold)
        reserve = NameChanges.reserve

        async def counted(self: NameChanges, name: str, *given: Any) -> Any:
            tries.append(name)
            return await reserve(self, name, *given)

        monkeypatch.setattr(NameChanges, "reserve", counted)
        assert await number(world, await runs(world)) == 30250
        assert len([name for name in tries if name.startswith(PORT_PREFIX)]) <= 2
