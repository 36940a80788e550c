"""`/variable`: variables and secrets of any level at one path, where the request names the level."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.contract.contract import is_refused
from tests.derived.stage import together
from tests.variables.town import PORT, Town, inputs, settled
from tests.world import Answer, make_world

LEVELS = ["project", "environment", "application"]
VALUE = "correct horse battery staple"


@pytest.fixture
async def town():
    async with make_world() as made:
        yield await settled(made)


def id_of(town: Town, level: str) -> str:
    return town.levels[level].rpartition("/")[2]


def named(town: Town, level: str, prefix: str) -> dict[str, str]:
    return {f"{prefix}_scope": level.upper(), f"{prefix}_parent_id": id_of(town, level)}


async def create(town: Town, level: str, key: str = "KEY", value: str = "v", **more: Any) -> Answer:
    body = {"key": key, "value": value, "is_secret": False, **named(town, level, "variable"), **more}
    return await town.world.post("/variable", body)


async def listed(town: Town, level: str, query: str = "", base: str = "", **options: Any) -> list[Any]:
    path = f"{base}/variable?parent_id={id_of(town, level)}&scope={level.upper()}{query}"
    results: list[Any] = (await town.world.get(path, **options))["results"]
    return results


async def keys(town: Town, level: str, query: str = "", **options: Any) -> list[str]:
    return [variable["key"] for variable in await listed(town, level, query, **options)]


# Reading


async def test_a_level_lists_its_own_variables_and_those_of_the_levels_above(town: Town):
    for level in LEVELS:
        await town.says(level, f"V_{level}", level)
        await town.says(level, f"S_{level}", VALUE, "secret")
    for number, level in enumerate(LEVELS, 1):
        seen = LEVELS[:number][::-1]
        assert await keys(town, level) == [f"{sort}_{above}" for sort in "VS" for above in seen]
        assert await keys(town, level, "&is_secret=true") == [f"S_{above}" for above in seen]
        assert await keys(town, level, "&is_secret=false") == [f"V_{above}" for above in seen]
    assert {variable["value"] for variable in await listed(town, "project", "&is_secret=true")} == {None}


async def test_a_container_is_a_level_of_variables(town: Town):
    body = {"name": "box", "image_name": "nginx", "tag": "1"}
    container = await town.world.post(f"/environment/{town.env}/container", body)
    await town.says("environment", "ABOVE")
    answer = await town.world.get(f"/variable?parent_id={container['id']}&scope=CONTAINER")
    assert [variable["key"] for variable in answer["results"]] == ["ABOVE"]


async def test_pages_continue_from_variables_to_secrets(town: Town):
    for number in range(3):
        await town.says("application", f"V{number}")
        await town.says("project", f"S{number}", VALUE, "secret")
    pages = [await keys(town, "application", f"&page={page}&page_size=2") for page in range(1, 5)]
    assert pages == [["V0", "V1"], ["V2", "S0"], ["S1", "S2"], []]


async def test_variable_lists_under_compat_are_complete_and_include_built_in_variables(town: Town):
    for number in range(101):
        await town.says("application", f"V{number}")
    assert len(await keys(town, "application")) == 100
    seen = await listed(town, "application", base="/compat")
    assert len([variable for variable in seen if variable["scope"] == "APPLICATION"]) == 101
    built_in = [variable for variable in seen if variable["scope"] == "BUILT_IN"]
    assert {"QOVERY_PROJECT_ID", "QOVERY_APPLICATION_ID"} <= {variable["key"] for variable in built_in}
    assert seen == await listed(town, "application", base="/compat")
    assert all(isinstance(variable["description"], str) for variable in seen)


@pytest.mark.parametrize("query", ["", "parent_id=", "parent_id=7", "scope=PROJECT"])
async def test_listing_variables_requires_the_id_of_a_level(town: Town, query: str):
    answer = await town.world.get(f"/variable?{query}")
    is_refused(answer, 400)
    assert answer.message.startswith("parent_id: ")


async def test_the_given_scope_must_match_the_level_of_the_id(town: Town):
    for scope in ("PROJECT", "DATABASE", "BUILT_IN"):
        answer = await town.world.get(f"/variable?parent_id={town.app}&scope={scope}")
        is_refused(answer, 400, "scope: must be APPLICATION")
    is_refused(await create(town, "application", variable_scope="PROJECT"), 400, "variable_scope: ")


async def test_a_database_is_not_a_level_of_variables(town: Town):
    database = await town.world.database(town.env)
    is_refused(await town.world.get(f"/variable?parent_id={database}"), 404)
    answer = await create(town, "application", variable_parent_id=database, variable_scope="DATABASE")
    is_refused(answer, 400, "variable_parent_id: ")


# Writing


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("is_secret", [False, True])
async def test_a_variable_created_here_equals_the_one_at_its_level(town: Town, level: str, is_secret: bool):
    made = await create(town, level, is_secret=is_secret, value=VALUE, mount_path="/etc/key")
    assert (made.status, made["scope"], made["variable_type"]) == (201, level.upper(), "FILE")
    assert (made["is_secret"], made["value"]) == (is_secret, None if is_secret else VALUE)
    path = f"{town.levels[level]}/{'secret' if is_secret else 'environmentVariable'}/{made['id']}"
    there = await town.world.get(path)
    assert there.json.items() >= {"key": "KEY", "mount_path": "/etc/key", "scope": level.upper()}.items()
    assert (await inputs(town.world, town.app)).files == {"/etc/key": VALUE.encode()}


@pytest.mark.parametrize("path", ["/", "/etc/", "/etc/../x", "/./x", "//x", "/a//b", "/..", "/a/."])
@pytest.mark.parametrize("is_secret", [False, True])
async def test_a_path_that_names_no_file_is_refused_when_it_is_saved(town: Town, is_secret: bool, path: str):
    is_refused(
        await create(town, "application", is_secret=is_secret, mount_path=path), 400, "mount_path: must"
    )
    family = "secret" if is_secret else "environmentVariable"
    place = f"{town.levels['project']}/{family}"
    body = {"key": "KEY", "value": VALUE}
    is_refused(await town.world.post(place, body | {"mount_path": path}), 400, "mount_path: must")
    made = await town.world.made(place, body | {"mount_path": "/etc/..key/.hidden"})
    for method in (town.world.put, town.world.patch):
        is_refused(await method(f"{place}/{made}", body | {"mount_path": path}), 400, "mount_path: must")


async def test_an_edit_keeps_the_value_of_a_secret_and_the_path_of_a_file(town: Town):
    made = await create(town, "application", is_secret=True, value=VALUE, mount_path="/k", description="d")
    edited = await town.world.put(f"/variable/{made['id']}", {"key": "OTHER"})
    assert (edited.status, edited["key"], edited["description"], edited["mount_path"]) == (
        200, "OTHER", "", "/k",
    )  # fmt: skip
    assert (await inputs(town.world, town.app)).files == {"/k": VALUE.encode()}
    await town.world.put(f"/variable/{made['id']}", {"key": "OTHER", "value": "new"})
    assert (await inputs(town.world, town.app)).files == {"/k": b"new"}


async def test_an_edit_without_a_value_empties_a_variable(town: Town):
    made = await create(town, "application")
    assert (await town.world.put(f"/variable/{made['id']}", {"key": "KEY", "value": None}))["value"] == ""


async def test_editing_or_deleting_a_variable_with_an_outdated_etag_is_refused(town: Town):
    path = f"/variable/{(await create(town, 'application'))['id']}"
    stale = {"if-match": '"0000000000000000"'}
    is_refused(await town.world.put(path, {"key": "OTHER"}, headers=stale), 412)
    is_refused(await town.world.delete(path, headers=stale), 412)
    assert await keys(town, "application") == ["KEY"]


@pytest.mark.parametrize("is_secret", [False, True])
async def test_deleting_an_inherited_variable_deletes_its_aliases_and_overrides(town: Town, is_secret: bool):
    shared = f"/variable/{(await create(town, 'project', value='1', is_secret=is_secret))['id']}"
    alias = await town.world.post(f"{shared}/alias", {"key": "ALIAS", **named(town, "application", "alias")})
    assert (alias.status, alias["variable_type"], alias["is_secret"]) == (201, "ALIAS", is_secret)
    assert (alias["aliased_variable"]["key"], alias["value"]) == ("KEY", None if is_secret else "1")
    other = {"value": "2", **named(town, "environment", "override")}
    override = await town.world.post(f"{shared}/override", other)
    assert (override.status, override["variable_type"]) == (201, "OVERRIDE")
    assert override["overridden_variable"]["id"] == shared.rpartition("/")[2]
    found = (await inputs(town.world, town.app)).variables
    assert (found["ALIAS"], found["KEY"]) == ("1", "2")
    assert (await town.world.delete(shared)).status == 204
    assert await keys(town, "application") == []


async def test_a_built_in_variable_can_be_aliased_at_a_level_that_sees_it(town: Town):
    built_in = next(
        variable for variable in await listed(town, "application", base="/compat")
        if variable["key"] == "QOVERY_PROJECT_ID"
    )  # fmt: skip
    path = f"/variable/{built_in['id']}"
    alias = await town.world.post(f"{path}/alias", {"key": "MINE", **named(town, "application", "alias")})
    assert (alias.status, alias["value"]) == (201, town.project)
    is_refused(await town.world.delete(path), 404)


async def test_an_alias_or_override_cannot_be_created_at_a_level_that_does_not_see_the_variable(town: Town):
    own = f"/variable/{(await create(town, 'application'))['id']}"
    answer = await town.world.post(f"{own}/alias", {"key": "A", **named(town, "project", "alias")})
    is_refused(answer, 400, "alias_parent_id: ")
    same = {"value": "2", **named(town, "application", "override")}
    is_refused(await town.world.post(f"{own}/override", same), 409)
    unknown = {**same, "override_parent_id": str(uuid.uuid4())}
    is_refused(await town.world.post(f"{own}/override", unknown), 400, "override_parent_id: ")


async def test_a_client_that_sends_the_targets_key_as_value_can_edit_an_alias(town: Town):
    shared = (await create(town, "project", value="1"))["id"]
    body = {"key": "ALIAS", **named(town, "application", "alias")}
    alias = await town.world.post(f"/compat/variable/{shared}/alias", body)
    assert alias["value"] == "KEY"
    edited = await town.world.put(f"/compat/variable/{alias['id']}", {"key": "NEW", "value": "KEY"})
    assert (edited.status, edited["key"], edited["value"]) == (200, "NEW", "KEY")
    assert (await inputs(town.world, town.app)).variables["NEW"] == "1"


async def test_variables_are_imported_at_a_service_and_the_levels_above_it(town: Town):
    entries = [
        {"name": "A", "value": "1", "scope": "APPLICATION", "is_secret": False},
        {"name": "S", "value": VALUE, "scope": "PROJECT", "is_secret": True},
    ]
    path = f"/variable/import?service_id={town.app}&service_type=APPLICATION"
    answer = await town.world.post(path, {"vars": entries})
    assert (answer.status, answer["total_variables_to_import"]) == (201, 2)
    assert await keys(town, "application") == ["A", "S"]
    is_refused(await town.world.post("/variable/import", {"vars": entries}), 400, "service_id: ")
    wrong = [*entries, {**entries[0], "name": "B", "scope": "JOB"}]
    is_refused(await town.world.post(path, {"vars": wrong, "overwrite": True}), 400, "vars[2].scope: ")
    assert await keys(town, "application") == ["A", "S"]


async def test_variables_of_an_external_secret_manager_are_refused(town: Town):
    manager = {"secret_manager_access_id": str(uuid.uuid4())}
    is_refused(await create(town, "project", **manager), 400, "secret_manager_access_id: ")
    own = f"/variable/{(await create(town, 'project', secret_manager_access_id=None))['id']}"
    body = {"key": "KEY", "value": "v", **manager}
    is_refused(await town.world.put(own, body), 400, "secret_manager_access_id: ")


async def test_no_answer_has_the_value_of_a_secret(town: Town):
    answers = [await create(town, "project", is_secret=True, value=VALUE)]
    path = f"/variable/{answers[0]['id']}"
    answers += [
        await town.world.post(f"{path}/alias", {"key": "A", **named(town, "application", "alias")}),
        await town.world.post(f"{path}/override", {"value": VALUE, **named(town, "environment", "override")}),
        await town.world.put(path, {"key": "B", "value": VALUE}),
        *[await town.world.get(f"{base}/variable?parent_id={town.app}") for base in ("", "/compat")],
    ]
    assert [answer for answer in answers if answer.status >= 300 or VALUE in answer.body.decode()] == []


async def test_concurrent_creations_of_one_key_create_one_variable_or_secret(town: Town):
    answers = await together(*(create(town, "project", is_secret=bool(twin % 2)) for twin in range(8)))
    assert sorted(answer.status for answer in answers) == [201, *[409] * 7]
    assert await keys(town, "project") == ["KEY"]


async def test_a_token_limited_to_a_service_may_alias_inherited_variables_only_at_that_service(town: Town):
    shared = f"/variable/{(await create(town, 'project', value='1'))['id']}"
    token = await town.world.new_token("Admin", limited_to=[town.app])
    body = {"key": "ALIAS", **named(town, "application", "alias")}
    assert (await town.world.post(f"{shared}/alias", body, token=token)).status == 201
    above = {"key": "OTHER", **named(town, "environment", "alias")}
    is_refused(await town.world.post(f"{shared}/alias", above, token=token), 404)
    is_refused(await town.world.put(shared, {"key": "STOLEN"}, token=token), 404)
    beside = await town.world.application(town.env, ports=[PORT])
    is_refused(await town.world.get(f"/variable?parent_id={beside}", token=token), 404)
