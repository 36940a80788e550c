"""A list says what Windlass sets, as the next deployment would get it."""

from __future__ import annotations

from tests.variables.town import inputs, settled
from tests.world import World

DATABASE = {"name": "main-db", "type": "POSTGRESQL", "version": "16", "mode": "CONTAINER"}


async def test_the_injected_variables_list_equals_what_the_next_deployment_receives(world: World) -> None:
    town = await settled(world)
    await world.made(f"/environment/{town.env}/database", DATABASE)
    listed = (await world.get(f"/application/{town.app}/injectedVariable"))["results"]
    got = await inputs(world, town.app)
    assert {row["key"] for row in listed} == {key for key in got.variables if not key.startswith("QOVERY_")}
    assert {row["key"] for row in listed if row["is_secret"]} == {
        key for key in got.secrets if not key.startswith("QOVERY_")
    }
    (url,) = [row for row in listed if row["key"] == "MAIN_DB_URL"]
    assert (url["value"], url["is_secret"], url["service_name"]) == (None, True, "main-db")


async def test_the_list_hides_neighbours_that_the_caller_may_not_see(world: World) -> None:
    town = await settled(world)
    other = await world.application(town.env, name="other", ports=[{"internal_port": 80}])
    path = f"/application/{town.app}/injectedVariable"
    owners = {row["owner_id"] for row in (await world.get(path))["results"]}
    assert other in owners
    limited = await world.new_token("Read", limited_to=[town.app])
    seen = {row["owner_id"] for row in (await world.get(path, token=limited))["results"]}
    assert seen == owners - {other}


async def test_projects_and_environments_have_a_list_of_injected_variables(world: World) -> None:
    town = await settled(world)
    for path in (f"/project/{town.project}", f"/environment/{town.env}"):
        listed = (await world.get(f"{path}/injectedVariable"))["results"]
        assert "WINDLASS_PROJECT_ID" in {row["key"] for row in listed}
