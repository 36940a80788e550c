"""A service runs with the variables, files and connections of its levels."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.variables.town import Town, inputs, row_of, whereabouts
from windlass.control.variables.inputs import inputs_of
from windlass.core.words.variables import Inputs, UnresolvableVariable
from windlass.store import Tx


def own(variables: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in variables.items() if not key.startswith(("QOVERY_", "WINDLASS_"))}


# What it runs with


async def test_a_service_runs_with_the_variables_of_its_levels_and_the_nearest_wins(town: Town):
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


async def test_overrides_and_aliases_are_passed_to_the_service_with_their_values(town: Town):
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


async def test_references_in_values_are_expanded_and_values_with_secrets_are_no_build_arguments(town: Town):
    await town.says("project", "URL", "https://{{USER}}:{{PASS}}@{{HOST}}/")
    await town.says("project", "HOST", "example.com")
    await town.says("application", "USER", "me")
    await town.says("environment", "PASS", "word", kind="secret")
    await town.says("application", "ODD", "{{NOBODY}}")
    found = await inputs(town.world, town.app)
    assert found.variables["URL"] == "https://me:word@example.com/"
    assert own(found.arguments) == {"HOST": "example.com", "USER": "me", "ODD": "{{NOBODY}}"}
    assert found.warnings == ("ODD mentions {{NOBODY}} that no variable here has: it stays as it is written",)


async def test_file_variables_are_written_to_their_path_and_their_value_is_the_path(town: Town):
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


async def test_a_reference_cycle_across_levels_is_refused(town: Town):
    await town.says("project", "A", "{{B}}")
    await town.says("application", "B", "{{A}}")
    with pytest.raises(UnresolvableVariable, match="mentions itself"):
        await inputs(town.world, town.app)


async def test_built_in_variables_have_two_prefixes_and_the_real_addresses(town: Town):
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


async def test_services_and_the_credentials_endpoint_get_the_same_database_connection(
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


async def test_an_alias_of_a_database_password_has_its_value_and_is_secret(town: Town):
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


async def test_the_older_of_two_similar_database_names_wins_with_a_warning(town: Town):
    predecessor = await town.world.database(town.env, name="main-db", type="REDIS", version="7")
    younger = await town.world.database(town.env, name="main_db")
    found = await inputs(town.world, town.app)
    assert found.variables["MAIN_DB_URL"].startswith("redis://")
    for type, id in (("REDIS", predecessor), ("POSTGRESQL", younger)):
        assert f"QOVERY_{type}_Z{id[:8].upper()}_HOST_INTERNAL" in found.variables
    (warning,) = found.warnings
    assert warning == "MAIN_DB_… are the variables of the database main-db, not of main_db: rename one"


async def test_a_service_without_a_port_has_no_host_variables(town: Town):
    silent = await town.world.application(town.env)
    found = await inputs(town.world, town.app)
    assert not [key for key in found.variables if silent[:8].upper() in key]


async def test_a_database_gets_no_variables_of_its_environment(town: Town):
    await town.says("environment", "COLOUR", "teal")
    found = await inputs(town.world, await town.world.database(town.env))
    assert (found.variables, found.files, found.arguments) == ({}, {}, {})


async def test_inputs_can_be_read_inside_a_transaction(town: Town):
    ctx, row = town.world.installation.ctx, await row_of(town.world, town.app)
    await town.world.database(town.env)

    async def read(tx: Tx) -> Inputs:
        found, _ = await inputs_of(ctx, tx, row, whereabouts)
        return found

    assert await ctx.store.write(read) == await inputs(town.world, town.app)
