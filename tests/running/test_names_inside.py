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


async def test_of_two_services_with_one_internal_name_the_first_keeps_it_even_while_stopped():
    async with make_world() as world:
        environment = await world.environment()
        first, second = [await made(world, environment, name) for name in ("API Server", "api-server")]
        assert await known_as(world, second) == f"api-server-{second[:8]}"
        assert await known_as(world, first) == "api-server"
        assert (await world.post(f"/application/{first}/stop")).status == 202
        await world.settle()
        assert await known_as(world, second) == f"api-server-{second[:8]}"


async def test_a_service_renamed_to_another_services_internal_name_gets_a_suffix():
    async with make_world() as world:
        environment = await world.environment()
        await world.made(f"/environment/{environment}/database", {"name": "main-db", **DATABASE})
        thief = await made(world, environment, "mine")
        assert await known_as(world, thief) == "mine"
        await rename(world, thief, "main-db")
        assert await known_as(world, thief) == f"main-db-{thief[:8]}"


async def test_an_internal_name_is_free_after_a_rename_is_deployed_or_its_service_is_deleted():
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


async def test_internal_names_are_separate_for_each_environment():
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


async def test_in_a_cloned_environment_the_copy_of_the_name_owner_gets_the_internal_name():
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
