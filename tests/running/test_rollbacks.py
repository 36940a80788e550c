"""A rollback goes back to the settings and variables of an earlier deployment, and shows it beforehand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.running.deployments import deploy, deployed
from tests.world import Answer, World

VALUE, SECRET = "environmentVariable", "secret"
KEYS = {"COLOUR", "LEVEL", "TOKEN", "SHADE", "ALL"}


async def declare(world: World, place: str, key: str, value: str, kind: str = VALUE) -> str:
    return await world.made(f"/{place}/{kind}", {"key": key, "value": value})


async def variables(world: World, app: str) -> dict[str, str]:
    """Returns the variables with which an application runs, without built-in ones."""
    running = world.engine.running[app].variables
    return {key: value for key, value in running.items() if key in KEYS}


async def roll_back(world: World, app: str, version: str = "v1", **body: Any) -> Answer:
    answer = await world.post(f"/application/{app}/rollback", {"deployment_id": version, **body})
    await world.settle()
    return answer


async def redeploy(world: World, app: str) -> None:
    await deploy(world, app)
    await world.settle()


async def differences(world: World, app: str, version: str = "v1") -> dict[str, Any]:
    answer = await world.get(f"/application/{app}/rollbackDifference?deployment_id={version}")
    assert answer.status == 200, answer
    return {change["key"]: change for change in answer["changes"]}


@pytest.fixture
async def app(world: World) -> str:
    """An application whose v1 ran with COLOUR, LEVEL and the secret TOKEN, and that runs with other ones."""
    app = await world.application(memory=256)
    place = f"application/{app}"
    colour = await declare(world, place, "COLOUR", "red")
    level = await declare(world, place, "LEVEL", "1")
    token = await declare(world, place, "TOKEN", "first", SECRET)
    await redeploy(world, app)
    await world.patch(f"/{place}", {"memory": 1024, "arguments": ["--fast"]})
    await world.patch(f"/{place}/{VALUE}/{colour}", {"value": "blue"})
    await world.delete(f"/{place}/{VALUE}/{level}")
    await declare(world, place, "SHADE", "dark")
    await world.patch(f"/{place}/{SECRET}/{token}", {"value": "second"})
    world.git.push("a change")
    await redeploy(world, app)
    return app


async def test_a_rollback_brings_settings_variables_and_secrets_back(world: World, app: str):
    assert await variables(world, app) == {"COLOUR": "blue", "SHADE": "dark", "TOKEN": "second"}
    assert (await roll_back(world, app)).status == 202
    assert await variables(world, app) == {"COLOUR": "red", "LEVEL": "1", "TOKEN": "first"}
    shown = await world.get(f"/application/{app}")
    assert (shown["memory"], shown["arguments"]) == (256, [])
    assert world.engine.running[app].memory == 256
    status = await world.get(f"/application/{app}/status")
    assert status["service_deployment_status"] == "UP_TO_DATE"


async def test_a_rollback_can_keep_the_present_settings(world: World, app: str):
    assert (await roll_back(world, app, settings="present")).status == 202
    assert await variables(world, app) == {"COLOUR": "blue", "SHADE": "dark", "TOKEN": "second"}
    assert (await world.get(f"/application/{app}"))["memory"] == 1024
    assert (await roll_back(world, app, settings="former")).status == 400


async def test_a_rollback_after_a_rollback_brings_everything_back(world: World, app: str):
    await declare(world, f"application/{app}", "ALL", "third", SECRET)
    await redeploy(world, app)
    await roll_back(world, app)
    assert "ALL" not in await variables(world, app)
    assert (await roll_back(world, app, "v3")).status == 202
    assert await variables(world, app) == {
        "COLOUR": "blue",
        "SHADE": "dark",
        "TOKEN": "second",
        "ALL": "third",
    }
    assert (await world.get(f"/application/{app}"))["memory"] == 1024


async def test_the_difference_of_a_rollback_shows_values_but_no_secrets(world: World, app: str):
    found = await differences(world, app)
    shown = {
        key: (change["subject"], change["change"], change["present"], change["former"])
        for key, change in found.items()
    }
    assert shown == {
        "memory": ("SETTING", "CHANGE", "1024", "256"),
        "arguments": ("SETTING", "CHANGE", '["--fast"]', "[]"),
        "COLOUR": ("VARIABLE", "CHANGE", "blue", "red"),
        "LEVEL": ("VARIABLE", "ADD", None, "1"),
        "SHADE": ("VARIABLE", "REMOVE", "dark", None),
        "TOKEN": ("SECRET", "CHANGE", None, None),
    }
    assert all(change["goes_back"] for change in found.values())
    await roll_back(world, app)
    assert await differences(world, app) == {}


async def test_a_rollback_asks_for_a_secret_that_was_deleted(world: World, app: str):
    [token] = (await world.get(f"/application/{app}/{SECRET}"))["results"]
    assert (await world.delete(f"/application/{app}/{SECRET}/{token['id']}")).status == 204
    [answer] = [await world.get(f"/application/{app}/rollbackDifference?deployment_id=v1")]
    assert answer["missing"] == ["TOKEN"]
    refused = await roll_back(world, app)
    assert (refused.status, refused.message.partition(",")[0]) == (
        409,
        "Create the secret TOKEN again first",
    )
    assert (await world.get(f"/application/{app}"))["memory"] == 1024, "nothing goes back by halves"
    await declare(world, f"application/{app}", "TOKEN", "given anew", SECRET)
    assert (await roll_back(world, app)).status == 202
    assert (await variables(world, app))["TOKEN"] == "given anew"


async def test_the_deletion_of_a_secret_erases_its_kept_values(world: World, app: str):
    [token] = (await world.get(f"/application/{app}/{SECRET}"))["results"]
    kept = world.installation.ctx.store.reads.deployment_inputs
    assert [bool(version.sealed) for version in await kept.of_holder(app, SECRET)] == [True, True]
    await world.delete(f"/application/{app}/{SECRET}/{token['id']}")
    assert [bool(version.sealed) for version in await kept.of_holder(app, SECRET)] == [False, False]


async def test_the_deletion_of_a_secret_erases_values_of_its_key_that_a_rollback_has_deleted(
    world: World, app: str
):
    await declare(world, f"application/{app}", "ALL", "third", SECRET)
    await redeploy(world, app)
    await roll_back(world, app, "v2")  # deletes ALL, and v3 keeps its value
    again = await declare(world, f"application/{app}", "ALL", "fourth", SECRET)
    await world.delete(f"/application/{app}/{SECRET}/{again}")
    refused = await roll_back(world, app, "v3")
    assert (refused.status, refused.message.partition(",")[0]) == (409, "Create the secret ALL again first")


async def test_storage_names_and_what_says_nothing_of_running_stay(world: World):
    app = await deployed(world, storage=[{"size": 1, "mount_point": "/data"}], description="before")
    changes = {
        "name": "renamed",
        "description": "after",
        "storage": [{"size": 2, "mount_point": "/data"}],
        "cpu": 700,
    }
    assert (await world.patch(f"/application/{app}", changes)).status == 200
    assert [*await differences(world, app)] == ["cpu"]
    await roll_back(world, app)
    shown = await world.get(f"/application/{app}")
    assert (shown["name"], shown["description"], shown["cpu"]) == ("renamed", "after", 500)
    assert shown["storage"][0]["size"] == 2


async def test_a_database_goes_back_to_its_settings_and_not_to_its_version(world: World):
    database = await world.database(version="16", memory=256)
    for change in ({}, {"version": "16.4", "memory": 512}):
        await world.patch(f"/database/{database}", change)
        await world.post(f"/database/{database}/deploy")
        await world.settle()
    present = world.engine.running[database].artifact
    answer = await world.post(f"/database/{database}/rollback")
    assert answer.status == 202, answer
    await world.settle()
    shown = await world.get(f"/database/{database}")
    assert (shown["version"], shown["memory"]) == ("16.4", 256)
    assert world.engine.running[database].artifact == present


async def test_variables_of_the_environment_stay_and_the_difference_says_why(world: World):
    environment = await world.environment()
    colour = await declare(world, f"environment/{environment}", "COLOUR", "red")
    app = await world.application(environment)
    await redeploy(world, app)
    await world.patch(f"/environment/{environment}/{VALUE}/{colour}", {"value": "blue"})
    change = (await differences(world, app))["COLOUR"]
    assert (change["goes_back"], change["scope"], change["former"]) == (False, "ENVIRONMENT", "red")
    assert change["reason"] == "It belongs to the environment, which other services share"
    await roll_back(world, app)
    assert await variables(world, app) == {"COLOUR": "blue"}


async def test_a_token_without_write_rolls_back_the_build_alone(world: World, app: str):
    token = await world.new_token("DEPLOY", "READ")
    path, body = f"/application/{app}/rollback", {"deployment_id": "v1"}
    refused = await world.post(path, body, token=token)
    assert (refused.status, "scope Write" in refused.message) == (403, True)
    assert (await world.post(path, {**body, "settings": "present"}, token=token)).status == 202
    await world.settle()
    await roll_back(world, app)  # settings and variables are those of v1 now
    assert (await world.post(path, body, token=token)).status == 202


async def test_aliases_come_back_with_the_variables_for_which_they_stand(world: World):
    app = await world.application()
    colour = await declare(world, f"application/{app}", "COLOUR", "red")
    alias = await world.post(f"/application/{app}/{VALUE}/{colour}/alias", {"key": "SHADE"})
    assert alias.status == 201, alias
    await redeploy(world, app)
    await world.delete(f"/application/{app}/{VALUE}/{colour}")  # and its alias with it
    await redeploy(world, app)
    assert await variables(world, app) == {}
    assert (await roll_back(world, app)).status == 202
    assert await variables(world, app) == {"COLOUR": "red", "SHADE": "red"}


async def test_advanced_settings_go_back(world: World):
    app = await deployed(world)
    path = f"/application/{app}/advancedSettings"
    changed = {"deployment.termination_grace_period_seconds": 7}
    defaults = (await world.get(path)).json
    assert (await world.put(path, {**defaults, **changed})).status == 201
    found = await differences(world, app)
    assert [(change["subject"], change["present"]) for change in found.values()] == [
        ("ADVANCED_SETTING", "7")
    ]
    await roll_back(world, app)
    assert (await world.get(path)).json == defaults


async def test_a_restart_keeps_the_inputs_of_the_deployment_that_it_starts_again(world: World, app: str):
    await world.patch(f"/application/{app}", {"memory": 2048})
    await world.post(f"/application/{app}/restart-service")
    await world.settle()
    await redeploy(world, app)
    assert (await roll_back(world, app, "v3")).status == 202
    assert (await world.get(f"/application/{app}"))["memory"] == 1024


async def test_a_rollback_without_a_version_goes_back_to_other_settings_of_the_same_build(world: World):
    app = await deployed(world)
    await world.patch(f"/application/{app}", {"memory": 1024})
    await world.post(f"/application/{app}/redeploy")
    await world.settle()
    answer = await world.get(f"/application/{app}/rollbackDifference")
    assert (answer["number"], answer["same_build"]) == (1, True)
    assert (await world.post(f"/application/{app}/rollback")).status == 202
    await world.settle()
    assert world.engine.running[app].memory == 512


async def test_a_deployment_without_kept_inputs_goes_back_with_the_present_settings(world: World, app: str):
    await world.installation.ctx.store.write(lambda tx: tx.deployment_inputs.delete_of(app))
    answer = await world.get(f"/application/{app}/rollbackDifference?deployment_id=v1")
    assert (answer["settings_known"], answer["changes"]) == (False, [])
    assert (await roll_back(world, app)).status == 202
    assert (await variables(world, app))["COLOUR"] == "blue"
