"""The everyday commands mean the service of the linked folder."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from tests.cli.said import say
from tests.commands.on_a_terminal import on_a_terminal
from tests.commands.test_stories import shop
from tests.commands.waits import meanwhile
from tests.tokens import ADMIN
from tests.world import REPOSITORY
from windlass.cli.confirmed_links import note_link
from windlass.cli.git_folder import for_server, git_folder
from windlass.cli.linked_folder import LINK_FILE, FolderLink, find_linked_folder, write_link
from windlass.cli.main import main
from windlass.engines.workload import RELEASE_INDEX, OutputLine

LINK = FolderLink(project="shop", environment="production", application="web")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a program, in which commands run."""
    (tmp_path / "app.py").write_text("from flask import Flask\napp = Flask(__name__)\n")
    (tmp_path / "requirements.txt").write_text("flask\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
async def linked(windlass, folder):
    """A command line in a linked folder, whose service runs."""
    id = await shop(windlass)
    await windlass.world.patch(
        f"/application/{id}", {"ports": [{"internal_port": 80, "publicly_accessible": True}]}
    )
    write_link(folder, LINK)
    note_link(folder, LINK)
    await windlass.world.post(f"/application/{id}/deploy")  # over HTTP, which takes a tenth of a command
    await windlass.world.settle()
    return windlass


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit_all(folder: Path, remote: str = REPOSITORY, *, pushed: bool = True) -> str:
    """Makes the folder a repository, with everything in one commit."""
    git(folder, "init", "-q", "-b", "main")
    git(folder, "remote", "add", "origin", remote)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "First light")
    if pushed:
        git(folder, "update-ref", "refs/remotes/origin/main", "HEAD")
    return git(folder, "rev-parse", "HEAD")


# init and link


async def test_init_creates_what_is_missing_and_links_the_folder(windlass, folder):
    words = ("init", "--name", "web", "-e", "shop/production", "--repository", REPOSITORY)
    said = await windlass(*words)
    assert (said.code, said.json["application"]) == (0, "web"), said
    assert "Created the project shop." in said.err
    made = await windlass.done("application", "get", "shop/production/web")
    assert made["git_repository"]["url"] == REPOSITORY
    assert [port["publicly_accessible"] for port in made["ports"]] == [True]
    linked = find_linked_folder(folder)
    assert linked is not None
    assert linked.link.path == "shop/production/web"
    assert (await windlass.done("environment", "get", "shop/production"))["mode"] == "PRODUCTION"
    again = await windlass(*words)
    assert (again.code, "exists already" in again.err) == (0, True), again


async def test_init_asks_three_questions_with_answers_to_choose(windlass, folder):
    commit_all(folder)
    typed = "web\nshop/staging\n\n"
    shown = await asyncio.to_thread(on_a_terminal, "init", url=windlass.url, typed=typed, cwd=folder)
    assert "Detected Flask" in shown
    questions = re.findall(r"([A-Z][\w ,]+) \[([^]]+)\]: ", shown)
    assert [question for question, _ in questions] == [
        "Name of the application",
        "Project and environment",
        "Port on which it listens for HTTP, or none",
    ]
    assert "This folder is shop/staging/web now" in shown
    made = await windlass.done("application", "get", "shop/staging/web")
    assert [port["internal_port"] for port in made["ports"]] == [int(questions[2][1])]


async def test_init_refuses_an_invalid_port_and_an_invalid_place(windlass, folder):
    for words in (("--port", "0"), ("--port", "http"), ("-e", "shop")):
        said = await windlass("init", "--repository", REPOSITORY, *words)
        assert (said.code, said.err.splitlines()[-1].startswith("windlass: give a p")) == (2, True), said


async def test_link_connects_the_folder_with_an_application_until_unlink(windlass, folder):
    await shop(windlass)
    said = await windlass.done("link", "web")
    assert (said["project"], said["environment"], said["application"]) == ("shop", "production", "web")
    assert "token" not in (folder / LINK_FILE).read_text()
    assert (await windlass("unlink")).code == 0
    assert not (folder / LINK_FILE).exists()
    assert (await windlass("unlink")).code == 1


# up and deploy


async def test_up_deploys_the_pushed_commit_and_ends_with_the_address(linked, folder):
    commit = commit_all(folder)
    said = await meanwhile(linked, "up", "--text")
    assert said.code == 0, said
    assert f"Deploying the commit {commit[:7]}: First light" in said.err
    assert said.out.startswith("web is live at http://web-production")
    assert said.out.endswith(f", v2 {commit[:7]})\n")


@pytest.mark.parametrize(
    ("remote", "url"),
    [
        ("git@github.com:acme/shop.git", "https://github.com/acme/shop.git"),
        ("ssh://git@git.example:2222/acme/shop", "https://git.example/acme/shop"),
        ("https://user:s3cret@git.example:8443/a.git?x=1", "https://git.example:8443/a.git"),
        ("/home/me/shop", ""),
        ("../shop", ""),
        ("https://[git.example/acme/shop", ""),
        ("https://git.example:port/acme/shop", ""),
    ],
)
def test_credentials_are_removed_from_a_git_remote_before_it_is_sent(remote, url):
    assert for_server(remote) == url


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        (".windlass.toml", False),
        (".env", False),
        ("api/.env.local", False),
        ("new.py", True),
        ("app.py", True),
    ],
)
def test_only_files_of_the_application_count_as_changed(folder, name, counts):
    commit_all(folder)
    (folder / "api").mkdir()
    (folder / name).write_text("changed")
    state = git_folder(folder)
    assert state is not None
    assert (state.has_changes, bool(state.pushed_to)) == (counts, True)


async def test_open_says_of_each_kind_how_it_gets_an_address_if_it_can_have_one(linked):
    database = ("--type", "POSTGRESQL", "--version", "16", "--mode", "CONTAINER")
    await linked.done(
        "database", "create", "--environment", "shop/production", "--name", "main-db", *database
    )
    assert "windlass deploy main-db" in (await linked("open", "main-db")).err
    await linked.done("database", "deploy", "main-db")
    await linked.world.settle()
    said = await linked("open", "main-db")
    assert (said.code, "edit" in said.err) == (1, False), said
    assert "main-db is a database" in said.err
    await linked.done("application", "edit", "web", "--field", "ports=[]")
    await linked.done("application", "deploy", "web")
    await linked.world.settle()
    assert "windlass application edit web --port NUMBER" in (await linked("open", "web")).err


async def test_deploy_with_detach_returns_at_once_and_names_the_status_command(linked):
    said = await linked("deploy", "--detach", "--text")
    follow = "It continues in the background: `windlass ps` shows its state."
    assert said.out == f"web: DEPLOY v2 is QUEUED. {follow}\n"


async def test_outside_of_a_linked_folder_up_says_what_to_do(windlass, folder):
    said = await windlass("up")
    assert (said.code, said.err.startswith("windlass: run `windlass init` here first")) == (2, True), said


async def test_an_unknown_service_is_answered_with_the_nearest_name(linked):
    said = await linked("logs", "wbe")
    assert (said.code, said.err) == (
        2,
        "windlass: did you mean web? There is no service 'wbe' in shop/production\n",
    )


# ps, logs, open


async def test_ps_with_a_token_limited_to_a_project_lists_the_services_of_that_project(
    linked, monkeypatch, tmp_path
):
    words = ("--name", "ci", "--scopes", "Read", "--limited-to", "shop")
    token = (await linked.done("api-token", "create", *words))["token"]
    for folder in (tmp_path, tmp_path.parent):
        monkeypatch.chdir(folder)
        said = await linked("ps", token=token)
        assert (said.code, [row["name"] for row in said.json["results"]]) == (0, ["web"]), said


async def test_ps_lists_the_services_of_the_environment_with_their_addresses(linked):
    shown = await linked("ps", "--text", width=80)
    head, row = shown.out.splitlines()
    assert head.split()[:3] == ["NAME", "STATE", "URL"]
    assert ("PROJECT" in head, "Services of shop/production:" in shown.err) == (False, True)
    assert row.split()[:2] == ["web", "RUNNING"]
    assert (await linked.done("ps"))["results"][0]["version"] == "v1"


async def test_logs_shows_the_last_lines_of_the_service_and_of_its_build(linked):
    assert (await linked.done("logs", "-n", "5"))["results"] == (
        await linked.done("application", "log", "web", "--tail", "5")
    )["results"]
    build = await linked("logs", "--build", "--text")
    assert "Building" in build.out


async def test_open_prints_the_address(linked):
    said = await linked("open", "--text")
    assert said.out.startswith("http://web-production")
    assert (await linked.done("open"))["url"] == said.out.strip()


async def test_an_everyday_command_accepts_another_environment_of_the_linked_project(linked):
    await linked.done("environment", "create", "--project", "shop", "--name", "staging")
    assert (await linked.done("ps", "-e", "staging"))["results"] == []
    said = await linked("logs", "-e", "staging")
    assert said.err == (
        "windlass: create it first, with `windlass init`. There is no service 'web' in shop/staging\n"
    )


# Variables


async def variables(linked, kind: str = "environment-variable") -> dict[str, str]:
    rows = (await linked.done(kind, "list", "--application", "web"))["results"]
    return {row["key"]: row.get("value", "") for row in rows if row["scope"] == "APPLICATION"}


async def test_env_sets_several_variables_at_once_and_unsets_them(linked):
    said = await linked.done("env", "set", "A=1", "B=two words")
    assert said == {"created": ["A", "B"], "changed": [], "unchanged": []}
    said = await linked.done("env", "set", "A=1", "B=3")
    assert said == {"created": [], "changed": ["B"], "unchanged": ["A"]}
    assert await variables(linked) == {"A": "1", "B": "3"}
    assert {row["key"] for row in (await linked.done("env"))["results"]} >= {"A", "B"}
    assert (await linked.done("env", "unset", "A"))["deleted"] == ["A"]
    refused = await linked("env", "unset", "B", "NOT_THERE")
    assert (refused.code, refused.err) == (
        1,
        "windlass: check the name: web has no variable NOT_THERE; there are B\n",
    )
    assert await variables(linked) == {"B": "3"}


async def test_env_imports_a_file_and_shows_the_difference(linked, folder):
    await linked.done("env", "set", "SAME=1", "OTHER=1")
    (folder / "vars").write_text("SAME=1\nOTHER=2\nNEW='3'\n")
    only = await linked("env", "import", "vars", "--dry-run", "--text")
    assert only.err.splitlines() == ["+ NEW", "~ OTHER", "1 unchanged"]
    assert (await variables(linked))["OTHER"] == "1"
    assert (await linked.done("env", "import", "vars"))["changed"] == ["OTHER"]
    assert await variables(linked) == {"SAME": "1", "OTHER": "2", "NEW": "3"}


async def test_the_history_of_variables_says_who_changed_them_and_how(linked):
    await linked.done("env", "set", "COLOUR=red", "CITY=Oslo")
    await linked.done("env", "set", "COLOUR=blue")
    await linked.done("env", "unset", "CITY")
    await linked.done("secrets", "set", "API_KEY=s3cret-value")
    whole = (await linked("env", "history", "--text")).out
    for words in ("red → blue", "deleted: Oslo", "new: red", "operator"):
        assert words in whole
    assert "API_KEY" not in whole
    one = (await linked.done("env", "history", "web", "COLOUR"))["changes"]
    assert [change["value"] for change in one] == ["blue", "red"]
    assert [change["key"] for change in (await linked.done("env", "history", "CITY"))["changes"]] == [
        "CITY"
    ] * 2
    secrets = (await linked("secrets", "history", "--text")).out
    assert "API_KEY" in secrets
    assert "s3cret" not in secrets


async def test_the_uses_of_a_variable_name_services_and_keys(linked):
    await linked.done("env", "set", "--shared", "CITY=Oslo")
    await linked.done("env", "set", "TITLE=Shop of {{CITY}}")
    used = await linked.done("env", "uses", "web", "CITY")
    assert [(one["service_name"], one["used_in"]) for one in used["services"]] == [("web", ["TITLE"])]
    assert "in TITLE" in (await linked("env", "uses", "--shared", "CITY", "--text")).out
    assert "gets it" in (await linked("env", "uses", "TITLE", "--text")).out
    assert (await linked("env", "uses", "NOTHING", "--text")).out == "No service sees NOTHING.\n"


async def test_shared_variables_belong_to_the_environment(linked):
    await linked.done("env", "set", "--shared", "A=1")
    [row] = (await linked.done("environment-variable", "list", "--environment", "shop/production"))["results"]
    assert (row["key"], row["scope"]) == ("A", "ENVIRONMENT")


async def test_a_secret_is_read_from_standard_input_and_never_shown(linked, folder):
    said = await linked("secrets", "set", "API_KEY", stdin="s3cret-value\n")
    assert (said.code, said.json["created"]) == (0, ["API_KEY"]), said
    (folder / "vars").write_text("OTHER_KEY=s3cret-value\n")
    imported = await linked("secrets", "import", "vars", "--text")
    listed = await linked("secrets")
    assert [row["key"] for row in listed.json["results"]] == ["API_KEY", "OTHER_KEY"]
    assert "s3cret" not in said.out + said.err + imported.out + imported.err + listed.out
    assert (await linked("secrets", "unset", "API_KEY")).code == 0
    assert [*await variables(linked, "secret")] == ["OTHER_KEY"]


async def test_env_set_with_a_malformed_assignment_changes_no_variable(linked):
    for words in ("env set A", "env set B=1 =1", "env set B=1 1A=2", "secrets set a=b -e nothing/x"):
        assert (await linked(*words.split())).code in (1, 2), words
    assert await variables(linked) == {}


# restart, scale and rollback


async def test_restart_replaces_the_instances_and_builds_nothing(linked):
    said = await meanwhile(linked, "restart", "--text")
    assert (said.code, said.out.startswith("web is live at http://")) == (0, True), said
    versions = (await linked.done("releases", "--json"))["results"]
    assert [version["action"] for version in versions] == ["RESTART", "DEPLOY"]
    assert len({version["git_commit_id"] for version in versions}) == 1
    assert (await linked("restart", "never")).code == 2


async def test_scale_sets_the_instances_and_deploys_the_same_version_again(linked):
    said = await meanwhile(linked, "scale", "2", "--text")
    assert (said.code, "(2 instances, " in said.out) == (0, True), said
    assert (await meanwhile(linked, "scale", "web=1-3")).code == 0
    now = await linked.done("application", "get", "web")
    assert (now["min_running_instances"], now["max_running_instances"]) == (1, 3)


async def test_scale_to_zero_prints_the_command_that_starts_the_service_again(linked):
    said = await meanwhile(linked, "scale", "0", "--text")
    assert said.out.startswith("web is stopped: 0 instances ("), said
    assert said.out.endswith(" Start one with: windlass scale web=1\n"), said
    assert (await meanwhile(linked, "scale", "1", "--text")).out.startswith("web is live at http://")


@pytest.mark.parametrize(("words", "counted"), [("1", "1 instance"), ("web=2-5", "2 to 5 instances")])
async def test_scale_before_the_first_deployment_says_how_to_deploy(windlass, folder, words, counted):
    await shop(windlass)
    write_link(folder, LINK)
    said = await windlass("scale", words, "--text")
    assert (said.code, said.err) == (0, f"Deploy it with `windlass deploy web`: web gets {counted} then.\n")


@pytest.mark.parametrize("words", ["two", "web=", "=2", "5-2", "1 2"])
def test_an_invalid_number_of_instances_is_refused_without_a_request(words):
    said = say("scale", *words.split(), url="http://127.0.0.1:1")
    assert (said.code, said.err.startswith("windlass: give ")) == (2, True), said


async def test_rollback_deploys_the_given_version(linked):
    linked.world.git.push("second")
    assert (await meanwhile(linked, "deploy")).code == 0
    said = await meanwhile(linked, "rollback", "v1", "--text")
    assert (said.code, "web is live" in said.out) == (0, True), said
    assert (await linked("rollback", "v1", "v2")).code == 2


# One-off commands


def answer_runs(windlass, code: int) -> None:
    """Lets each command that runs once say a line, and end with this code."""
    engine, clock = windlass.world.engine, windlass.world.clock

    async def work(workload) -> int:
        pod = f"{workload.name}-{workload.generation}-{RELEASE_INDEX}"
        engine.says(workload.service, OutputLine(clock.now(), "migrating", pod, workload.deployment))
        return code

    engine.work = work


async def test_run_prints_the_output_of_a_command_and_ends_with_its_code(linked):
    answer_runs(linked, 3)
    said = await meanwhile(linked, "run", "--", "python", "manage.py", "migrate")
    assert (said.code, "migrating" in said.out.splitlines()) == (3, True), said


async def test_ctrl_c_cancels_a_command_that_runs_once(linked, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("windlass.cli.everyday.run._show_output", interrupt)
    said = await linked("run", "sleep", "100")
    assert (said.code, said.err) == (130, "The command is being cancelled.\n"), said
    await linked.world.settle()
    newest = (await linked.done("deployment", "list", "--application", "web"))["results"][0]
    assert (newest["action"], newest["status"]) == ("RUN", "CANCELED")


# Names


async def test_names_of_services_are_completed(linked):
    def completed(*words: str) -> list[str]:
        *before, typed = words
        completing = ShellComplete(main, {}, "windlass", "_WINDLASS_COMPLETE")
        return [item.value for item in completing.get_completions(before, typed)]

    calling = ["--url", linked.url, "--token", ADMIN]
    assert await asyncio.to_thread(completed, *calling, "logs", "w") == ["web"]
    assert await asyncio.to_thread(completed, *calling, "ps", "-e", "") == ["shop/production"]
    assert await asyncio.to_thread(completed, *calling, "logs", "shop/") == ["shop/production/web"]
    assert await asyncio.to_thread(completed, *calling, "application", "deploy", "s") == [
        "shop/production/web"
    ]
    assert await asyncio.to_thread(completed, *calling, "container", "deploy", "s") == []
    assert await asyncio.to_thread(completed, "--url", "http://127.0.0.1:1", "logs", "w") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_each_shell(shell):
    said = say("completion", shell)
    assert (said.code, "_WINDLASS_COMPLETE" in said.out) == (0, True), said


async def test_a_clone_shows_beforehand_what_comes_along(linked):
    await linked.done("env", "set", "COLOUR=red")
    shown = await linked("environment", "clone", "shop/production", "--name", "copy", "--dry-run", "--text")
    assert shown.code == 0, shown
    assert "copy would be made. Nothing is made now." in shown.out
    assert "COLOUR" in shown.out
    assert "Not copied:" in shown.out
    said = await linked.done(
        "application", "clone", "web", "--name", "b", "--environment-id", "production", "--dry-run"
    )
    assert [service["name"] for service in said["services"]] == ["b"]
    environments = (await linked.done("environment", "list", "--project", "shop"))["results"]
    assert [one["name"] for one in environments] == ["production"]
