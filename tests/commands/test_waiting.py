"""`--wait`: a command that starts something can watch it to its end."""

from __future__ import annotations

import asyncio
import json
import shlex
from typing import Any

import pytest

from tests.commands.test_following import at_a_terminal
from tests.commands.test_stories import shop
from tests.commands.waits import held, meanwhile, states, watch
from tests.logs.streams import settled
from tests.schemathesis.serving import served
from windlass.cli.client import Api, ApiAnswer, ApiRefused
from windlass.cli.deployments import DeploymentFailed, ServiceDeleted, StartedDeployment
from windlass.cli.names import ResolvedResource
from windlass.cli.waiting import DeploymentWait
from windlass.cli.waiting_for_all import EnvironmentWait
from windlass.control.deploying.ledger import with_remarks
from windlass.terminal.command_errors import CommandFailed

REFUSAL = "Ask the server that runs this service, that of the place local: lines are only known there"


async def test_a_deployment_is_watched_until_it_runs(windlass):
    await shop(windlass)
    said = await watch(windlass, "application", "deploy", "web", "--wait")
    assert said.code == 0, said
    assert said.json["status"] == "SUCCEEDED"
    assert states(said)[-1] == "RUNNING"
    assert "BUILDING" in states(said)


async def test_a_wait_shows_each_line_of_the_build_log_once(windlass):
    await shop(windlass)
    said = await watch(windlass, "application", "deploy", "web", "--wait")
    log = await windlass.done("deployment", "log", said.json["id"], "--application", "web")
    shown = [line[2:] for line in said.err.splitlines() if line.startswith("  ")]
    assert shown == [line["message"] for line in log["results"]]
    assert said.err.index("Building ") < said.err.index("web: RUNNING")


async def test_a_wait_does_not_depend_on_a_log_that_the_server_cannot_read(windlass, monkeypatch):
    await shop(windlass)
    call = Api.call

    def refuse_logs(api, method, path, *rest, **options):
        if path.endswith("/log"):
            raise ApiRefused(REFUSAL, ApiAnswer(503, {}, b""))
        return call(api, method, path, *rest, **options)

    monkeypatch.setattr(Api, "call", refuse_logs)
    said = await held(windlass, "application", "deploy", "web", "--wait")
    assert said.code == 0, said
    assert states(said)[-1] == "RUNNING"
    assert f"The log of the build could not be read. {REFUSAL}" in said.err


async def test_a_failure_ends_with_1_the_reason_and_the_last_lines(windlass):
    await shop(windlass)
    windlass.world.engine.exits = "it ended with exit code 3"
    windlass.world.engine.writes = "KeyError: 'PORT'"
    said = await meanwhile(windlass, "application", "deploy", "web", "--wait")
    assert (said.code, said.out) == (1, "")
    assert states(said)[-1] == "ERROR"
    assert "The last lines of the log of web:\n  KeyError: 'PORT'\n" in said.err
    assert said.err.splitlines()[-1].startswith("windlass: fix this and deploy web again: ")
    assert "it ended with exit code 3" in said.err.splitlines()[-1]


async def test_a_build_that_fails_shows_its_log(windlass):
    await shop(windlass)
    windlass.world.builder.broken = "no requirements.txt"
    said = await meanwhile(windlass, "application", "deploy", "web", "--wait")
    assert said.code == 1
    assert "  Building " in said.err
    assert "no requirements.txt" in said.err.splitlines()[-1]


async def test_a_failure_prints_its_reason_and_the_last_lines_once(windlass):
    await shop(windlass)
    windlass.world.engine.exits = "it ended with exit code 3"
    windlass.world.engine.writes = "KeyError: 'PORT'"
    said = await meanwhile(windlass, "application", "deploy", "web", "--wait")
    assert said.code == 1
    assert said.err.count("it ended with exit code 3") == 1, said.err
    assert said.err.count("KeyError: 'PORT'") == 1, said.err


def test_the_last_line_of_a_failure_leaves_out_the_output_that_was_printed_before():
    message = with_remarks("web exited with code 3", "v1 still serves", "KeyError: 'PORT'")
    assert "KeyError" in message
    failed = DeploymentFailed("web", {"status": "FAILED", "action": "DEPLOY", "message": message})
    assert failed.message == "fix this and deploy web again: web exited with code 3. v1 still serves"


@pytest.mark.parametrize(
    ("word", "state"),
    [("redeploy", "RUNNING"), ("restart-service", "RUNNING"), ("stop", "STOPPED"), ("uninstall", "STOPPED")],
)
async def test_each_action_on_a_service_can_be_waited_for(windlass, word, state):
    await shop(windlass)
    await meanwhile(windlass, "application", "deploy", "web", "--wait")
    said = await meanwhile(windlass, "application", word, "web", "--wait")
    assert said.code == 0, said
    assert said.json["status"] == "SUCCEEDED"
    assert states(said)[-1] == state


async def test_rollback_can_wait_for_its_deployment(windlass):
    await shop(windlass)
    first = await meanwhile(windlass, "application", "deploy", "web", "--wait")
    windlass.world.git.push("second")
    await meanwhile(windlass, "application", "deploy", "web", "--wait")
    said = await meanwhile(windlass, "application", "rollback", "web", "--wait")
    assert (said.code, said.json["repeats"]) == (0, first.json["id"])


async def test_wait_returns_at_once_if_the_action_starts_no_deployment(windlass):
    await shop(windlass)
    said = await windlass("application", "uninstall", "web", "--wait")
    assert (said.code, said.out, said.err) == (0, "", "web: there was nothing to do\n")


async def test_waiting_for_a_superseded_deployment_fails_and_names_the_newer_one(windlass):
    app = await shop(windlass)
    gate = windlass.world.builder.gate = asyncio.Event()
    await windlass.done("application", "deploy", "web")
    settling = asyncio.create_task(windlass.world.settle())
    await settled(lambda: windlass.world.builder.built)  # else the next one takes the place of this one
    waiting = asyncio.create_task(windlass("application", "deploy", "web", "--wait"))
    await settled(lambda: len(windlass.world.installation.app._streams) == 1)
    assert (await windlass.world.post(f"/application/{app}/deploy")).status == 202
    said = await waiting
    assert said.code == 1
    assert "windlass: look at v3 of web, a newer deployment" in said.err
    gate.set()
    await settling


WEB = StartedDeployment("/application/2", "web", "3")


class RefusingApi:
    """Answers every request with this status."""

    def __init__(self, status: int) -> None:
        self.status = status

    def get(self, path: str) -> dict[str, object]:
        return {}

    def call(self, method: str, path: str, *, headers: object) -> ApiAnswer:
        raise ApiRefused("No application with this id was found", ApiAnswer(self.status, {}, b""))


@pytest.mark.parametrize(("status", "failure"), [(404, ServiceDeleted), (403, ApiRefused)])
def test_a_service_that_was_deleted_before_it_could_be_followed_is_reported_as_deleted(status, failure):
    api: Any = RefusingApi(status)
    wait = DeploymentWait(api, StartedDeployment("/application/1", "web", "2"))
    with pytest.raises(CommandFailed) as raised:
        wait.until_done()
    assert type(raised.value) is failure


@pytest.mark.parametrize(("status", "failure"), [(404, ServiceDeleted), (403, ApiRefused)])
def test_an_environment_that_was_deleted_before_it_could_be_followed_is_reported_as_deleted(status, failure):
    api: Any = RefusingApi(status)
    wait = EnvironmentWait(api, ResolvedResource("1", "production", "shop/production", "2"), cancelled=False)
    with pytest.raises(CommandFailed) as raised:
        wait.until_done({})
    assert type(raised.value) is failure
    if failure is ServiceDeleted:
        assert "production was deleted while this command waited" in raised.value.message


def test_a_waiting_command_prints_the_reason_for_waiting_once(capsys):
    api: Any = RefusingApi(404)
    environment = EnvironmentWait(
        api, ResolvedResource("1", "production", "shop/production", "2"), cancelled=False
    )
    status = {"state": "DEPLOYING", "deployment_request_id": "3", "message": "Change internal_port to 8000"}
    for _ in range(2):
        assert [
            *environment._collect_ended({"2": status}, {"2": StartedDeployment("/application/2", "web", "3")})
        ] == []
    assert capsys.readouterr().err == "web: DEPLOYING\n  web: Change internal_port to 8000\n"
    alone = DeploymentWait(api, WEB)
    for _ in range(2):
        alone._say_waiting({"status": "DEPLOYING", "message": "Change internal_port to 8000"})
    assert capsys.readouterr().err == "  Change internal_port to 8000\n"


@pytest.mark.parametrize("force", ["", "?skipReconcile=true"], ids=["", "forced"])
@pytest.mark.parametrize("deleted", ["application", "environment", "project"])
@pytest.mark.parametrize("whole", [False, True], ids=["one", "all"])
async def test_waiting_for_a_service_that_is_deleted_reports_the_deletion(windlass, whole, deleted, force):
    world, ids = windlass.world, {"application": await shop(windlass)}
    ids["environment"] = (await world.get(f"/application/{ids['application']}"))["environment"]["id"]
    ids["project"] = (await world.get(f"/environment/{ids['environment']}"))["project"]["id"]
    gate = windlass.world.builder.gate = asyncio.Event()
    words = ("environment", "deploy", "production") if whole else ("application", "deploy", "web")
    waiting = asyncio.create_task(windlass(*words, "--wait"))
    await settled(lambda: len(windlass.world.installation.app._streams) == 1)
    settling = asyncio.create_task(windlass.world.settle())
    await settled(lambda: windlass.world.builder.built)
    assert (await world.delete(f"/{deleted}/{ids[deleted]}{force}")).status == 204
    said = await waiting
    gate.set()
    await settling
    assert (said.code, said.out) == (1, "")
    last = said.err.splitlines()[-1]
    assert last.startswith("windlass: create web again if you still need it: "), said
    assert "was deleted" in last
    assert "cancelled" not in last


async def test_cancel_deployment_with_wait_succeeds_when_the_deployment_is_cancelled(windlass):
    await shop(windlass)
    windlass.world.builder.gate = asyncio.Event()
    await windlass.done("application", "deploy", "web")
    settling = asyncio.create_task(windlass.world.settle())
    await settled(lambda: windlass.world.builder.built)
    said = await windlass("application", "cancel-deployment", "web", "--wait")
    assert (said.code, states(said)[-1]) == (0, "CANCELED")
    await settling


async def test_an_environment_is_watched_service_by_service(windlass):
    await shop(windlass)
    place = (
        "--environment",
        "production",
        "--name",
        "db",
        "--type",
        "POSTGRESQL",
        "--version",
        "16",
        "--mode",
        "CONTAINER",
    )
    await windlass.done("database", "create", *place)
    said = await meanwhile(windlass, "environment", "deploy", "production", "--wait")
    assert said.code == 0, said
    assert said.json["state"] == "RUNNING"
    assert states(said)[-1] == states(said, "db")[-1] == "RUNNING"
    said = await meanwhile(windlass, "environment", "stop", "production", "--wait")
    assert (said.code, said.json["state"]) == (0, "STOPPED")


async def test_waiting_for_an_environment_ignores_failures_of_earlier_deployments(windlass):
    await shop(windlass)
    windlass.world.engine.broken = "no"
    assert (await meanwhile(windlass, "application", "deploy", "web", "--wait")).code == 1
    windlass.world.engine.broken = ""
    await windlass.done(
        "application",
        "create",
        "--environment",
        "production",
        "--name",
        "api",
        "--git-repository.url",
        "https://git.example/acme/api.git",
    )
    ids = [
        one["id"]
        for one in (await windlass.done("application", "list", "--environment", "production"))["results"]
    ]
    chosen = ("--applications", json.dumps([{"application_id": ids[1]}]))
    said = await meanwhile(windlass, "environment", "service/deploy", "production", *chosen, "--wait")
    assert said.code == 0, said
    assert states(said) == []
    assert states(said, "api")[-1] == "RUNNING"


async def test_each_failure_in_an_environment_is_shown_with_its_reason(windlass):
    await shop(windlass)
    words = (
        "--environment",
        "production",
        "--name",
        "api",
        "--git-repository.url",
        "https://git.example/a.git",
    )
    await windlass.done("application", "create", *words)
    windlass.world.builder.broken = "no requirements.txt"
    said = await meanwhile(windlass, "environment", "deploy", "production", "--wait")
    assert said.code == 1
    assert "The last lines of the log of web" in said.err
    for name in ("web", "api"):
        reason = f"no requirements.txt. No version of {name} serves now"
        assert f"fix this and deploy {name} again: {reason}\n" in said.err
    assert said.err.endswith("windlass: 2 of 2 failed: see above what to do about each\n")


@pytest.mark.parametrize(
    ("message", "option", "field"),
    [
        ("Set builder to RECIPE, or use docker", "--builder RECIPE", ("builder", "RECIPE")),
        ("Set ports[0].internal_port to 3000: it listens there", "--port 3000", ("internal_port", 3000)),
    ],
)
async def test_a_failure_that_a_setting_fixes_prints_a_working_edit_command(windlass, message, option, field):
    await shop(windlass)
    await windlass.done("application", "edit", "web", "--port", "80")
    windlass.world.builder.broken = message
    said = await meanwhile(windlass, "application", "deploy", "web", "--wait")
    command = f"windlass application edit web {option}"
    assert said.err.splitlines()[-1].startswith(f"windlass: run `{command}` and deploy web again: {message}")
    edited = await windlass.done(*shlex.split(command)[1:])
    name, value = field
    assert {**edited, **(edited["ports"] or [{}])[0]}[name] == value


PUBLIC = {"internal_port": 80, "publicly_accessible": True, "protocol": "HTTP"}


@pytest.mark.parametrize(
    ("ports", "is_named"),
    [
        ([PUBLIC], True),
        ([], False),
        ([PUBLIC, {**PUBLIC, "internal_port": 81}], False),
        ([{**PUBLIC, "publicly_accessible": False}], False),
        ([{**PUBLIC, "protocol": "TCP"}], False),
        ([{**PUBLIC, "protocol": "GRPC"}], False),
        ([{**PUBLIC, "name": "web"}], False),
        ([{**PUBLIC, "external_port": 8443}], False),
        ([{**PUBLIC, "public_path": "/api"}], False),
    ],
)
@pytest.mark.slow
async def test_no_edit_command_is_suggested_that_would_change_more_than_the_port_number(
    windlass, ports, is_named
):
    """`--port` makes one public port for HTTP: a private one must not become public by it."""
    await shop(windlass)
    await windlass.done("application", "edit", "web", "--ports", json.dumps(ports))
    windlass.world.builder.broken = "Set ports[0].internal_port to 3000: it listens there"
    said = await meanwhile(windlass, "application", "deploy", "web", "--wait")
    assert ("windlass application edit web --port 3000" in said.err) == is_named
    assert "deploy web again: Set ports[0]" in said.err


async def test_waiting_for_an_environment_without_services_succeeds(windlass):
    await windlass.done("project", "create", "--name", "shop")
    await windlass.done("environment", "create", "--project", "shop", "--name", "production")
    assert (await windlass("environment", "deploy", "production", "--wait")).code == 0


async def test_interrupting_the_wait_does_not_cancel_the_deployment(windlass):
    await shop(windlass)
    building = windlass.world.builder.gate = asyncio.Event()
    with at_a_terminal(windlass.url, "application", "deploy", "web", "--wait", piped=True) as terminal:
        assert await asyncio.to_thread(terminal.process.stderr.readline) == b"web: QUEUED\n"
        code, error = await terminal.interrupt()
    assert code == 130
    assert error.endswith("It continues in the background.\n")
    building.set()
    await windlass.world.settle()
    assert (await windlass.done("application", "status", "web"))["state"] == "RUNNING"


async def test_waiting_for_a_deployment_survives_a_server_outage(windlass):
    await shop(windlass)
    app = windlass.world.installation.app
    refusals = [503] * 2

    async def away_at_first(scope, receive, send):
        if "/deployment/" in scope["path"] and refusals:
            status = refusals.pop()
            await send({"type": "http.response.start", "status": status, "headers": []})
            await send({"type": "http.response.body", "body": b'{"message": "This server is stopping"}'})
        else:
            await app(scope, receive, send)

    async with served(windlass.world, away_at_first) as url:
        said = await meanwhile(windlass, "application", "deploy", "web", "--wait", url=url)
    assert said.code == 0, said
    assert not refusals
    assert said.err.startswith("This server is stopping\nTrying again…\nContinuing.\n")
