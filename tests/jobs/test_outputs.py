"""A job does not harm other services with the variables that it sets."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.jobs.sites import Programs, deployed, new_job, ready_job
from tests.jobs.test_events import events, variables
from tests.world import World
from windlass.builders.git.settings import environment as git_environment
from windlass.builders.git.source import place
from windlass.builders.native import tools
from windlass.core.words.startup_names import changes_starts
from windlass.launch.terraform_environment import program_environment

pytestmark = pytest.mark.alike

STARTS = [
    "PATH", "PORT", "LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV", "ENV", "PYTHONPATH", "PYTHONSTARTUP",
    "PERL5OPT", "RUBYOPT", "NODE_OPTIONS", "JAVA_TOOL_OPTIONS", "GIT_SSH_COMMAND", "GIT_CONFIG_COUNT",
    "https_proxy", "npm_config_registry", "PIP_INDEX_URL", "GOFLAGS", "RUSTC_WRAPPER", "TF_CLI_ARGS_plan",
    "TF_CLI_CONFIG_FILE", "SSL_CERT_FILE", "OPENSSL_CONF", "BASH_FUNC_ls.x", "DOTNET_STARTUP_HOOKS",
    "ASPNETCORE_HOSTINGSTARTUPASSEMBLIES", "DJANGO_SETTINGS_MODULE", "FLASK_APP", "UVICORN_APP", "RAILS_ENV",
    "CELERY_APP", "SPRING_CONFIG_LOCATION", "LOADER_PATH", "CATALINA_OPTS", "PRISMA_QUERY_ENGINE_LIBRARY",
]  # fmt: skip
ORDINARY = [
    "DATABASE_URL",
    "BUCKET",
    "PATHS",
    "MY_PATH",
    "GOOGLE_PROJECT",
    "TF_VAR_size",
    "PGHOST",
    "HOST",
    "A",
]


def written(values: dict[str, Any], *, sensitive: bool = False, description: str = "") -> bytes:
    fields = {"sensitive": sensitive, "description": description}
    return msgspec.json.encode({key: {"value": value, **fields} for key, value in values.items()})


async def message_of(world: World, job: str, output: bytes) -> str:
    """The message of a deployment of a job that writes this."""
    world.engine.output = output
    deployment = await deployed(world, job)
    return str(deployment["message"]) if deployment["status"] == "FAILED" else ""


@pytest.mark.parametrize("key", STARTS)
async def test_an_output_does_not_change_how_programs_start(world: World, key: str) -> None:
    environment = await world.environment()
    job = await new_job(world, environment, schedule=events("on_start"))
    message = await message_of(world, job, written({"A": "1", key: "/tmp/evil"}))
    assert f"Write another name than {key} to the output file" in message
    assert await variables(world, environment) == {}


@pytest.mark.parametrize("key", STARTS)
async def test_people_set_variables_that_change_how_programs_start(world: World, key: str) -> None:
    environment = await world.environment()
    await world.made(f"/environment/{environment}/environmentVariable", {"key": key, "value": "/opt"})
    assert await variables(world, environment) == {key: "/opt"}


@pytest.mark.parametrize("key", ORDINARY)
async def test_an_output_with_another_name_is_shared(world: World, key: str) -> None:
    environment = await world.environment()
    world.engine.output = written({key: "1"})
    await ready_job(world, environment, schedule=events("on_start"))
    assert await variables(world, environment) == {key: "1"}


def followed(folder: Path) -> Iterator[str]:
    """The names of variables that programs follow when Windlass itself starts them."""
    yield from tools.PASSED
    yield from tools.OURS
    yield from (f"{beginning}X" for beginning in tools.PASSED_BEGINNINGS)
    where = place("ssh://git@git.example/acme/shop.git")
    yield from git_environment(where, [ip_address("192.0.2.1")], folder)
    request = {"url": "http://127.0.0.1:1", "var_files": [], "vars": [], "mirror": "", "downloads": False}
    given = {"TMPDIR": str(folder), "WINDLASS_TERRAFORM_TOKEN": ""}
    yield from program_environment(given, request, folder, "http://windlass")


def test_no_variable_that_directs_programs_of_windlass_may_be_an_output(tmp_path: Path) -> None:
    names = {*followed(tmp_path)} - {"CHECKPOINT_DISABLE"}  # asks for news of versions
    assert len(names) > 40
    assert sorted(name for name in names if not changes_starts(name)) == []


async def test_an_output_changes_no_variable_of_another_job(world: World) -> None:
    """Negative control: `test_a_later_run_changes_the_variables_that_a_job_has_set`."""
    environment = await world.environment()
    world.engine.output = written({"A": "1"}, description="Of the first")
    await ready_job(world, environment, name="first", schedule=events("on_start"))
    other = await new_job(world, environment, name="other", schedule=events("on_start"))
    assert "the job first has set it" in await message_of(world, other, written({"A": "2"}))
    assert await variables(world, environment) == {"A": "1"}


@pytest.mark.parametrize("name", ["first", "first: with a colon"])
async def test_a_job_does_not_pass_for_another_by_its_name(world: World, name: str) -> None:
    environment = await world.environment()
    world.engine.output = written({"A": "1"})
    await ready_job(world, environment, name=name, schedule=events("on_start"))
    other = await new_job(
        world, environment, name="first" if name != "first" else "firs", schedule=events("on_start")
    )
    assert f"the job {name} has set it" in await message_of(world, other, written({"A": "2"}))


async def test_a_job_does_not_pass_for_another_that_had_its_name(world: World) -> None:
    environment = await world.environment()
    world.engine.output = written({"A": "1"})
    job = await ready_job(world, environment, name="first", schedule=events("on_start"))
    assert (await world.patch(f"/job/{job}", {"name": "renamed"})).status == 200
    other = await new_job(world, environment, name="first", schedule=events("on_start"))
    assert "the job renamed has set it" in await message_of(world, other, written({"A": "2"}))


async def test_a_job_changes_no_variable_of_people_whose_description_names_it(world: World) -> None:
    environment = await world.environment()
    mine = {"key": "A", "value": "1", "description": "Set by the job first"}
    await world.made(f"/environment/{environment}/environmentVariable", mine)
    job = await new_job(world, environment, name="first", schedule=events("on_start"))
    assert "no job has set it" in await message_of(world, job, written({"A": "2"}))


async def test_a_variable_stays_that_of_its_job_whatever_people_write_to_it(world: World) -> None:
    environment = await world.environment()
    world.engine.output = written({"A": "1"})
    job = await ready_job(world, environment, schedule=events("on_start"))
    (row,) = (await world.get(f"/environment/{environment}/environmentVariable"))["results"]
    assert row["set_by_job"] == job
    path = f"/environment/{environment}/environmentVariable/{row['id']}"
    assert (await world.patch(path, {"description": "Mine"})).status == 200
    assert (await world.put(path, {"key": "A", "value": "3"})).status == 200
    assert await message_of(world, job, written({"A": "2"})) == ""
    assert await variables(world, environment) == {"A": "2"}


@pytest.mark.parametrize("sensitive", [False, True])
async def test_a_job_of_a_cloned_environment_changes_the_copies_of_its_variables(
    world: World, sensitive: bool
) -> None:
    environment = await world.environment()
    world.engine.output = written({"A": "1"}, sensitive=sensitive)
    await ready_job(world, environment, name="first", schedule=events("on_start"))
    copy = (await world.post(f"/environment/{environment}/clone", {"name": "copy"}))["id"]
    (job,) = (await world.get(f"/environment/{copy}/job"))["results"]
    assert await message_of(world, job["id"], written({"A": "2"})) == ""
    assert await variables(world, copy) == {"A": "2"}
    assert await variables(world, environment) == ({} if sensitive else {"A": "1"})


async def test_a_variable_of_a_deleted_job_may_be_set_by_another(world: World) -> None:
    environment = await world.environment()
    world.engine.output = written({"A": "1"})
    job = await ready_job(world, environment, schedule=events("on_start"))
    assert (await world.delete(f"/job/{job}")).status == 204
    await world.settle()
    other = await new_job(world, environment, schedule=events("on_start"))
    assert await message_of(world, other, written({"A": "1"})) == ""
    (row,) = (await world.get(f"/environment/{environment}/environmentVariable"))["results"]
    assert row["set_by_job"] == other


async def test_a_job_changes_its_variables_under_a_new_name_too(world: World) -> None:
    environment = await world.environment()
    world.engine.output = written({"A": "1"})
    job = await ready_job(world, environment, schedule=events("on_start"))
    assert (await world.patch(f"/job/{job}", {"name": "renamed"})).status == 200
    assert await message_of(world, job, written({"A": "2"})) == ""
    assert await variables(world, environment) == {"A": "2"}


async def test_a_run_with_another_command_sets_no_variables(world: World) -> None:
    environment = await world.environment()
    programs = Programs(world)
    job = await ready_job(world, environment, schedule=events("on_start"))
    world.engine.output = written({"A": "1"})
    for body, expected in (({"arguments": ["other"]}, {}), ({}, {"A": "1"})):
        run = await world.post(f"/job/{job}/run", body)
        await world.settle()
        assert (await world.get(f"/job/{job}/run/{run['id']}"))["status"] == "SUCCEEDED"
        assert programs.started[-1].writes_output is bool(expected)
        assert await variables(world, environment) == expected


@pytest.mark.parametrize("value", ["{{A}}", "x{{B}}y", "{{STRIPE_KEY}}"])
async def test_an_output_stands_for_no_other_variable(world: World, value: str) -> None:
    job = await new_job(world, schedule=events("on_start"))
    message = await message_of(world, job, written({"A": value}))
    assert "Write no {{NAME}} to the output file" in message


async def test_braces_that_are_no_reference_are_shared(world: World) -> None:
    environment = await world.environment()
    world.engine.output = written({"A": '{"a": {"b": 1}}', "B": "{{ 1 }}"})
    await ready_job(world, environment, schedule=events("on_start"))
    assert (await variables(world, environment))["A"] == '{"a": {"b": 1}}'


@pytest.mark.parametrize("sensitive", [False, True])
async def test_runs_of_a_job_together_set_no_more_than_services_can_bear(
    world: World, sensitive: bool
) -> None:
    environment = await world.environment()
    world.engine.output = written({"A": "x" * 60_000, "B": "x" * 60_000}, sensitive=sensitive)
    job = await ready_job(world, environment, schedule=events("on_start"))
    more = written({"C": "x" * 20_000}, sensitive=sensitive)
    assert "Write less to the output file" in await message_of(world, job, more)
    less = written({"A": "x", "C": "x" * 20_000}, sensitive=sensitive)
    assert await message_of(world, job, less) == ""


async def test_an_output_deletes_nothing_that_people_have_derived(world: World) -> None:
    """Negative control: `test_a_later_run_changes_the_variables_that_a_job_has_set`."""
    environment, app = await world.environment(), ""
    app = await world.application(environment)
    world.engine.output = written({"A": "1"})
    job = await ready_job(world, environment, schedule=events("on_start"))
    listed = await world.get(f"/environment/{environment}/environmentVariable")
    id = listed["results"][0]["id"]
    alias = await world.post(f"/application/{app}/environmentVariable/{id}/alias", {"key": "OF_APP"})
    assert alias.status == 201
    message = await message_of(world, job, written({"A": "2"}, sensitive=True))
    assert "delete the aliases and overrides of that variable first" in message
    assert await message_of(world, job, written({"A": "2"})) == ""
    shown = await world.get(f"/application/{app}/environmentVariable")
    assert {row["key"]: row["value"] for row in shown["results"]} == {"A": "2", "OF_APP": "2"}
