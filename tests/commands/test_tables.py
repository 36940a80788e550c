"""Lists and results for people, at several widths of the terminal."""

from __future__ import annotations

import json
import re
from datetime import datetime

import pytest

from tests.cli.listener import listening
from tests.cli.said import say
from tests.commands.test_following import at_a_terminal
from tests.commands.test_stories import shop
from tests.commands.waits import meanwhile
from tests.fakes.engine import FakeEngine
from tests.world import REPOSITORY
from windlass.cli.deployments import EndedDeployment, StartedDeployment, summary
from windlass.cli.formatting import ago

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-")
PORT = '[{"internal_port": 8080, "publicly_accessible": true}]'


async def running(windlass) -> str:
    """`web` runs in shop/production, with an address, beside `idle`; answers the address."""
    world, web = windlass.world, f"/application/{await shop(windlass)}"
    assert (await world.patch(web, {"ports": json.loads(PORT)})).status == 200
    assert (await world.post(f"{web}/deploy")).status == 202
    await world.settle()
    await world.application((await world.get(web))["environment"]["id"], name="idle")
    [link] = (await world.get(f"{web}/link"))["results"]
    return str(link["url"])


@pytest.mark.parametrize("width", [80, 140])
async def test_a_list_of_services_begins_with_name_state_and_address(windlass, width):
    url = await running(windlass)
    said = await windlass("application", "list", "--environment", "shop/production", "--text", width=width)
    head, *rows = said.out.splitlines()
    assert head.split()[:3] == ["NAME", "STATE", "URL"]
    idle, web = sorted(rows)
    assert web.split()[:3] == ["web", "RUNNING", url]
    assert idle.split()[:2] == ["idle", "STOPPED"]
    assert max(map(len, said.out.splitlines())) <= width
    assert not UUID.search(said.out)


async def test_a_list_of_variables_of_all_levels_begins_with_their_names(windlass):
    await shop(windlass)
    at = ("--variable-scope", "PROJECT", "--variable-parent-id", "shop")
    await windlass.done("variable", "create", "--key", "COLOUR", "--value", "red", "--no-is-secret", *at)
    said = await windlass("variable", "list", "--parent-id", "web", "--text")
    assert said.out.split()[0] == "KEY"
    assert said.out.splitlines()[1].startswith("COLOUR ")


async def test_a_list_of_registries_shows_the_status_of_their_check(windlass):
    home = (await windlass.world.get("/organization"))["results"][0]["id"]
    registry = {"name": "hub", "kind": "GENERIC_CR", "url": "https://registry.invalid", "config": {}}
    assert (await windlass.world.post(f"/organization/{home}/containerRegistry", registry)).status == 201
    said = await windlass("container-registry", "list", "--text")
    assert said.out.split()[:2] == ["NAME", "STATUS"]
    assert said.out.splitlines()[1].split()[:2] == ["hub", "FAILED"]


@pytest.mark.parametrize("width", [80, 140])
async def test_links_are_never_truncated_in_tables(windlass, width):
    url = await running(windlass)
    said = await windlass("application", "link", "web", "--text", width=width)
    assert url in said.out.splitlines()[1].split()
    assert not UUID.search(said.out)


@pytest.mark.parametrize("width", [80, 140])
async def test_a_list_of_events_begins_with_time_event_resource_and_person(windlass, width):
    await running(windlass)
    said = await windlass("organization", "events", "--text", width=width)
    head, *rows = said.out.splitlines()
    assert re.split("  +", head)[:5] == ["TIMESTAMP", "EVENT TYPE", "TARGET TYPE", "TARGET", "BY"]
    assert re.split("  +", rows[0])[1:4] == ["CREATE", "APPLICATION", "idle"]
    assert max(map(len, said.out.splitlines())) <= width


async def test_an_address_that_does_not_fit_is_shown_below_the_table(windlass):
    url = await running(windlass)
    said = await windlass("application", "list", "--text", width=30)
    assert said.out.splitlines()[0].split()[:2] == ["NAME", "STATE"]
    assert said.out.splitlines()[-1] == f"web: {url}"


async def test_rows_that_do_not_fit_are_shown_as_lists_of_fields(windlass):
    url = await running(windlass)
    said = await windlass("application", "list", "--text", width=10)
    assert url in said.out.split()
    assert said.out.startswith("name ")


async def test_columns_that_are_left_out_are_counted(windlass):
    await running(windlass)
    narrow = await windlass("application", "list", "--text", width=60)
    left = re.fullmatch(r"(\d+) more columns?: --wide\n", narrow.err)
    assert left
    wide = await windlass("application", "list", "--text", width=1000)
    assert wide.err == ""
    shown = [len(re.split(r"  +", said.out.splitlines()[0].strip())) for said in (narrow, wide)]
    assert shown[1] - shown[0] == int(left[1])


async def test_a_list_with_the_option_wide_shows_every_field_and_ids(windlass):
    await running(windlass)
    said = await windlass("application", "list", "--wide", "--text", width=80)
    assert UUID.search(said.out)
    assert said.err == ""
    for field in ("environment_name", "project_id", "last_deployment_date", "service_type"):
        assert re.search(rf"^{field} ", said.out, re.MULTILINE), said.out


async def test_without_an_environment_the_services_of_all_environments_are_listed(windlass):
    await running(windlass)
    await windlass.done("environment", "create", "--project", "shop", "--name", "staging")
    where = ("--environment", "staging", "--git-repository.url", REPOSITORY)
    await windlass.done("application", "create", "--name", "api", *where)
    said = await windlass("application", "list", "--text")
    assert {line.split()[0] for line in said.out.splitlines()} == {"NAME", "web", "idle", "api"}
    found = (await windlass.done("application", "list"))["results"]
    assert {(one["name"], one["state"]) for one in found} == {
        ("web", "RUNNING"),
        ("idle", "STOPPED"),
        ("api", "STOPPED"),
    }
    of_project = await windlass.done("application", "list", "--project", "shop")
    assert of_project["results"] == found
    assert (await windlass.done("database", "list")) == {"results": []}


async def test_a_service_list_as_json_equals_the_api_answer(windlass):
    await running(windlass)
    [environment] = (await windlass.done("environment", "list", "--project", "shop"))["results"]
    listed = await windlass.done("application", "list", "--environment", "production")
    api = (await windlass.world.get(f"/environment/{environment['id']}/application")).json
    assert listed["results"] == api["results"]


# The end of what was waited for


@pytest.mark.parametrize(
    ("words", "end"),
    [
        ("deploy", r"web is live at http://web-production\.\S+ \(1 instance, \d+\.\d s, v1 [0-9a-f]{7}\)"),
        ("restart-service", r"web is live at http://web-production\.\S+ \(1 instance, \d+\.\d s, v2 ?\S*\)"),
        ("stop", r"web is stopped \(\d+\.\d s\); its data, settings and history stay"),
        ("uninstall", r"web is removed with its data \(\d+\.\d s\); its settings and history stay"),
    ],
)
async def test_a_successful_wait_prints_one_line_with_address_version_and_duration(windlass, words, end):
    await shop(windlass)
    await windlass.done("application", "edit", "web", "--ports", PORT)
    if words != "deploy":
        await meanwhile(windlass, "application", "deploy", "web", "--wait")
    said = await meanwhile(windlass, "application", words, "web", "--wait", "--text")
    assert said.code == 0, said
    assert re.fullmatch(end + "\n", said.out), said.out


async def test_a_successful_wait_says_that_a_service_has_no_public_address(windlass):
    await shop(windlass)
    said = await meanwhile(windlass, "application", "deploy", "web", "--wait", "--text")
    assert said.out.startswith("web is live, without a public address (1 instance, ")


async def test_waiting_for_an_environment_prints_one_line_for_each_service(windlass):
    await shop(windlass)
    await windlass.done("application", "edit", "web", "--ports", PORT)
    db = ("--name", "db", "--type", "POSTGRESQL", "--version", "16", "--mode", "CONTAINER")
    await windlass.done("database", "create", "--environment", "production", *db)
    said = await meanwhile(windlass, "environment", "deploy", "production", "--wait", "--text")
    ends = sorted(said.out.splitlines())
    assert ends[0].startswith("db is live, without a public address (1 instance, ")
    assert ends[1].startswith("web is live at http://web-production.")


async def test_deploy_without_wait_prints_one_line(windlass):
    await shop(windlass)
    said = await windlass("application", "deploy", "web", "--text")
    assert said.out == "DEPLOY v1: QUEUED. With --wait, the command follows it to its end\n"
    assert (await windlass.done("application", "deploy", "web"))["number"] == 2


# Colours

ESCAPE = "\x1b["


async def on_a_terminal(windlass, *words: str, **environment: str) -> str:
    with at_a_terminal(windlass.url, *words, piped=False, **environment) as terminal:
        return f"{await terminal.line()}\n{await terminal.line()}\n{await terminal.line()}"


async def test_states_have_colours_on_a_terminal(windlass):
    await running(windlass)
    shown = await on_a_terminal(windlass, "application", "list")
    assert re.search(r"\x1b\[32mRUNNING", shown), shown


@pytest.mark.parametrize("words", ["application list", "application get web", "--help"])
async def test_no_color_sends_no_escapes_at_all(windlass, words):
    await running(windlass)
    assert ESCAPE not in await on_a_terminal(windlass, *words.split(), NO_COLOR="1")


async def test_without_no_color_there_are_escapes(windlass):
    await running(windlass)
    assert ESCAPE in await on_a_terminal(windlass, "application", "get", "web")


def test_the_table_of_deployments_shows_action_version_commit_person_and_duration():
    id, commit = "6f1c1f0a-0000-4b8e-9d43-6f4a5a0f7a11", "8a1b2c3d4e5f"
    row = {
        "id": id, "status": "SUCCEEDED", "number": 3, "action": "DEPLOY", "git_commit_id": commit,
        "triggered_by": "ada", "created_at": "2020-01-31T12:00:00.000Z", "service_id": id,
        "finished_at": "2020-01-31T12:01:05.000Z", "message": "", "instances": 1, "ready_instances": 1,
    }  # fmt: skip
    with listening() as server:
        server.answer = (200, {}, json.dumps({"results": [row]}).encode())
        narrow, wide = (
            say("deployment", "list", "--application", id, "--text", url=server.url, width=width)
            for width in (100, 140)
        )
    head, shown = narrow.out.splitlines()
    assert head.split() == ["STATUS", "VERSION", "ACTION", "COMMIT", "BY", "CREATED", "TOOK"]
    assert re.split("  +", shown.rstrip()) == [
        "SUCCEEDED", "v3", "DEPLOY", commit[:7], "ada", "2020-01-31", "1 min 5 s",
    ]  # fmt: skip
    assert narrow.err == "1 more column: --wide\n"
    assert wide.out.splitlines()[1].split()[-1] == id


def test_a_list_of_deployments_says_which_version_a_rollback_went_back_to():
    ids = [f"6f1c1f0a-0000-4b8e-9d43-6f4a5a0f7a1{number}" for number in range(3)]
    newest = {
        "status": "SUCCEEDED", "action": "DEPLOY", "triggered_by": "ada", "number": 7, "id": ids[0],
        "created_at": "2020-01-31T12:00:00.000Z", "repeats": ids[1],
    }  # fmt: skip
    rows = [
        newest,
        newest | {"number": 5, "id": ids[1], "repeats": None},
        newest | {"number": 4, "id": ids[2], "repeats": "6f1c1f0a-0000-4b8e-9d43-00000000000f"},
    ]
    with listening() as server:
        server.answer = (200, {}, json.dumps({"results": rows}).encode())
        said = say("deployment", "list", "--application", ids[0], "--text", url=server.url, width=100)
    actions = [re.split("  +", row)[2] for row in said.out.splitlines()[1:]]
    assert actions == ["DEPLOY of v5", "DEPLOY", "DEPLOY"]


@pytest.mark.parametrize("width", [80, 120])
def test_a_message_too_long_for_its_table_row_is_printed_below_the_table(width):
    row = {"status": "FAILED", "action": "DEPLOY", "created_at": "2020-01-31T12:00:00.000Z"}
    ids = [f"6f1c1f0a-0000-4b8e-9d43-6f4a5a0f7a1{number}" for number in range(2)]
    message = "Choose a port: " + "this one is in use, " * 20
    rows = [
        row | {"id": ids[0], "number": 8, "message": message},
        row | {"id": ids[1], "number": 7, "message": ""},
    ]
    with listening() as server:
        server.answer = (200, {}, json.dumps({"results": rows}).encode())
        said = say("deployment", "list", "--application", ids[0], "--text", url=server.url, width=width)
    head, _, _, *below = said.out.splitlines()
    assert "MESSAGE" not in head
    assert " ".join(line.strip() for line in below) == f"v8: {message.strip()}"
    assert max(map(len, below)) <= width


def test_times_in_a_table_are_shown_by_their_distance_from_now():
    noon = datetime.fromisoformat("2026-01-31T12:00:00.000Z")
    distances = [
        (3, "3 s ago"), (90, "1 min ago"), (7200, "2 h ago"), (200_000, "2 d ago"), (-90_000, "in 1 d"),
        (90 * 86_400, "2026-01-31"),
    ]  # fmt: skip
    for seconds, text in distances:
        assert ago(noon, noon.timestamp() + seconds) == text


# Lists that take several answers of the API


async def test_the_statuses_of_an_environment_are_a_table_of_its_services(windlass):
    url = await running(windlass)
    said = await windlass("environment", "statuses", "shop/production", "--text", width=80)
    state, head, *rows = said.out.splitlines()
    assert state == "shop/production: RUNNING"
    assert head.split()[:5] == ["NAME", "STATE", "URL", "INSTANCES", "VERSION"]
    assert sorted(row.split()[:5] for row in rows)[1] == ["web", "RUNNING", url, "1/1", "v1"]


async def test_a_service_that_serves_after_a_failed_deployment_shows_error_and_serving_with_its_version(
    windlass,
):
    await running(windlass)
    windlass.world.git.broken = "no"
    said = await meanwhile(windlass, "application", "deploy", "web", "--wait", "--text")
    assert said.code == 1
    said = await windlass("application", "list", "--text", width=140)
    [row] = [re.split("  +", row) for row in said.out.splitlines() if row.startswith("web")]
    assert (row[1], row[3:5]) == ("ERROR, serving", ["1/1", "v1"])
    status = await windlass("application", "status", "web", "--text")
    assert re.search(r"^state +ERROR, serving$", status.out, re.MULTILINE)


async def test_a_command_that_reads_one_service_needs_no_name_if_there_is_only_one(windlass):
    url = await running(windlass)
    said = await windlass("application", "link", "--text")
    assert said.err == "windlass: name one of these: shop/production/web, shop/production/idle\n"
    assert said.code == 2
    await windlass.done("application", "delete", "idle", "--yes")
    said = await windlass("application", "link", "--text")
    assert (said.code, url in said.out) == (0, True)
    assert said.err.startswith("shop/production/web\n")
    assert "create the database first: there is none here" in (await windlass("database", "link")).err
    assert "Missing argument" in (await windlass("application", "deploy")).err


@pytest.mark.parametrize("problem", ["", "The engine does not answer"])
async def test_the_list_of_clusters_begins_with_the_state_of_the_engine_and_its_kind(
    windlass, monkeypatch, problem
):
    monkeypatch.setattr(FakeEngine, "problem", lambda engine: done(problem))
    said = await windlass("cluster", "list", "--text", width=120)
    head, row = said.out.splitlines()
    assert head.split()[:3] == ["NAME", "STATUS", "ENGINE"]
    assert row.split()[:3] == ["local", "DEPLOYMENT_ERROR" if problem else "DEPLOYED", "LOCAL"]
    assert problem in row
    assert "KUBERNETES" not in head


async def done(value: str) -> str:
    return value


def test_an_application_for_which_no_port_was_found_is_live_in_yellow():
    deployment = {
        "action": "DEPLOY",
        "status": "SUCCEEDED",
        "number": 1,
        "instances": 1,
        "created_at": "2026-01-31T09:00:00Z",
        "finished_at": "2026-01-31T09:00:02Z",
    }
    ended = EndedDeployment(StartedDeployment("/application/x", "web", "d"), deployment)
    yellow = "\x1b[33mlive, without a public address\x1b[0m"
    assert yellow in summary(ended, "", lacks_port=True)
    # Negative control: a worker and a database need no port.
    assert yellow not in summary(ended, "")
