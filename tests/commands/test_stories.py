"""Stories of the command line, against a whole Windlass."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from tests.cli.listener import listening
from tests.cli.said import say
from tests.commands.on_a_terminal import on_a_terminal
from tests.tables import rows
from tests.tokens import ADMIN
from tests.world import REPOSITORY

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


async def shop(windlass) -> str:
    """Makes shop/production/web, and answers its id; over HTTP, which takes a hundredth of three commands."""
    world = windlass.world
    environment = await world.environment(await world.project(name="shop"), name="production")
    return str(await world.application(environment, name="web"))


async def web(windlass, environment: str) -> None:
    words = ("--environment", environment, "--name", "web", "--git-repository.url", REPOSITORY)
    await windlass.done("application", "create", *words)


async def test_a_service_is_created_and_deployed_without_an_id(windlass):
    await windlass.done("project", "create", "--name", "shop")
    await windlass.done("environment", "create", "--project", "shop", "--name", "production")
    await web(windlass, "shop/production")
    assert (await windlass.done("application", "deploy", "web"))["status"] == "QUEUED"
    await windlass.world.settle()
    assert (await windlass.done("application", "status", "web"))["state"] == "RUNNING"


async def test_id_parameters_accept_names(windlass):
    web = await shop(windlass)
    ids = await windlass.done("variable", "list", "--parent-id", web)
    names = await windlass.done("variable", "list", "--parent-id", "shop/production/web")
    assert names == ids
    assert (await windlass("variable", "list", "--parent-id", "nothing")).code != 0


async def test_the_runs_of_a_job_are_listed_by_its_name(windlass):
    await shop(windlass)
    [environment] = (await windlass.done("environment", "list", "--project", "shop"))["results"]
    image = {"image": {"image_name": "registry.example/report", "tag": "1"}}
    schedule = {"cronjob": {"scheduled_at": "0 3 * * *"}}
    body = {"name": "nightly", "source": image, "schedule": schedule}
    await windlass.world.post(f"/environment/{environment['id']}/job", body)
    assert (await windlass.done("job", "runs", "nightly"))["results"] == []
    assert (await windlass("job", "runs", "nothing")).err == "windlass: There is no job 'nothing' here\n"


async def test_an_ambiguous_environment_name_is_refused_with_the_candidates(windlass):
    await shop(windlass)
    await windlass.done("project", "create", "--name", "blog")
    await windlass.done("environment", "create", "--project", "blog", "--name", "production")
    said = await windlass("environment", "get", "production")
    assert said.code == 2
    assert "shop/production" in said.err
    assert "blog/production" in said.err
    blog = await windlass.done("environment", "get", "blog/production")
    assert blog == await windlass.done("environment", "get", "production", "--project", "blog")
    assert blog == await windlass.done("environment", "get", blog["id"])


async def test_names_are_found_without_regard_to_case(windlass):
    await shop(windlass)
    assert (await windlass.done("application", "get", "SHOP/Production/WEB"))["name"] == "web"


async def test_an_unknown_name_is_reported_as_missing(windlass):
    said = await windlass("project", "get", "nothing")
    assert (said.code, said.err) == (1, "windlass: There is no project 'nothing' here\n")


async def test_an_error_about_a_path_names_the_unknown_project_first(windlass):
    said = await windlass("application", "get", "nothing/production/web")
    assert (said.code, said.err) == (1, "windlass: There is no project 'nothing' here\n")


async def test_listing_environments_without_a_project_is_a_usage_error(windlass):
    said = await windlass("environment", "list")
    assert said.code == 2
    assert "--project" in said.err


async def test_secret_create_uses_the_lowest_level_named_by_its_options(windlass):
    await shop(windlass)
    key = ("--key", "KEY", "--value", "s3cret")
    place = ("--project", "shop", "--environment", "production")
    assert (await windlass.done("secret", "create", *place, *key))["scope"] == "ENVIRONMENT"
    assert (await windlass.done("secret", "list", "--project", "shop"))["results"] == []
    [inherited] = (await windlass.done("secret", "list", *place, "--application", "web"))["results"]
    assert inherited["scope"] == "ENVIRONMENT"


async def test_listing_secrets_without_a_level_is_a_usage_error(windlass):
    said = await windlass("secret", "list")
    assert said.code == 2
    assert all(option in said.err for option in ("--project", "--environment", "--application"))


async def test_a_variable_is_found_by_its_key(windlass):
    await shop(windlass)
    await windlass.done("environment-variable", "create", "--project", "shop", "--key", "A", "--value", "1")
    words = ("environment-variable", "edit", "A", "--project", "shop", "--value", "2")
    assert (await windlass.done(*words))["value"] == "2"


async def test_editing_one_nested_field_keeps_the_other_fields_of_its_object(windlass):
    await shop(windlass)
    await windlass.done("application", "edit", "web", "--git-repository.root-path", "/web")
    after = await windlass.done(
        "application", "edit", "web", "--git-repository.branch", "dev", "--cpu", "250"
    )
    repository = after["git_repository"]
    assert (repository["url"], repository["root_path"], repository["branch"]) == (REPOSITORY, "/web", "dev")
    assert (after["cpu"], after["memory"]) == (250, 512)


async def test_a_reference_option_accepts_a_name(windlass):
    await windlass.done("project", "create", "--name", "shop")
    words = ("environment", "create", "--project", "shop", "--name", "production", "--cluster-id", "local")
    assert (await windlass.done(*words))["cluster_name"] == "local"


async def test_fields_can_be_set_to_null_and_enum_values_ignore_case(windlass):
    await windlass.done("project", "create", "--name", "shop")
    words = ("environment", "create", "--project", "shop", "--name", "staging", "--mode", "staging")
    assert (await windlass.done(*words))["mode"] == "STAGING"
    made = await windlass.done("token", "create", "--name", "ci", "--field", "rate_limit=null")
    assert made["rate_limit"] is None


async def test_options_override_fields_of_a_body_read_from_a_file(windlass, tmp_path):
    file = tmp_path / "project.json"
    file.write_text(json.dumps({"name": "shop", "description": "from the file"}))
    made = await windlass.done("project", "create", "--from-file", str(file), "--name", "rope")
    assert (made["name"], made["description"]) == ("rope", "from the file")


async def test_a_list_is_complete_however_many_pages_it_has(windlass):
    for number in range(3):
        await windlass.world.project(name=f"p{number}")
    whole = await windlass.done("project", "list")
    assert [one["name"] for one in whole["results"]] == ["p0", "p1", "p2"]
    page = await windlass.done("project", "list", "--page", "2", "--page-size", "2")
    assert [one["name"] for one in page["results"]] == ["p2"]
    assert page["pagination"]["total_count"] == 3


async def test_a_token_for_ci_deploys_until_it_is_revoked(windlass):
    await shop(windlass)
    made = await windlass("token", "create", "--name", "ci", "--scope", "Deploy", "--expires", "30d")
    assert "shown this once" in made.err
    token = made.json["token"]
    assert made.json["scopes"] == ["Deploy"]
    await windlass.done("application", "deploy", "web", token=token)
    refused = await windlass("project", "create", "--name", "more", token=token)
    assert refused.code == 1
    assert "Write" in refused.err
    assert [one["name"] for one in (await windlass.done("token", "list"))["results"]] == ["ci"]
    await windlass.done("token", "revoke", "ci")
    assert (await windlass("application", "deploy", "web", token=token)).code == 1


async def test_creating_an_organization_prints_its_admin_token(windlass):
    made = await windlass("organization", "create", "--name", "acme")
    assert "admin_token" in made.err
    assert (await windlass.done("organization", "get", token=made.json["admin_token"]))["name"] == "acme"


async def test_deleting_an_organization_needs_its_name(windlass):
    assert (await windlass("organization", "delete")).code == 2


async def test_edit_with_an_outdated_if_match_etag_changes_nothing(windlass):
    await windlass.done("project", "create", "--name", "shop")
    said = await windlass("project", "edit", "shop", "--name", "rope", "--if-match", '"other"')
    assert said.code == 1
    assert (await windlass.done("project", "get", "shop"))["name"] == "shop"


async def test_the_api_command_sends_any_request_and_prints_the_answer_unchanged(windlass):
    said = await windlass("api", "GET", "/aws/region")
    assert said.json == (await windlass.world.get("/aws/region")).json
    home = windlass.world.org
    body = json.dumps({"name": "shop"})
    assert (await windlass.done("api", "post", f"organization/{home}/project", "--data", body))[
        "name"
    ] == "shop"
    shown = await windlass("api", "GET", "/organization", "--include")
    assert "x-ratelimit-limit: " in shown.out


# What goes wrong


async def test_a_server_error_is_printed_on_standard_error_with_the_option_name(windlass):
    await windlass.done("project", "create", "--name", "shop")
    said = await windlass("project", "create", "--name", "shop")
    assert said.code == 1
    assert said.out == ""
    assert re.fullmatch(r"windlass: --name: there is already .+\n", said.err)


@pytest.mark.parametrize(("token", "hint"), [(None, "windlass serve"), ("wrong", "WINDLASS_TOKEN")])
async def test_a_missing_or_wrong_token_is_reported_with_how_to_get_one(windlass, token, hint):
    said = await windlass("project", "list", token=token)
    assert said.code == 1
    assert hint in said.err


async def test_an_unreachable_server_is_reported(windlass):
    said = await windlass("project", "list", url="http://127.0.0.1:1")
    assert said.code == 1
    assert "windlass serve" in said.err
    assert "WINDLASS_URL" in said.err


async def test_a_malformed_server_address_is_a_usage_error(windlass):
    assert (await windlass("project", "list", url="ftp://example.com")).code == 2


async def test_an_exceeded_limit_says_when_to_retry(windlass):
    made = await windlass.done("token", "create", "--name", "slow", "--rate-limit", "1")
    await windlass("region", "list", "aws", token=made["token"])
    said = await windlass("region", "list", "aws", token=made["token"])
    assert said.code == 1
    assert "seconds" in said.err


@pytest.mark.parametrize("place", ["before", "after"])
async def test_global_options_stand_before_or_after_the_command(windlass, place):
    calling = ("--url", windlass.url, "--token", ADMIN)
    words = ("project", "list")
    said = await windlass(*(calling + words if place == "before" else words + calling), url="", token=None)
    assert said.json == {"results": []}


async def test_the_token_is_not_sent_to_a_redirect_target():
    with listening() as other, listening() as first:
        first.answer = (302, {"location": f"{other.url}/organization"}, b"")
        said = await asyncio.to_thread(say, "organization", "list", url=first.url)
        assert said.code == 1
        assert other.url in said.err
        assert first.heard
        assert not other.heard


async def test_a_server_that_is_not_windlass_is_recognised():
    with listening() as server:
        server.answer = (200, {"content-type": "text/html"}, b"<h1>It works!</h1>")
        said = await asyncio.to_thread(say, "organization", "list", url=server.url)
        assert said.code == 1
        assert "--url" in said.err


@rows(
    ("words", "instead"),
    [
        ("apps", "windlass application list"),
        ("lgos web", "windlass logs"),
        ("secret set A=1", "windlass secret edit"),
        ("env sett A=1", "windlass env set"),
        ("context lst", "windlass context list"),
        ("logs --folow", "--follow"),
        ("aplication list", "windlass application"),
        ("projct list", "windlass project"),
        ("application logs web", "windlass application log"),
        ("application lst", "windlass application list"),
        ("project rm shop", "windlass project delete"),
        ("application log web --lines 3", "--tail"),
        ("application log web --tial 3", "--tail"),
        ("application status web --env production", "--environment"),
        ("application edit web --branch main", "--git-repository.branch"),
        ("application edit web --healthchecks {}", "--field healthchecks=JSON"),
        ("application edit web --git-repository {}", "--field git_repository=JSON"),
    ],
)
def test_a_typo_or_a_command_of_another_tool_is_answered_with_a_suggestion(words, instead):
    said = say(*words.split(), url="http://127.0.0.1:1")
    assert said.code == 2
    assert re.search(rf"(Did you mean|Possible options:?) [^\n]*{instead}", said.err), said.err


def test_an_unknown_command_without_a_near_match_gets_no_suggestion():
    said = say("xyzzy", url="http://127.0.0.1:1")
    assert said.code == 2
    assert said.err.endswith("No such command 'xyzzy'.\n")


# What people see


async def test_on_a_terminal_a_list_is_a_table_and_elsewhere_json(windlass):
    await windlass.done("project", "create", "--name", "shop", "--description", "Where people buy rope")
    shown = await asyncio.to_thread(on_a_terminal, "project", "list", url=windlass.url)
    head, row = shown.splitlines()
    assert head.split() == ["NAME", "DESCRIPTION", "CREATED"]
    assert row.split()[0] == "shop"
    assert (await windlass("project", "list")).json["results"][0]["name"] == "shop"


async def test_the_text_and_json_options_work_before_and_after_the_command(windlass):
    await windlass.done("project", "create", "--name", "shop")
    assert (await windlass("--text", "project", "get", "shop")).out.startswith("id ")
    assert (await windlass("project", "get", "shop", "--text")).out.startswith("id ")
    shown = await asyncio.to_thread(on_a_terminal, "project", "list", "--json", url=windlass.url)
    assert json.loads(shown)["results"]


async def test_a_log_is_printed_as_lines(windlass):
    await shop(windlass)
    windlass.world.engine.broken = "it does not start"
    await windlass.done("application", "deploy", "web")
    await windlass.world.settle()
    said = await windlass("application", "log", "web", "--tail", "1", "--text")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  .+ it does not start\n", said.out)
    said = await windlass("environment", "deployment-log", "production", "--text")
    last = said.out.splitlines()[-1]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  web  .*it does not start.*", last)
    entries = (await windlass("environment", "deployment-log-entries", "production", "--tail", "1")).json
    assert [entry["type"] for entry in entries] == ["error"]
    said = await windlass("environment", "deployment-log-entries", "production", "--text")
    assert said.code == 0, said


@pytest.mark.parametrize("words", ["project list", "project list --wide", "project get shop"])
def test_a_name_cannot_move_the_cursor_of_the_terminal(words):
    evil = "a\x1b[2J\x1b]0;owned\x07\u202eb"
    id = "6f1c1f0a-0000-4b8e-9d43-6f4a5a0f7a11"
    thing = {"id": id, "name": "shop", "path": "shop", "organization_id": id, "description": evil}
    with listening() as server:
        server.answer = (200, {}, json.dumps(thing | {"results": [thing]}).encode())
        said = say(*words.split(), "--text", url=server.url)
    assert said.code == 0, said
    assert not CONTROLS.search(said.out)
    assert "owned" in said.out


@pytest.mark.parametrize("width", [30, 80, 200])
async def test_ids_are_shown_with_wide_alone_and_never_broken(windlass, width):
    await windlass.done("project", "create", "--name", "shop")
    id = (await windlass.done("project", "get", "shop"))["id"]
    assert id not in (await windlass("project", "list", "--text", width=width)).out
    assert id in (await windlass("project", "list", "--text", "--wide", width=width)).out


async def test_an_empty_list_prints_a_notice_on_standard_error(windlass):
    said = await windlass("project", "list", "--text")
    assert (said.out, said.err) == ("", "There are none.\n")


async def test_a_person_is_asked_before_something_is_deleted(windlass):
    await shop(windlass)
    shown = await asyncio.to_thread(on_a_terminal, "project", "delete", "shop", url=windlass.url, typed="n\n")
    assert "with all that is in it?" in shown
    assert (await windlass("project", "get", "shop")).code == 0
    await asyncio.to_thread(on_a_terminal, "project", "delete", "shop", url=windlass.url, typed="y\n")
    assert (await windlass("project", "get", "shop")).code == 1


async def test_delete_in_a_script_asks_for_no_confirmation(windlass):
    await shop(windlass)
    await windlass.done("project", "delete", "shop")
    assert (await windlass("project", "get", "shop")).code == 1
