"""What a service runs with, read out of a whole Windlass; and the digest that tells when it has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tests.world import World, make_world
from windlass.control.variables.inputs import _sha, inputs_of, is_current
from windlass.core.deploy.workload import ServiceAddress
from windlass.core.words.variables import Inputs, Unusable
from windlass.store import Row, Tx

PORT = {"internal_port": 8080, "protocol": "HTTP", "publicly_accessible": True}


async def whereabouts(environment: str, service: str, name: str, internal: int) -> ServiceAddress:
    return ServiceAddress(f"{name}.inside", internal + 10_000)


async def row_of(world: World, service: str) -> Row:
    row = await world.installation.ctx.store.reads.resources.get(service)
    assert row is not None
    return row


async def inputs(world: World, service: str) -> Inputs:
    ctx = world.installation.ctx
    return await inputs_of(ctx, ctx.store.reads, await row_of(world, service), whereabouts)


async def current(world: World, service: str, before: Inputs) -> bool:
    ctx = world.installation.ctx
    return await is_current(ctx, ctx.store.reads, await row_of(world, service), before.digest)


class Town:
    """A project, an environment and an application, with something to say at each level."""

    def __init__(self, world: World, project: str, env: str, app: str) -> None:
        self.world, self.project, self.env, self.app = world, project, env, app
        self.levels = {
            "project": f"/project/{project}",
            "environment": f"/environment/{env}",
            "application": f"/application/{app}",
        }

    async def says(
        self, level: str, key: str, value: str = "", kind: str = "environmentVariable", **more: Any
    ) -> str:
        return await self.world.made(f"{self.levels[level]}/{kind}", {"key": key, "value": value} | more)

    async def alias(self, key: str) -> str:
        """Under another key, for the application."""
        path = f"{self.levels['application']}/environmentVariable"
        listed = (await self.world.get(f"/compat{path}"))["results"]
        found = next(one["id"] for one in listed if one["key"] == key)
        return await self.world.made(f"{path}/{found}/alias", {"key": "ALIAS"})


async def settled(world: World) -> Town:
    project = await world.project()
    env = await world.environment(project, name="blue")
    return Town(world, project, env, await world.application(env, name="shop", ports=[PORT]))


@pytest.fixture
async def town(world: World) -> Town:
    return await settled(world)


def own(variables: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in variables.items() if not key.startswith(("QOVERY_", "WINDLASS_"))}


# What it runs with


async def test_a_service_runs_with_what_is_said_at_its_levels_and_the_nearest_has_the_say(town: Town):
    for level in ("project", "environment", "application"):
        await town.says(level, f"AT_{level.upper()}", level)
    for level in ("project", "environment"):
        await town.says(level, "SHARED", level)
    await town.says("project", "HUSHED", "far", kind="secret")
    await town.says("application", "HUSHED", "near", kind="secret")
    found = await inputs(town.world, town.app)
    assert own(found.variables) == {
        "AT_PROJECT": "project",
        "AT_ENVIRONMENT": "environment",
        "AT_APPLICATION": "application",
        "SHARED": "environment",
        "HUSHED": "near",
    }
    assert found.secrets == {"HUSHED"}


async def test_overrides_and_aliases_count_as_they_are_shown(town: Town):
    world, app = town.world, town.levels["application"]
    colour = await town.says("project", "COLOUR", "teal")
    secret = await town.says("project", "PASS", "word", kind="secret")
    await world.post(f"{app}/environmentVariable/{colour}/override", {"value": "red"})
    await world.post(f"{app}/environmentVariable/{colour}/alias", {"key": "FIRST_COLOUR"})
    await world.post(f"{app}/secret/{secret}/alias", {"key": "PASSWORD"})
    assert own((await inputs(world, town.app)).variables) == {
        "COLOUR": "red", "FIRST_COLOUR": "teal", "PASS": "word", "PASSWORD": "word",
    }  # fmt: skip
    await world.patch(f"{town.levels['project']}/secret/{secret}", {"value": "changed"})
    found = await inputs(world, town.app)
    assert found.variables["PASSWORD"] == "changed"
    assert found.secrets == {"PASS", "PASSWORD"}


async def test_names_in_values_are_looked_up_and_what_has_a_secret_in_it_is_no_build_argument(town: Town):
    await town.says("project", "URL", "https://{{USER}}:{{PASS}}@{{HOST}}/")
    await town.says("project", "HOST", "example.com")
    await town.says("application", "USER", "me")
    await town.says("environment", "PASS", "word", kind="secret")
    await town.says("application", "ODD", "{{NOBODY}}")
    found = await inputs(town.world, town.app)
    assert found.variables["URL"] == "https://me:word@example.com/"
    assert own(found.arguments) == {"HOST": "example.com", "USER": "me", "ODD": "{{NOBODY}}"}
    assert found.warnings == ("ODD mentions {{NOBODY}} that no variable here has: it stays as it is written",)


async def test_files_are_there_with_their_content_and_the_variable_says_where(town: Town):
    await town.says("environment", "N", "1")
    await town.says("environment", "PLAIN", "n={{N}}", mount_path="/etc/plain")
    await town.says(
        "environment", "FILLED", "n={{N}}", mount_path="/etc/filled", enable_interpolation_in_file=True
    )
    await town.says("application", "CERT", "-----", kind="secret", mount_path="/etc/cert")
    found = await inputs(town.world, town.app)
    assert found.files == {"/etc/plain": b"n={{N}}", "/etc/filled": b"n=1", "/etc/cert": b"-----"}
    assert found.variables["CERT"] == "/etc/cert"
    assert b"-----" not in repr(found.arguments).encode()


async def test_a_circle_is_refused_with_its_keys(town: Town):
    await town.says("project", "A", "{{B}}")
    await town.says("application", "B", "{{A}}")
    with pytest.raises(Unusable, match="mentions itself"):
        await inputs(town.world, town.app)


async def test_built_in_variables_are_there_twice_with_the_places_where_things_really_are(town: Town):
    found = (await inputs(town.world, town.app)).variables
    mark = f"APPLICATION_Z{town.app[:8].upper()}"
    for prefix in ("QOVERY", "WINDLASS"):
        assert {key: value for key, value in found.items() if key.startswith(prefix)} == {
            f"{prefix}_PROJECT_ID": town.project,
            f"{prefix}_ENVIRONMENT_ID": town.env,
            f"{prefix}_APPLICATION_ID": town.app,
            f"{prefix}_{mark}_HOST_INTERNAL": "shop.inside",
            f"{prefix}_{mark}_PORT_INTERNAL": "18080",
            f"{prefix}_{mark}_HOST_EXTERNAL": "shop-blue.localhost",
        }


async def test_own_variables_override_built_in_ones(town: Town):
    await town.says("project", "WINDLASS_PROJECT_ID", "mine")
    found = (await inputs(town.world, town.app)).variables
    assert (found["WINDLASS_PROJECT_ID"], found["QOVERY_PROJECT_ID"]) == ("mine", town.project)


async def test_services_get_the_connection_of_each_database_and_it_is_the_one_that_people_are_told(
    town: Town,
):
    world = town.world
    database = await world.database(town.env, name="main-db")
    known = await world.get(f"/database/{database}/masterCredentials")
    found = await inputs(world, town.app)
    password = known["password"]
    assert own(found.variables) == {
        "MAIN_DB_HOST": "main-db.inside",
        "MAIN_DB_PORT": "15432",
        "MAIN_DB_USER": known["login"],
        "MAIN_DB_PASSWORD": password,
        "MAIN_DB_NAME": "postgres",
        "MAIN_DB_URL": f"postgresql://postgres:{password}@main-db.inside:15432/postgres",
    }
    assert found.variables[f"QOVERY_POSTGRESQL_Z{database[:8].upper()}_PASSWORD"] == password
    assert {key for key, value in found.variables.items() if password in value} == found.secrets
    assert password not in repr(found.arguments)


async def test_an_alias_of_a_password_has_it_and_is_a_secret(town: Town):
    world, database = town.world, await town.world.database(town.env, name="main")
    path = f"{town.levels['application']}/secret"
    (one,) = [
        one for one in (await world.get(f"/compat{path}"))["results"] if one["key"].endswith("_PASSWORD")
    ]
    assert (await world.post(f"{path}/{one['id']}/alias", {"key": "PGPASSWORD"})).status == 201
    found = await inputs(world, town.app)
    known = (await world.get(f"/database/{database}/masterCredentials"))["password"]
    assert found.variables["PGPASSWORD"] == known
    assert "PGPASSWORD" in found.secrets


async def test_of_databases_with_names_alike_the_elder_gives_its_name_and_that_is_said(town: Town):
    elder = await town.world.database(town.env, name="main-db", type="REDIS", version="7")
    younger = await town.world.database(town.env, name="main_db")
    found = await inputs(town.world, town.app)
    assert found.variables["MAIN_DB_URL"].startswith("redis://")
    for type, id in (("REDIS", elder), ("POSTGRESQL", younger)):
        assert f"QOVERY_{type}_Z{id[:8].upper()}_HOST_INTERNAL" in found.variables
    (warning,) = found.warnings
    assert warning == "MAIN_DB_… are the variables of the database main-db, not of main_db: rename one"


async def test_a_neighbour_that_listens_nowhere_is_not_to_be_found(town: Town):
    silent = await town.world.application(town.env)
    found = await inputs(town.world, town.app)
    assert not [key for key in found.variables if silent[:8].upper() in key]


async def test_a_database_runs_with_nothing_of_its_environment(town: Town):
    await town.says("environment", "COLOUR", "teal")
    found = await inputs(town.world, await town.world.database(town.env))
    assert (found.variables, found.files, found.arguments) == ({}, {}, {})


async def test_inputs_can_be_read_inside_a_transaction(town: Town):
    ctx, row = town.world.installation.ctx, await row_of(town.world, town.app)
    await town.world.database(town.env)

    async def read(tx: Tx) -> Inputs:
        return await inputs_of(ctx, tx, row, whereabouts)

    assert await ctx.store.write(read) == await inputs(town.world, town.app)


# The digest


CHANGES: Mapping[str, Any] = {
    "a variable of the service": lambda town: town.says("application", "NEW"),
    "a variable of the environment": lambda town: town.says("environment", "NEW"),
    "a variable of the project": lambda town: town.says("project", "NEW"),
    "a secret of the service": lambda town: town.says("application", "NEW", kind="secret"),
    "a secret of the project": lambda town: town.says("project", "NEW", kind="secret"),
    "another value": lambda town: town.world.patch(
        f"{town.levels['project']}/environmentVariable/{town.variable}", {"value": "other"}
    ),
    "another secret": lambda town: town.world.patch(
        f"{town.levels['project']}/secret/{town.secret}", {"value": "other"}
    ),
    "a variable gone": lambda town: town.world.delete(
        f"{town.levels['project']}/environmentVariable/{town.variable}"
    ),
    "an override": lambda town: town.world.post(
        f"{town.levels['application']}/secret/{town.secret}/override", {"value": "x"}
    ),
    "cpu": lambda town: town.world.patch(f"/application/{town.app}", {"cpu": 777}),
    "name": lambda town: town.world.patch(f"/application/{town.app}", {"name": "store"}),
    "ports": lambda town: town.world.patch(f"/application/{town.app}", {"ports": []}),
    "arguments": lambda town: town.world.patch(f"/application/{town.app}", {"arguments": ["x"]}),
    "entrypoint": lambda town: town.world.patch(f"/application/{town.app}", {"entrypoint": "x"}),
    "the branch": lambda town: town.world.patch(
        f"/application/{town.app}", {"git_repository": {"url": "https://git.example/a.git", "branch": "x"}}
    ),
    "a health check": lambda town: town.world.patch(
        f"/application/{town.app}",
        {"healthchecks": {"readiness_probe": {"type": {"tcp": {"port": 8080}}}}},
    ),
}
NO_CHANGES: Mapping[str, Any] = {
    "a database of another name": lambda town: town.world.patch(f"/database/{town.database}", {"name": "x"}),
    "a database gone": lambda town: town.world.delete(f"/database/{town.database}"),
    "a new database": lambda town: town.world.database(town.env),
    "nothing": lambda town: town.world.get("/organization"),
    "description": lambda town: town.world.patch(f"/application/{town.app}", {"description": "x"}),
    "icon": lambda town: town.world.patch(f"/application/{town.app}", {"icon_uri": "app://x"}),
    "auto_deploy": lambda town: town.world.patch(f"/application/{town.app}", {"auto_deploy": True}),
    "null for what was absent": lambda town: town.world.patch(
        f"/application/{town.app}", {"entrypoint": None, "autoscaling": None}
    ),
    "the same again": lambda town: town.world.patch(f"/application/{town.app}", {"cpu": 500}),
    "a neighbour": lambda town: town.world.application(town.env),
    "a variable elsewhere": lambda town: town.world.made(
        f"/application/{town.neighbour}/environmentVariable", {"key": "NEW"}
    ),
    "a database elsewhere": lambda town: town.world.database(),
    "more memory for a database": lambda town: town.world.patch(
        f"/database/{town.database}", {"memory": 512}
    ),
    "the name of the environment": lambda town: town.world.patch(f"/environment/{town.env}", {"name": "x"}),
}


class Furnished(Town):
    def __init__(self, town: Town, **ids: str) -> None:
        super().__init__(town.world, town.project, town.env, town.app)
        self.variable, self.secret = ids["variable"], ids["secret"]
        self.database, self.neighbour = ids["database"], ids["neighbour"]


async def furnished(world: World) -> Furnished:
    town = await settled(world)
    return Furnished(
        town,
        variable=await town.says("project", "OLD", "1"),
        secret=await town.says("project", "OLD_SECRET", "1", kind="secret"),
        database=await world.database(town.env),
        neighbour=await world.application(town.env),
    )


@pytest.mark.parametrize("what", CHANGES)
async def test_each_input_of_a_service_changes_the_digest(what: str):
    async with make_world() as world:
        town = await furnished(world)
        before = await inputs(world, town.app)
        assert await current(world, town.app, before)
        answer = await CHANGES[what](town)
        assert isinstance(answer, str) or answer.status < 300, answer
        assert not await current(world, town.app, before)
        after = await inputs(world, town.app)
        assert after.digest != before.digest
        assert await current(world, town.app, after)


@pytest.mark.parametrize("what", NO_CHANGES)
async def test_unrelated_variables_do_not_change_the_digest(what: str):
    async with make_world() as world:
        town = await furnished(world)
        before = await inputs(world, town.app)
        answer = await NO_CHANGES[what](town)
        assert isinstance(answer, str) or answer.status < 300, answer
        assert await current(world, town.app, before)
        assert (await inputs(world, town.app)).digest == before.digest


WAYS: Mapping[str, Any] = {
    "a variable": lambda town, key: town.says("project", "A", f"x {{{{{key}}}}}"),
    "a secret": lambda town, key: town.says("application", "A", f"{{{{{key}}}}}", kind="secret"),
    "an alias": lambda town, key: town.alias(key),
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_database_is_an_input_of_services_that_mention_it(way: str):
    async with make_world() as world:
        town = await furnished(world)
        await world.patch(f"/database/{town.database}", {"name": "main"})
        await WAYS[way](town, f"QOVERY_POSTGRESQL_Z{town.database[:8].upper()}_HOST_INTERNAL")
        using, other = await inputs(world, town.app), await inputs(world, town.neighbour)
        await world.database(town.env, name="another")
        assert await current(world, town.app, using)
        await world.patch(f"/database/{town.database}", {"name": "second"})
        assert not await current(world, town.app, using)
        if way != "a variable":  # which is of the whole project
            assert await current(world, town.neighbour, other)


async def test_a_database_that_variables_waited_for_counts_when_it_comes(town: Town):
    world = town.world
    await town.says("application", "ADDRESS", "{{MAIN_DB_URL}}", kind="secret")
    waiting = await inputs(world, town.app)
    await world.database(town.env, name="other")
    assert await current(world, town.app, waiting)
    await world.database(town.env, name="main-db")
    assert not await current(world, town.app, waiting)
    assert "MAIN_DB_URL" not in waiting.digest


async def test_a_digest_from_before_counts_every_database(town: Town):
    """As it was written until 0.1: services that run then do not all become out of date by an upgrade."""
    world, service = town.world, await row_of(town.world, town.app)
    await world.database(town.env, name="first")
    ctx = world.installation.ctx
    marks = await ctx.store.reads.tree.marks(town.app, ["environmentVariable", "secret", "database"])
    old = msgspec.structs.replace(await inputs(world, town.app), digest=_sha(ctx, service, marks))
    assert await current(world, town.app, old)
    await world.database(town.env, name="second")
    assert not await current(world, town.app, old)


async def test_the_digest_of_a_database_is_of_its_own_settings(town: Town):
    world, database = town.world, await town.world.database(town.env)
    before = await inputs(world, database)
    await town.says("environment", "NEW")
    await world.patch(f"/database/{database}", {"description": "x"})
    assert await current(world, database, before)
    assert (await inputs(world, database)).digest == before.digest
    await world.patch(f"/database/{database}", {"memory": 777})
    assert not await current(world, database, before)


async def test_a_deployed_commit_is_no_change_of_what_was_asked_for(town: Town):
    """The server writes it into the document after each deployment."""
    world, ctx = town.world, town.world.installation.ctx
    before = await inputs(world, town.app)
    assert (await world.post(f"/application/{town.app}/deploy")).status == 202
    await world.settle()
    row = await row_of(world, town.app)

    async def write(tx: Tx) -> None:
        body = row.body.replace(b'"deployed_commit_id":"', b'"deployed_commit_id":"abc')
        assert body != row.body
        await tx.resources.rewrite(row.id, body)

    await ctx.store.write(write)
    assert await current(world, town.app, before)
