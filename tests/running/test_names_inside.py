"""The name by which others of an environment find a service is held by one of them, until it is deleted."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from tests.world import REPOSITORY, World, make_world

GIT = {"git_repository": {"url": REPOSITORY, "branch": "main"}}
DATABASE = {"type": "POSTGRESQL", "version": "16", "mode": "CONTAINER"}


async def made(world: World, environment: str, name: str) -> str:
    return await world.made(f"/environment/{environment}/application", {"name": name, **GIT})


async def known_as(world: World, service: str) -> str:
    """Deploys a service; returns the name by which its neighbours find it then."""
    answer = await world.post(f"/application/{service}/deploy")
    assert answer.status == 202, answer
    await world.settle()
    return [workload.known_as for workload in world.engine.applied if workload.service == service][-1]


async def rename(
    world: World, service: str, name: str, token: str | UnsetType = UNSET, *, status: int = 200
) -> None:
    answer = await world.call("PUT", f"/application/{service}", {"name": name, **GIT}, token=token)
    assert answer.status == status, answer


async def test_the_first_of_two_services_with_one_name_keeps_it_also_while_it_is_stopped():
    async with make_world() as world:
        environment = await world.environment()
        first, second = [await made(world, environment, name) for name in ("API Server", "api-server")]
        assert await known_as(world, second) == f"api-server-{second[:8]}"
        assert await known_as(world, first) == "api-server"
        assert (await world.post(f"/application/{first}/stop")).status == 202
        await world.settle()
        assert await known_as(world, second) == f"api-server-{second[:8]}"


async def test_a_service_cannot_be_renamed_to_what_leads_to_another():
    async with make_world() as world:
        environment = await world.environment()
        await world.made(f"/environment/{environment}/database", {"name": "main-db", **DATABASE})
        thief = await made(world, environment, "mine")
        assert await known_as(world, thief) == "mine"
        await rename(world, thief, "main-db")
        assert await known_as(world, thief) == f"main-db-{thief[:8]}"


async def test_a_name_is_free_when_its_service_is_called_differently_or_deleted():
    async with make_world() as world:
        environment = await world.environment()
        first = await made(world, environment, "shop")
        assert await known_as(world, first) == "shop"
        await rename(world, first, "store")
        # What runs is still found by it.
        second = await made(world, environment, "Shop!")
        assert await known_as(world, second) == f"shop-{second[:8]}"
        assert await known_as(world, first) == "store"
        third = await made(world, environment, "SHOP")
        assert await known_as(world, third) == "shop"
        assert (await world.call("DELETE", f"/application/{third}")).status in {202, 204}
        await world.settle()
        assert await known_as(world, await made(world, environment, "shop.")) == "shop"


async def test_environments_have_their_names_apart():
    async with make_world() as world:
        for environment in (await world.environment(), await world.environment()):
            assert await known_as(world, await made(world, environment, "shop")) == "shop"


async def test_renaming_a_service_needs_the_right_to_change_its_environment():
    async with make_world() as world:
        environment = await world.environment()
        service = await made(world, environment, "mine")
        inside = await world.new_token("Write", limited_to=[service])
        await rename(world, service, "cache", inside, status=403)
        await rename(world, service, "Mine", inside)  # leads to the same
        await rename(world, service, "cache", await world.new_token("Write", limited_to=[environment]))


async def test_the_copy_of_the_service_that_has_a_name_gets_it_in_a_copy_of_the_environment():
    async with make_world() as world:
        environment = await world.environment()
        second = await made(world, environment, "something else")
        first = await made(world, environment, "API Server")
        await rename(world, second, "api-server")
        assert await known_as(world, first) == "api-server"
        copy = (await world.post(f"/environment/{environment}/clone", {"name": "copy"}))["id"]
        listed = (await world.get(f"/environment/{copy}/application")).json["results"]
        copies = {one["name"]: one["id"] for one in listed}
        assert await known_as(world, copies["api-server"]) == f"api-server-{copies['api-server'][:8]}"
        assert await known_as(world, copies["API Server"]) == "api-server"
