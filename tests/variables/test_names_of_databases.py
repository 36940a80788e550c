"""The name of a database is in the variables of its neighbours: a new one takes those of no other service."""

from __future__ import annotations

import pytest

from tests.world import World
from windlass.control.kinds import database as database_kind


async def neighbours(world: World) -> tuple[str, str, str]:
    """An older database, `cache`, a younger one, `main`, and an application beside them."""
    environment = await world.environment()
    older = await world.database(environment, name="cache")
    await world.database(environment, name="main")
    return older, await world.application(environment), environment


async def main_url(world: World, app: str) -> str:
    assert (await world.post(f"/application/{app}/deploy")).status == 202
    await world.settle()
    return str(world.engine.running[app].variables["MAIN_URL"])


@pytest.mark.parametrize("name", ["main_", "other"])
async def test_a_token_limited_to_a_database_cannot_rename_it(world: World, name: str) -> None:
    older, app, _ = await neighbours(world)
    before = await main_url(world, app)
    token = await world.new_token("Write", limited_to=[older])
    answer = await world.patch(f"/database/{older}", {"name": name}, token=token)
    assert (answer.status, "name: use a token that may change the environment" in answer.message) == (
        403,
        True,
    )
    assert (await world.patch(f"/database/{older}", {"name": "CACHE", "cpu": 600}, token=token)).status == 200
    assert await main_url(world, app) == before


async def test_a_database_cannot_be_renamed_to_the_variable_prefix_of_another(world: World) -> None:
    older, app, environment = await neighbours(world)
    before = await main_url(world, app)
    answer = await world.patch(f"/database/{older}", {"name": "main_"})
    assert answer.status == 409
    assert answer.message.startswith("name: choose another: the database main has the variables MAIN_")
    assert await main_url(world, app) == before
    token = await world.new_token("Write", limited_to=[environment])
    assert (await world.patch(f"/database/{older}", {"name": "sessions"}, token=token)).status == 200


async def test_without_the_check_the_renamed_database_takes_over_the_variables(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control of the tests above."""

    async def allow(*_: object) -> None: ...

    monkeypatch.setattr(database_kind, "_refuse_others_names", allow)
    older, app, environment = await neighbours(world)
    before = await main_url(world, app)
    token = await world.new_token("Write", limited_to=[environment])
    assert (await world.patch(f"/database/{older}", {"name": "main_"}, token=token)).status == 200
    assert await main_url(world, app) != before
