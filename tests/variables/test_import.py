"""Many variables at once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import Answer, World, make_world


@pytest.fixture
async def world():
    async with make_world() as made:
        yield made


def one(name: str, value: str = "v", scope: str = "APPLICATION", secret: bool = False) -> dict[str, Any]:
    return {"name": name, "value": value, "scope": scope, "is_secret": secret}


async def imported(world: World, app: str, *vars: dict[str, Any], **more: Any) -> Answer:
    options = {key: more.pop(key) for key in ("token", "headers") if key in more}
    path = f"/application/{app}/environmentVariable/import"
    return await world.post(path, {"vars": list(vars)} | more, **options)


async def values(world: World, path: str) -> dict[str, str]:
    results = (await world.get(path))["results"]
    return {variable["key"]: variable.get("value", "?") for variable in results}


async def test_imported_variables_and_secrets_are_created_at_their_levels(world: World):
    project = await world.project()
    env = await world.environment(project)
    app = await world.application(env)
    answer = await imported(
        world, app, one("A", "1"), one("B", "2", "ENVIRONMENT"), one("C", "3", "PROJECT", secret=True)
    )
    assert answer.status == 201, answer
    assert answer["total_variables_to_import"] == 3
    done = answer["successful_imported_variables"]
    assert [(made["name"], made.get("value"), made["scope"]) for made in done] == [
        ("A", "1", "APPLICATION"), ("B", "2", "ENVIRONMENT"), ("C", None, "PROJECT"),
    ]  # fmt: skip
    assert await values(world, f"/application/{app}/environmentVariable") == {"A": "1", "B": "2"}
    assert await values(world, f"/environment/{env}/environmentVariable") == {"B": "2"}
    assert await values(world, f"/project/{project}/secret") == {"C": "?"}


async def test_existing_variables_stay_unless_overwriting_was_asked_for(world: World):
    app = await world.application()
    await imported(world, app, one("A", "1"), one("S", "1", secret=True))
    answer = await imported(world, app, one("A", "2"), one("S", "2", secret=True), one("B", "2"))
    assert answer["total_variables_to_import"] == 3
    assert [made["name"] for made in answer["successful_imported_variables"]] == ["B"]
    assert (await values(world, f"/application/{app}/environmentVariable"))["A"] == "1"
    answer = await imported(world, app, one("A", "2"), overwrite=True)
    assert [made["name"] for made in answer["successful_imported_variables"]] == ["A"]
    assert (await values(world, f"/application/{app}/environmentVariable"))["A"] == "2"


async def test_an_import_with_one_conflict_changes_no_variable(world: World):
    app = await world.application()
    await imported(world, app, one("A", "1"))
    answer = await imported(world, app, one("B", "1"), one("A", "2", secret=True), overwrite=True)
    assert answer.status == 409
    assert answer.message == "vars[1].name: A is an environment variable of this level: delete it first"
    assert await values(world, f"/application/{app}/environmentVariable") == {"A": "1"}


@pytest.mark.parametrize("scope", ["BUILT_IN", "CONTAINER", "JOB", "HELM", "TERRAFORM", "AGENTIC_WORKFLOW"])
async def test_an_import_scope_that_is_not_above_the_service_is_refused_with_its_index(
    world: World, scope: str
):
    answer = await imported(world, await world.application(), one("A"), one("B", scope=scope))
    assert answer.status == 400
    assert answer.message.startswith("vars[1].scope: must be APPLICATION or ENVIRONMENT")


async def test_a_token_limited_to_a_service_imports_nothing_above_it(world: World):
    app = await world.application()
    token = await world.new_token("Write", limited_to=[app])
    answer = await imported(world, app, one("A"), one("B", scope="PROJECT"), token=token)
    assert answer.status == 403
    assert answer.message.startswith("vars[1].scope: ")
    assert await values(world, f"/application/{app}/environmentVariable") == {}
    assert (await imported(world, app, one("A"), token=token)).status == 201


async def test_an_invalid_imported_name_is_refused_with_its_index(world: World):
    answer = await imported(world, await world.application(), one("A"), one("not a key"))
    assert answer.status == 400
    assert answer.message.startswith("vars[1].name: ")


async def test_repeating_an_import_with_its_idempotency_key_imports_once(world: World):
    app = await world.application()
    headers = {"Idempotency-Key": "once"}
    first = await imported(world, app, one("A", "1"), headers=headers)
    second = await imported(world, app, one("A", "1"), headers=headers)
    assert first.status == second.status == 201
    assert first.body == second.body
