"""The variables that Windlass makes: in lists, under other keys, with other values; secrets stay secret."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world import Answer, World, make_world
from windlass.core.deploy.injected_variables import identity

PUBLIC = {"internal_port": 8080, "protocol": "HTTP", "publicly_accessible": True}
PRIVATE = {"internal_port": 8080, "protocol": "HTTP", "publicly_accessible": False}


@pytest.fixture
async def world():
    async with make_world() as made:
        yield made


async def listed(world: World, path: str, **options: Any) -> list[dict[str, Any]]:
    answer = await world.get(f"/compat{path}", **options)
    assert answer.status == 200, answer
    assert answer["pagination"]["total_count"] == len(answer["results"])
    results: list[dict[str, Any]] = answer["results"]
    return results


async def built_in(world: World, path: str, **options: Any) -> dict[str, dict[str, Any]]:
    return {one["key"]: one for one in await listed(world, path, **options) if one["scope"] == "BUILT_IN"}


def short(id: str) -> str:
    return id[:8].upper()


# What there is


async def test_each_level_has_variables_with_its_name_and_its_parents(world: World):
    project = await world.project()
    env = await world.environment(project)
    app = await world.application(env)
    values = {
        path: {
            key: one["value"]
            for key, one in (await built_in(world, f"{path}/environmentVariable")).items()
            if key.endswith("_ID")
        }
        for path in (f"/project/{project}", f"/environment/{env}", f"/application/{app}")
    }
    # The last is a placeholder in lists, as existing clients know it; what runs finds the id itself.
    whole = {"QOVERY_APPLICATION_ID": app, "QOVERY_ENVIRONMENT_ID": env, "QOVERY_PROJECT_ID": "||Q_PRJ_ID||"}
    assert values[f"/application/{app}"] == whole
    assert values[f"/environment/{env}"] == {key: whole[key] for key in list(whole)[1:]}
    assert values[f"/project/{project}"] == {"QOVERY_PROJECT_ID": "||Q_PRJ_ID||"}


@pytest.mark.parametrize("level", ["environment", "application"])
async def test_services_of_the_environment_have_built_in_host_and_port_variables(world: World, level: str):
    env = await world.environment(name="blue")
    app = await world.application(env, name="Shop API", ports=[PUBLIC])
    database = await world.database(env, name="main-db")
    at = {"environment": f"/environment/{env}", "application": f"/application/{app}"}[level]
    values = {key: one["value"] for key, one in (await built_in(world, f"{at}/environmentVariable")).items()}
    ours = f"QOVERY_APPLICATION_Z{short(app)}"
    theirs = f"QOVERY_POSTGRESQL_Z{short(database)}"
    assert {key: values[key] for key in values if not key.endswith("_ID")} == {
        f"{ours}_HOST_INTERNAL": f"app-z{app[:8]}",
        f"{ours}_PORT_INTERNAL": "8080",
        f"{ours}_HOST_EXTERNAL": "shop-api-blue.localhost",
        f"{theirs}_HOST_INTERNAL": f"z{database[:8]}-main-db",
        f"{theirs}_PORT_INTERNAL": "5432",
        f"{theirs}_LOGIN": "postgres",
        f"{theirs}_DEFAULT_DATABASE_NAME": "postgres",
    }


@pytest.mark.parametrize(("ports", "there"), [([], False), ([PRIVATE], False), ([PUBLIC], True)])
async def test_the_external_host_variable_exists_exactly_if_a_port_is_public(
    world: World, ports: list[Any], there: bool
):
    app = await world.application(ports=ports)
    found = await built_in(world, f"/application/{app}/environmentVariable")
    assert (f"QOVERY_APPLICATION_Z{short(app)}_HOST_EXTERNAL" in found) is there
    changed = [] if there else [PUBLIC]
    assert (await world.patch(f"/application/{app}", {"ports": changed})).status == 200
    found = await built_in(world, f"/application/{app}/environmentVariable")
    assert (f"QOVERY_APPLICATION_Z{short(app)}_HOST_EXTERNAL" in found) is not there


@pytest.mark.parametrize("type", ["POSTGRESQL", "MYSQL", "MONGODB", "REDIS"])
async def test_secret_variables_of_a_database_are_listed_without_values(world: World, type: str):
    env = await world.environment()
    database = await world.database(env, type=type, version="8")
    found = await built_in(world, f"/environment/{env}/secret")
    prefix = f"QOVERY_{type}_Z{short(database)}"
    assert found.keys() == {f"{prefix}_PASSWORD", f"{prefix}_DATABASE_URL_INTERNAL"}
    assert all("value" not in one for one in found.values())


async def test_a_built_in_variable_has_the_fields_that_existing_clients_expect(world: World):
    env = await world.environment()
    app = await world.application(env, name="shop")
    await world.database(env)
    world.clock.turn(100)
    whole = [
        one
        for kind in ("environmentVariable", "secret")
        for one in (await built_in(world, f"/application/{app}/{kind}")).values()
    ]
    owners = {
        str(owner["id"]): owner
        for owner in (await world.get(f"/application/{app}"), await world.get(f"/environment/{env}"))
    }
    for one in whole:
        assert one["scope"] == one["variable_type"] == "BUILT_IN"
        assert one["key"].startswith("QOVERY_")
        assert one["description"] == ""
        assert one["id"] == one["id"].lower()
        assert one["created_at"] == one["updated_at"]
    mine = next(one for one in whole if one["key"] == "QOVERY_APPLICATION_ID")
    assert (mine["service_id"], mine["service_name"], mine["service_type"]) == (app, "shop", "APPLICATION")
    assert mine["created_at"] == owners[app]["created_at"]
    assert len({one["id"] for one in whole}) == len(whole)


async def test_built_in_variables_change_only_by_renaming(world: World):
    app = await world.application(ports=[PUBLIC])
    path = f"/application/{app}/environmentVariable"
    before = await built_in(world, path)
    world.clock.turn(60)
    assert (await world.patch(f"/application/{app}", {"cpu": 777})).status == 200
    assert (await world.post(f"/application/{app}/deploy")).status == 202
    await world.settle()
    assert await built_in(world, path) == before
    assert (await world.patch(f"/application/{app}", {"name": "renamed"})).status == 200
    after = await built_in(world, path)
    assert after.keys() == before.keys()
    assert {key: one["id"] for key, one in after.items()} == {key: one["id"] for key, one in before.items()}


# Where they are listed


async def test_built_in_variables_are_listed_last_and_in_pages(world: World):
    app = await world.application()
    path = f"/application/{app}/environmentVariable"
    await world.post(path, {"key": "Z"})
    whole = await listed(world, path)
    assert [one["scope"] == "BUILT_IN" for one in whole] == [False] + [True] * (len(whole) - 1)
    pages = [await world.get(f"/compat{path}?page={n}&page_size=2") for n in range(1, len(whole) // 2 + 2)]
    assert [one for page in pages for one in page["results"]] == whole
    assert {page["pagination"]["total_count"] for page in pages} == {len(whole)}


async def test_under_compat_built_in_variables_are_not_listed_but_can_be_read(world: World):
    project = await world.project()
    app = await world.application(await world.environment(project))
    path = f"/application/{app}/environmentVariable"
    await world.post(path, {"key": "COLOUR"})
    for base in ("", "/api/v1"):
        answer = await world.get(base + path)
        assert [one["key"] for one in answer["results"]] == ["COLOUR"]
        assert answer["pagination"]["total_count"] == 1
    one = (await built_in(world, path))["QOVERY_PROJECT_ID"]
    read = await world.get(f"{path}/{one['id']}")
    assert read.status == 200
    assert read.json == one | {"value": project}
    assert (await world.get(f"/compat{path}/{one['id']}")).json == one
    assert read.headers["etag"]


@pytest.mark.parametrize("kind", ["environmentVariable", "secret"])
async def test_a_token_limited_to_a_service_sees_no_variables_of_its_neighbours(world: World, kind: str):
    env = await world.environment()
    app, other = await world.application(env), await world.application(env)
    database = await world.database(env)
    path = f"/application/{app}/{kind}"
    limited = await world.new_token("Admin", limited_to=[app])
    wide = await world.new_token("Admin", limited_to=[env])
    everything = await built_in(world, path)
    assert await built_in(world, path, token=wide) == everything
    seen = await built_in(world, path, token=limited)
    assert seen.keys() == {
        key for key in everything if short(other) not in key and short(database) not in key
    }
    for key in everything.keys() - seen.keys():
        hidden = everything[key]["id"]
        for answer in (
            await world.get(f"{path}/{hidden}", token=limited),
            await world.post(f"{path}/{hidden}/alias", {"key": "MINE"}, token=limited),
            await world.post(f"{path}/{hidden}/override", {"value": "x"}, token=limited),
            await world.patch(f"{path}/{hidden}", {"value": "x"}, token=limited),
            await world.delete(f"{path}/{hidden}", token=limited),
        ):
            assert answer.status == 404, answer


async def test_built_in_variables_exist_only_for_services_of_the_same_environment(world: World):
    project = await world.project()
    one, other = await world.environment(project), await world.environment(project)
    app, stranger = await world.application(one), await world.database(other)
    assert not [
        key
        for kind in ("environmentVariable", "secret")
        for key in await built_in(world, f"/application/{app}/{kind}")
        if short(stranger) in key
    ]


# What can be done with them


async def the(world: World, app: str, key: str, kind: str = "environmentVariable") -> str:
    path = f"/application/{app}/{kind}"
    return f"{path}/{(await built_in(world, path))[key]['id']}"


async def test_built_in_variables_cannot_be_changed_or_deleted(world: World):
    path = await the(world, await world.application(), "QOVERY_PROJECT_ID")
    changed = await world.patch(path, {"value": "mine"})
    deleted = await world.delete(path)
    assert changed.status == deleted.status == 400
    assert changed.message.startswith("QOVERY_PROJECT_ID is made by Windlass and cannot be changed: override")
    assert deleted.message.startswith("QOVERY_PROJECT_ID is made by Windlass and cannot be deleted")
    assert (await world.get(path)).status == 200


async def test_a_reader_is_refused_before_the_body_is_checked(world: World):
    path = await the(world, await world.application(), "QOVERY_PROJECT_ID")
    reader = await world.new_token("Read")
    assert (await world.patch(path, {"value": "mine"}, token=reader)).status == 403
    assert (await world.delete(path, token=reader)).status == 403
    assert (await world.post(f"{path}/alias", {"key": "A"}, token=reader)).status == 403


async def test_built_in_variables_can_be_overridden(world: World):
    app = await world.application()
    path = await the(world, app, "QOVERY_APPLICATION_ID")
    made = await world.post(f"{path}/override", {"value": "mine"})
    assert made.status == 201, made
    assert (made["key"], made["value"], made["scope"]) == ("QOVERY_APPLICATION_ID", "mine", "APPLICATION")
    assert made["variable_type"] == "OVERRIDE"
    original = made["overridden_variable"]
    assert (original["id"], original["scope"]) == (path.rpartition("/")[2], "BUILT_IN")
    assert (await world.delete(f"/application/{app}/environmentVariable/{made['id']}")).status == 204


async def test_built_in_variables_can_have_an_alias(world: World):
    env = await world.environment()
    app, database = await world.application(env), await world.database(env, name="main")
    host = await the(world, app, f"QOVERY_POSTGRESQL_Z{short(database)}_HOST_INTERNAL")
    made = await world.post(f"{host}/alias", {"key": "DB_HOST"})
    assert made.status == 201, made
    assert (made["key"], made["value"]) == ("DB_HOST", f"z{database[:8]}-main")
    assert made["variable_type"] == "ALIAS"
    password = await the(world, app, f"QOVERY_POSTGRESQL_Z{short(database)}_PASSWORD", "secret")
    made = await world.post(f"{password}/alias", {"key": "DB_PASSWORD"})
    assert made.status == 201, made
    assert made["aliased_secret"]["key"].endswith("_PASSWORD")
    assert "value" not in made.json
    assert "value" not in made["aliased_secret"]


async def test_deleting_a_service_deletes_aliases_of_its_built_in_variables(world: World):
    env = await world.environment()
    app, database = await world.application(env), await world.database(env)
    path = f"/application/{app}/environmentVariable"
    host = await the(world, app, f"QOVERY_POSTGRESQL_Z{short(database)}_HOST_INTERNAL")
    alias = await world.post(f"{host}/alias", {"key": "DB_HOST"})
    second = await world.post(f"{path}/{alias['id']}/alias", {"key": "DB_HOST_TOO"})
    assert alias.status == second.status == 201
    await world.post(f"{host}/override", {"value": "elsewhere"})
    await world.post(path, {"key": "OWN"})
    assert (await world.delete(f"/database/{database}")).status == 204
    assert [one["key"] for one in (await world.get(path))["results"]] == ["OWN"]


async def test_aliases_of_built_in_variables_follow_a_renamed_database(world: World):
    env = await world.environment()
    app, database = await world.application(env), await world.database(env, name="main")
    path = f"/application/{app}/environmentVariable"
    host = await the(world, app, f"QOVERY_POSTGRESQL_Z{short(database)}_HOST_INTERNAL")
    alias = await world.post(f"{host}/alias", {"key": "DB_HOST"})
    second = await world.post(f"{path}/{alias['id']}/alias", {"key": "DB_HOST_TOO"})
    assert (await world.patch(f"/database/{database}", {"name": "store"})).status == 200
    for one in (alias, second):
        read = await world.get(f"{path}/{one['id']}")
        assert read["value"] == read["aliased_variable"]["value"] == f"z{database[:8]}-store"
        assert read.headers["etag"] == one.headers["etag"]


# Nothing is given away


async def test_no_list_of_variables_or_databases_contains_a_password(world: World):
    env = await world.environment()
    app, database = await world.application(env), await world.database(env)
    known = (await world.get(f"/database/{database}/masterCredentials"))["password"]
    answers: list[Answer] = [
        await world.get(f"{base}/{level}/{kind}")
        for base in ("", "/compat")
        for level in (f"application/{app}", f"environment/{env}")
        for kind in ("environmentVariable", "secret")
    ]
    answers += [await world.get(f"/database/{database}"), await world.get(f"/environment/{env}/database")]
    assert len(known) > 30
    assert not [answer for answer in answers if known.encode() in answer.body]


def test_ids_depend_on_owner_and_key_and_on_nothing_else():
    assert identity("a", "K") == identity("a", "K") == identity("a", "K").lower()
    assert len({identity("a", "K"), identity("b", "K"), identity("a", "L"), identity("a/K", "L")}) == 4
