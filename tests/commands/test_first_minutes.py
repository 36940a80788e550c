"""The words of a newcomer are understood, or answered with the right ones."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from tests.cli.said import say
from tests.commands.test_stories import shop
from tests.commands.waits import meanwhile
from tests.tables import rows
from tests.tokens import ADMIN
from tests.world import REPOSITORY
from windlass.cli.deployments import EndedDeployment, StartedDeployment, summary
from windlass.config import Settings
from windlass.operate.serving import first_steps, print_first_steps

WEB = ("application", "create", "--name", "web", "--git-repository.url", REPOSITORY)


async def test_the_port_option_creates_a_public_http_port(windlass):
    await windlass.done("project", "create", "--name", "shop")
    await windlass.done("environment", "create", "--project", "shop", "--name", "production")
    made = await windlass.done(*WEB, "--environment", "production", "--port", "8080", "--port", "9090")
    ports = [(port["internal_port"], port["publicly_accessible"], port["protocol"]) for port in made["ports"]]
    assert ports == [(8080, True, "HTTP"), (9090, True, "HTTP")]
    said = await windlass("application", "edit", "web", "--port", "8081", "--ports", "[]")
    assert (said.code, said.err) == (2, "windlass: give --ports or --port, and not both\n")


@pytest.mark.parametrize(
    ("words", "begins"),
    [
        (("--port", "80", "--port", "70000"), "--port (ports[1].internal_port): must be"),
        (("--ports", '[{"internal_port": 70000}]'), "--ports (ports[0].internal_port): must be"),
        (("--git-repository.root-path", "a\x00b"), "--git-repository.root-path: must have"),
        (("--min-running-instances", "-2"), "--min-running-instances: must be"),
        (("--field", 'ports=[{"internal_port": 70000}]'), "ports[0].internal_port: must be"),
        (("--data", '{"ports": [{"internal_port": 70000}]}'), "ports[0].internal_port: must be"),
        (("--field", "colour=1"), "colour: "),
    ],
)
async def test_a_refusal_names_the_option_that_was_typed(windlass, words, begins):
    await shop(windlass)
    said = await windlass("application", "edit", "web", *words)
    assert (said.code, said.err.startswith(f"windlass: {begins}")) == (1, True), said.err


async def test_a_refusal_of_a_missing_field_or_query_parameter_names_the_cli_option(windlass):
    await windlass.done("project", "create", "--name", "shop")
    said = await windlass("environment", "create", "--project", "shop")
    assert said.err.startswith("windlass: --name: is required"), said.err
    said = await windlass("project", "list", "--page-size", "-1")
    assert (said.code, said.err.startswith("windlass: --page-size: must be")) == (1, True), said.err


async def test_a_refusal_of_a_missing_field_lists_all_other_missing_fields(windlass):
    await windlass.done("project", "create", "--name", "shop")
    await windlass.done("environment", "create", "--project", "shop", "--name", "production")
    words = ("database", "create", "--environment", "production", "--name", "main-db")
    said = await windlass(*words)
    assert said.err.startswith("windlass: --type: is required"), said.err
    assert said.err.endswith(". Also required: --version, --mode (CONTAINER or MANAGED)\n")
    said = await windlass(*words, "--type", "POSTGRESQL", "--data", '{"mode": "CONTAINER"}')
    assert said.err == "windlass: --version: is required\n"


async def test_a_missing_project_or_environment_is_refused_with_the_existing_ones(windlass):
    said = await windlass("environment", "list")
    assert said.err == (
        "windlass: choose one with --project: there is none yet; `windlass project create` makes one\n"
    )
    for project in ("shop", "demo"):
        await windlass.done("project", "create", "--name", project)
        await windlass.done("environment", "create", "--project", project, "--name", "production")
    said = await windlass(*WEB)
    assert said.err == ("windlass: choose one with --environment: shop/production, demo/production\n")
    said = await windlass("environment", "create", "--name", "staging")
    assert said.err == "windlass: choose one with --project: shop, demo\n"


async def test_the_first_deployment_without_an_address_says_how_to_get_one(windlass):
    await shop(windlass)
    said = await meanwhile(windlass, "application", "deploy", "web", "--wait", "--text")
    assert said.err.splitlines()[-1].endswith("windlass application edit web --port NUMBER")
    said = await meanwhile(windlass, "application", "deploy", "web", "--wait", "--text")
    assert "--port" not in said.err
    await windlass.done("application", "edit", "web", "--port", "8080")
    said = await meanwhile(windlass, "application", "deploy", "web", "--wait", "--text")
    assert "web is live at http://" in said.out


async def test_a_created_service_says_how_to_deploy_it(windlass):
    await shop(windlass)
    words = ("--environment", "shop/production", "--git-repository.url", REPOSITORY, "--text")
    said = await windlass("application", "create", "--name", "my api", *words)
    assert said.err == "Deploy it with: windlass application deploy 'my api' --wait\n"
    assert (await windlass("project", "create", "--name", "blog", "--text")).err == ""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder whose Procfile has two processes, in which commands run."""
    (tmp_path / "app.py").write_text("from flask import Flask\napp = Flask(__name__)\n")
    (tmp_path / "requirements.txt").write_text("flask\n")
    (tmp_path / "Procfile").write_text("web: gunicorn app:app\nworker: python app.py\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_the_commands_that_init_prints_create_and_deploy_the_worker_process(windlass, folder):
    said = await windlass("init", "-e", "shop/production", "--name", "web", "--text")
    create, up = (shlex.split(line) for line in said.err.splitlines() if line.startswith("  windlass "))
    made = await windlass.done(*create[1:])
    assert (made["name"], made["process"], made["source"], made["ports"]) == (
        "worker",
        "worker",
        "UPLOAD",
        [],
    )
    windlass.world.builder.names = {"processes": {"web": ("gunicorn",), "worker": ("python",)}}
    ended = await meanwhile(windlass, *up[1:], "--text")
    assert (ended.code, ended.out.startswith("worker is live")) == (0, True), ended
    assert (await windlass.done("application", "status", "web"))["state"] == "STOPPED"


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    """A workspace of two packages, in which commands run."""
    (tmp_path / "pnpm-workspace.yaml").write_text("packages: [apps/*]\n")
    (tmp_path / "package.json").write_text('{"private": true}')
    for name in ("api", "web"):
        (tmp_path / "apps" / name).mkdir(parents=True)
        (tmp_path / "apps" / name / "package.json").write_text('{"scripts": {"start": "node server.js"}}')
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def test_a_folder_of_applications_is_not_an_application(windlass, workspace):
    advice = "windlass: run `windlass init` in the folder of one application, such as apps/api, apps/web"
    more = ". Run `git init` here first, if it needs files of the others"
    said = await windlass("init", "-y")
    assert (said.code, said.err) == (2, f"{advice}{more}\n")
    subprocess.run(["git", "init", "-q"], cwd=workspace, check=True)
    said = await windlass("init", "-y")
    assert (said.code, said.err) == (2, f"{advice}\n")
    (workspace / "Dockerfile").write_text("FROM x\n")
    said = await windlass("init", "-y", "-e", "shop/production")
    assert (said.code, "A Dockerfile is there" in said.err) == (0, True), said


async def test_a_package_of_a_workspace_is_uploaded_with_it(windlass, workspace, monkeypatch):
    subprocess.run(["git", "init", "-q"], cwd=workspace, check=True)
    monkeypatch.chdir(workspace / "apps" / "api")
    made = await windlass.done("init", "-y")
    assert made["project"] == workspace.name.replace("_", "-")[:63].strip("-")
    shown = await windlass.done("application", "get", made["id"])
    source = shown["git_repository"]
    assert (source["url"], source["root_path"]) == ("windlass://push", "/apps/api")
    ended = await meanwhile(windlass, "up", "--text")
    assert (ended.code, ended.out.startswith("api is live")) == (0, True), ended
    (built,) = windlass.world.builder.built
    assert built.root == "apps/api"


@pytest.mark.parametrize(("words", "follows"), [((), True), (("--port", "8080"), False)])
async def test_a_port_detected_by_init_is_automatic_and_a_chosen_port_is_fixed(
    windlass, folder, words, follows
):
    await windlass.done("init", "-e", "shop/production", "--name", "web", *words)
    made = await windlass.done("application", "get", "web")
    assert ([port["internal_port"] for port in made["ports"]], made["automatic_port"]) == ([8080], follows)


@pytest.mark.parametrize(("command", "follows"), [("python app.py", True), ("python other.py", False)])
async def test_the_port_beside_a_dockerfile_follows_the_program_only_if_the_plan_shows_one(
    windlass, folder, command, follows
):
    (folder / "Dockerfile").write_text(f"FROM python:3.11\nCMD {command}\n")
    await windlass.done("init", "-e", "shop/production", "--name", "web")
    made = await windlass.done("application", "get", "web")
    assert (len(made["ports"]), made["automatic_port"]) == (1, follows)


async def test_init_prints_no_further_command_for_a_procfile_with_one_process(windlass, folder):
    (folder / "Procfile").write_text("worker: python app.py\n")
    said = await windlass("init", "-e", "shop/production", "--name", "web", "--text")
    assert (said.code, "  windlass " in said.err) == (0, False), said


async def test_init_prints_no_command_for_the_process_app_of_fly(windlass, folder):
    (folder / "Procfile").unlink()
    (folder / "fly.toml").write_text('[processes]\napp = "python app.py"\nmailer = "python mail.py"\n')
    said = await windlass("init", "-e", "shop/production", "--name", "web", "--text")
    commands = [line for line in said.err.splitlines() if line.startswith("  windlass ")]
    assert (said.code, [line.split()[-1] for line in commands]) == (0, ["UPLOAD", "mailer"]), said


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_first_token_is_printed_to_a_terminal_only(monkeypatch, capsys, tmp_path, is_terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    print_first_steps(Settings(data_dir=str(tmp_path)), f"export WINDLASS_TOKEN={ADMIN}\n")
    printed, file = capsys.readouterr().err, tmp_path / "first-steps"
    assert (ADMIN in printed, file.exists()) == (is_terminal, not is_terminal)
    assert is_terminal or (str(file) in printed and ADMIN in file.read_text())


async def test_the_commands_that_the_first_start_prints_succeed_in_the_order_in_which_they_stand(
    windlass, folder, tmp_path
):
    lines = [
        line for line in first_steps("127.0.0.1", 9, ADMIN).splitlines() if line.startswith("  windlass ")
    ]
    commands = [line.split()[1] for line in lines]
    assert commands == ["login", "demo", "init", "up"]
    windlass.world.builder.names = {"command": ("gunicorn",)}
    answers = {"init": ("-e", "shop/production", "--name", "web")}
    for command in commands:
        if command != "demo":  # it has a test of its own
            # After the login, no variable has the token: this is a later terminal.
            token = ADMIN if command == "login" else None
            words = (command, *answers.get(command, ()))
            said = await meanwhile(windlass, *words, token=token, home=tmp_path / "settings")
            assert said.code == 0, said


async def test_up_refuses_a_service_that_is_not_built_from_a_folder(windlass, folder):
    await windlass("init", "-e", "shop/production", "--name", "web")
    words = ("--name", "db", "--type", "POSTGRESQL", "--version", "16", "--mode", "CONTAINER")
    await windlass.done("database", "create", "--environment", "shop/production", *words)
    said = await windlass("up", "db")
    assert (said.code, said.err) == (2, "windlass: name an application: db is not built from a folder\n")


async def test_ps_without_services_says_how_to_make_one(windlass, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert (await windlass("ps", "--text")).err.startswith("There are no services here. Go to the folder")


@rows(
    ("words", "answer"),
    [
        ("application login", "Did you mean `windlass login`?"),
        ("application secrets web", "Did you mean `windlass secrets`?"),
        ("application start web", "Did you mean `windlass application redeploy`?"),
        ("application env web", "Did you mean `windlass env`?"),
        ("service list", "Did you mean `windlass application`?"),
        ("domain add web shop.example.com", "Did you mean `windlass domain create`?"),
        ("application custom-domain web", "docs/domains.md tells the whole story."),
        ("version", "`windlass --version` shows the version."),
    ],
)
def test_a_command_name_of_another_tool_is_answered_with_the_windlass_command(words, answer):
    said = say(*words.split())
    assert (said.code, said.err.splitlines()[-1].endswith(answer)) == (2, True), said


def test_an_option_of_earlier_clients_is_answered_with_its_replacement():
    said = say("api-token", "create", "--name", "ci", "--scope", "Deploy")
    assert (said.code, "'--scopes'" in said.err.splitlines()[-1]) == (2, True), said


@pytest.mark.parametrize(
    ("state", "begins"), [("ERROR", "Look at its log, "), ("RUNNING", "web is live at ")]
)
def test_a_service_that_fails_right_after_its_deployment_is_not_reported_as_live(state, begins):
    at = "2026-01-31T09:05:00.000Z"
    deployment = {"action": "DEPLOY", "status": "SUCCEEDED", "state": state, "number": 2, "instances": 1}
    ended = EndedDeployment(
        StartedDeployment("/application/1", "web", "2"), deployment | {"created_at": at, "finished_at": at}
    )
    assert summary(ended, "http://web.localhost").startswith(begins)
