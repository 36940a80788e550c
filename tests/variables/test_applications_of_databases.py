"""The applications whose variables refer to a database."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

import pytest

from tests.world import World, make_world
from windlass.control.context.context import Context
from windlass.control.request.hidden_fields import decrypt_hidden
from windlass.control.variables import inputs
from windlass.store import Row


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world() as made:
        yield made


@pytest.fixture
async def shop(world: World) -> tuple[str, str, str]:
    """An environment with an application and a database."""
    environment = await world.environment()
    app = await world.application(environment, name="web")
    return environment, app, await world.database(environment, name="orders")


async def linked(world: World, database: str, **options: str) -> list[str]:
    answer = await world.get(f"/database/{database}/application", **options)
    assert answer.status == 200, answer
    return [one["id"] for one in answer["results"]]


async def built_in(world: World, app: str, database: str, word: str, sort: str) -> str:
    listed = (await world.get(f"/compat/application/{app}/{sort}"))["results"]
    return next(
        str(one["id"])
        for one in listed
        if one["key"].endswith(f"Z{database[:8].upper()}_{word}") and one["variable_type"] == "BUILT_IN"
    )


async def test_an_application_that_refers_to_a_databases_variable_is_listed_as_its_user(world: World, shop):
    environment, app, database = shop
    assert await linked(world, database) == []
    for sort, value in (("environmentVariable", "{{ORDERS_HOST}}:5432"), ("secret", "{{ORDERS_URL}}")):
        path = f"/application/{app}/{sort}"
        id = await world.made(path, {"key": f"A_{sort.upper()}", "value": value})
        assert await linked(world, database) == [app]
        await world.delete(f"{path}/{id}")
        assert await linked(world, database) == []
    other = await world.application(environment)
    await world.made(f"/environment/{environment}/secret", {"key": "URL", "value": "{{ORDERS_URL}}?ssl=1"})
    answer = await world.get(f"/database/{database}/application")
    assert [one["id"] for one in answer["results"]] == [app, other]
    assert answer["results"][0] == (await world.get(f"/application/{app}")).json
    shown = (await world.get(f"/compat/database/{database}/application"))["results"][0]
    assert shown == (await world.get(f"/compat/application/{app}")).json


async def test_an_application_with_an_alias_of_a_variable_of_a_database_uses_it(world: World, shop):
    _, app, database = shop
    id = await built_in(world, app, database, "HOST_INTERNAL", "environmentVariable")
    await world.made(f"/application/{app}/environmentVariable/{id}/alias", {"key": "DB_HOST"})
    assert await linked(world, database) == [app]


async def test_an_application_is_linked_only_with_the_database_whose_variables_it_uses(world: World, shop):
    environment, app, database = shop
    other = await world.database(environment, name="mail")
    await world.made(f"/application/{app}/environmentVariable", {"key": "A", "value": "{{MAIL_HOST}}"})
    assert (await linked(world, database), await linked(world, other)) == ([], [app])
    elsewhere = await world.database(name="mail")
    assert await linked(world, elsewhere) == []


async def test_an_application_with_unresolvable_variables_is_not_listed_as_a_database_user(
    world: World, shop
):
    _, app, database = shop
    path = f"/application/{app}/environmentVariable"
    await world.made(path, {"key": "A", "value": "{{B}}{{ORDERS_HOST}}"})
    assert await linked(world, database) == [app]
    await world.made(path, {"key": "B", "value": "{{A}}"})
    assert await linked(world, database) == []


async def test_the_applications_of_a_database_are_those_that_the_caller_sees(world: World, shop):
    environment, app, database = shop
    other = await world.application(environment)
    await world.made(
        f"/environment/{environment}/environmentVariable", {"key": "A", "value": "{{ORDERS_HOST}}"}
    )
    assert await linked(world, database) == [app, other]
    both = await world.new_token("Read", limited_to=[database, other])
    assert await linked(world, database, token=both) == [other]
    alone = await world.new_token("Read", limited_to=[app])
    _, foreign = await world.organization()
    missing = await world.get(f"/database/{uuid.uuid4()}/application")
    for token in (alone, foreign):
        answer = await world.get(f"/database/{database}/application", token=token)
        assert (answer.status, answer.message) == (404, missing.message)


async def test_removing_a_database_link_is_refused_with_advice_to_change_the_variable(world: World, shop):
    _, app, database = shop
    refused = await world.delete(f"/database/{database}/application/{app}")
    assert refused.status == 501
    assert "variables" in refused.message


async def test_secrets_are_decrypted_once_and_not_for_up_to_date_applications(
    world: World, shop, monkeypatch: pytest.MonkeyPatch
):
    environment, app, database = shop
    other = await world.application(environment)
    await world.made(f"/environment/{environment}/secret", {"key": "URL", "value": "{{ORDERS_URL}}?ssl=1"})
    await world.post(f"/environment/{environment}/deploy")
    await world.settle()
    decrypted: list[str] = []

    def counted(ctx: Context, row: Row) -> dict[str, str]:
        decrypted.append(row.id)
        return decrypt_hidden(ctx, row)

    monkeypatch.setattr(inputs, "decrypt_hidden", counted)
    assert await linked(world, database) == [app, other]
    assert decrypted == []
    await world.made(f"/environment/{environment}/environmentVariable", {"key": "A", "value": "1"})
    assert (await world.get(f"/application/{app}/status"))["service_deployment_status"] == "OUT_OF_DATE"
    assert await linked(world, database) == [app, other]
    assert len(decrypted) == 1
