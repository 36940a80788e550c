"""Each level that has variables and secrets offers the same verbs on them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.fakes.engine import FakeEngine
from tests.world import World, make_world

IMAGE = {"image_name": "acme/cache", "tag": "1.0"}
JOB = {"source": {"image": IMAGE}, "schedule": {"on_start": {"arguments": ["migrate"]}}}
BOTH = pytest.mark.parametrize("family", ["environmentVariable", "secret"])
LEVELS = ("project", "environment", "application", "container", "job")
EACH_LEVEL = pytest.mark.parametrize("level", LEVELS)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with make_world(engine=FakeEngine("image")) as made:
        yield made


async def level_of(world: World, level: str) -> str:
    """Returns the path of a new level."""
    project = await world.project()
    if level == "project":
        return f"/project/{project}"
    environment = await world.environment(project)
    if level == "environment":
        return f"/environment/{environment}"
    if level == "application":
        return f"/application/{await world.application(environment)}"
    body = {"name": level, **(JOB if level == "job" else IMAGE)}
    return f"/{level}/{await world.made(f'/environment/{environment}/{level}', body)}"


async def listed(world: World, path: str, family: str) -> dict[str, Any]:
    """Returns what the level sees, by key; the nearest one comes first in the list."""
    return {one["key"]: one for one in reversed((await world.get(f"{path}/{family}"))["results"])}


@BOTH
@EACH_LEVEL
async def test_a_value_is_created_replaced_and_deleted_at_each_level(world: World, level: str, family: str):
    path = await level_of(world, level)
    id = await world.made(f"{path}/{family}", {"key": "COLOUR", "value": "red"})
    replaced = await world.put(f"{path}/{family}/{id}", {"key": "COLOR", "value": "blue"})
    assert (replaced.status, replaced["key"], replaced["scope"]) == (200, "COLOR", level.upper())
    assert replaced.json.get("value") == ("blue" if family == "environmentVariable" else None)
    assert (await listed(world, path, family)).keys() == {"COLOR"}
    assert (await world.delete(f"{path}/{family}/{id}")).status == 204
    assert not await listed(world, path, family)
    assert (await world.get(f"{path}/{family}/{id}")).status == 404


@BOTH
@EACH_LEVEL
async def test_an_alias_is_created_at_each_level(world: World, level: str, family: str):
    path = await level_of(world, level)
    id = await world.made(f"{path}/{family}", {"key": "COLOUR", "value": "red"})
    alias = await world.post(f"{path}/{family}/{id}/alias", {"key": "FARBE"})
    target = "aliased_variable" if family == "environmentVariable" else "aliased_secret"
    assert (alias.status, alias["variable_type"], alias[target]["id"]) == (201, "ALIAS", id), alias
    assert (await listed(world, path, family)).keys() == {"COLOUR", "FARBE"}


@BOTH
@pytest.mark.parametrize("level", LEVELS[1:])
async def test_a_value_of_a_level_above_is_overridden_at_each_level(world: World, level: str, family: str):
    path = await level_of(world, level)
    place = (await world.get(path)).json
    above = "project" if level == "environment" else "environment"
    id = await world.made(f"/{above}/{place[above]['id']}/{family}", {"key": "COLOUR", "value": "red"})
    override = await world.post(f"{path}/{family}/{id}/override", {"value": "blue"})
    target = "overridden_variable" if family == "environmentVariable" else "overridden_secret"
    assert (override.status, override[target]["id"]) == (201, id), override
    shown = (await listed(world, path, family))["COLOUR"]
    assert (shown["scope"], shown["variable_type"]) == (level.upper(), "OVERRIDE")


@BOTH
async def test_a_project_cannot_override_its_own_value(world: World, family: str):
    path = await level_of(world, "project")
    own = await world.made(f"{path}/{family}", {"key": "COLOUR", "value": "red"})
    refused = await world.post(f"{path}/{family}/{own}/override", {"value": "blue"})
    assert (refused.status, len(await listed(world, path, family))) == (409, 1), refused


async def test_a_project_overrides_its_built_in_value(world: World):
    path = await level_of(world, "project")
    shown = await listed(world, f"/compat{path}", "environmentVariable")
    built_in = shown["QOVERY_PROJECT_ID"]
    override = await world.post(f"{path}/environmentVariable/{built_in['id']}/override", {"value": "blue"})
    assert (override.status, override["key"], override["value"]) == (201, built_in["key"], "blue"), override


@pytest.mark.parametrize("level", LEVELS[2:])
async def test_each_kind_of_service_imports_for_itself_and_for_levels_above(world: World, level: str):
    path = await level_of(world, level)
    rows = [
        {"name": "PORT", "value": "8080", "scope": level.upper(), "is_secret": False},
        {"name": "CITY", "value": "Oslo", "scope": "PROJECT", "is_secret": True},
    ]
    answer = await world.post(f"{path}/environmentVariable/import", {"vars": rows})
    assert (answer.status, answer["total_variables_to_import"]) == (201, 2), answer
    assert (await listed(world, path, "environmentVariable"))["PORT"]["scope"] == level.upper()
    assert (await listed(world, path, "secret"))["CITY"]["scope"] == "PROJECT"
