"""Commands use the environment of a linked folder, if they need one; runs are named by their numbers."""

from __future__ import annotations

import json

import pytest

from tests.commands.test_stories import shop
from windlass.cli.linked_folder import FolderLink, write_link

DATABASE = ("database", "create", "--name", "orders", "--type", "POSTGRESQL", "--version", "15")
SOURCE = json.dumps({"docker": {"git_repository": {"url": "https://git.example/acme/shop.git"}}})
SCHEDULE = json.dumps({"cronjob": {"scheduled_at": "0 3 * * *", "arguments": ["true"]}})


@pytest.fixture
async def linked(windlass, tmp_path, monkeypatch):
    """A folder that is linked with `web` in `production` of the project `shop`."""
    await shop(windlass)
    await windlass.done("environment", "create", "--project", "shop", "--name", "staging")
    link = FolderLink(url=windlass.url, project="shop", environment="production", application="web")
    write_link(tmp_path, link)
    monkeypatch.chdir(tmp_path)
    return windlass


async def environment_of(windlass, row) -> str:
    return str((await windlass.done("environment", "get", row["environment"]["id"]))["name"])


async def test_a_service_is_created_in_the_environment_of_the_linked_folder(linked):
    made = await linked.done(*DATABASE, "--mode", "CONTAINER")
    assert await environment_of(linked, made) == "production"
    elsewhere = await linked.done(*DATABASE, "--mode", "CONTAINER", "--environment", "shop/staging")
    assert await environment_of(linked, elsewhere) == "staging"
    project = await linked.done("environment", "create", "--name", "preview")
    assert (await linked.done("project", "get", project["project"]["id"]))["name"] == "shop"


async def test_outside_a_linked_folder_a_create_command_requires_an_environment(
    linked, tmp_path, monkeypatch
):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".windlass.toml").unlink()
    monkeypatch.chdir(tmp_path / "elsewhere")
    said = await linked(*DATABASE, "--mode", "CONTAINER")
    assert (said.code, "choose one with --environment" in said.err) == (2, True)


async def test_a_list_of_services_covers_all_environments_even_in_a_linked_folder(linked):
    await linked.done(*DATABASE, "--mode", "CONTAINER", "--environment", "shop/staging")
    assert [row["name"] for row in (await linked.done("database", "list"))["results"]] == ["orders"]


async def test_a_missing_choice_is_reported_with_the_allowed_values(linked):
    said = await linked(*DATABASE)
    assert said.err == "windlass: --mode: is required; it must be one of CONTAINER, MANAGED\n"


async def test_a_job_run_is_selected_by_its_number_and_defaults_to_the_newest(linked):
    create = ("job", "create", "--name", "nightly", "--field", f"source={SOURCE}")
    await linked.done(*create, "--field", f"schedule={SCHEDULE}")
    said = await linked("job-run", "get", "--job", "nightly")
    assert said.err == "windlass: run it first: it has no run yet\n"
    await linked.done("job", "deploy", "nightly")
    await linked.world.settle()
    first = await linked.done("job", "run", "nightly")
    await linked.world.settle()
    second = await linked.done("job", "run", "nightly")
    assert [first["number"], second["number"]] == [1, 2]
    assert (await linked.done("job-run", "get", "1", "--job", "nightly"))["id"] == first["id"]
    assert (await linked.done("job-run", "get", "--job", "nightly"))["id"] == second["id"]
    said = await linked("job-run", "log", "3", "--job", "nightly")
    assert (said.code, said.err) == (2, "windlass: choose another run: there is no run 3\n")
    said = await linked("job-run", "log", "v1", "--job", "nightly")
    assert said.err == "windlass: give a number such as 3, or an id: 'v1' is neither\n"
