"""Habits from other tools: a service is named in the same way everywhere, and their commands are answered."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.cli.said import say
from tests.commands.test_stories import shop
from tests.commands.waits import meanwhile
from tests.tokens import ADMIN
from windlass.cli.linked_folder import FolderLink, write_link


@pytest.fixture
async def two(windlass, tmp_path, monkeypatch):
    """A linked folder of `web`, which runs, beside `worker`."""
    id = await shop(windlass)
    world = windlass.world
    place = (await world.get(f"/application/{id}")).json["environment"]["id"]
    other = await world.application(place, name="worker")
    monkeypatch.chdir(tmp_path)
    write_link(tmp_path, FolderLink(project="shop", environment="production", application="web"))
    for service in (id, other):
        await world.post(f"/application/{service}/deploy")
    await world.settle()
    return windlass


async def deployments(two, name: str = "worker") -> list[str]:
    rows = (await two.done("deployment", "list", "--application", name))["results"]
    return [row["action"] for row in reversed(rows)]


@pytest.mark.parametrize("words", [("deploy", "worker"), ("deploy", "-a", "worker")])
async def test_a_service_is_named_with_or_without_an_option(two, words):
    assert (await meanwhile(two, *words)).code == 0
    assert await deployments(two) == ["DEPLOY", "DEPLOY"]


async def test_two_different_services_in_one_command_are_refused(two):
    said = await two("deploy", "worker", "-a", "web")
    assert (said.code, said.err) == (2, "windlass: name one service, and not both 'worker' and 'web'\n")
    said = await two("rollback", "worker", "v1", "-a", "web")
    assert (said.code, "give one service and one version" in said.err) == (2, True)
    said = await two("scale", "worker=1", "-a", "web")
    assert (said.code, "and not both" in said.err) == (2, True)


@pytest.mark.parametrize("words", [("worker",), ("-a", "worker")])
async def test_reading_commands_name_the_service_in_the_same_two_ways(two, words):
    for command in (("logs",), ("env",), ("secrets",), ("releases",)):
        assert (await two(*command, *words)).code == 0, command
    assert [row["name"] for row in (await two.done("ps", *words))["results"]] == ["worker"]
    said = await two("open", *words, "--print")
    assert "give worker a public port" in said.err


@pytest.mark.parametrize("words", [("worker", "2"), ("2", "-a", "worker"), ("worker=2",)])
async def test_scale_names_the_service_in_three_ways(two, words):
    assert (await meanwhile(two, "scale", *words)).code == 0
    made = await two.done("application", "get", "worker")
    assert made["max_running_instances"] == 2


async def test_the_first_word_of_variables_is_the_service_if_one_has_this_name(two):
    await two.done("env", "set", "worker", "A=1", "B=2")
    await two.done("secrets", "set", "worker", "KEY=s3cret")
    (Path.cwd() / ".env").write_text("C=3\n")
    await two.done("env", "import", "worker", ".env")
    await two.done("env", "unset", "worker", "A")
    rows = (await two.done("env", "list", "worker"))["results"]
    assert {row["key"] for row in rows if row["scope"] == "APPLICATION"} == {"B", "C"}
    await two.done("secrets", "set", "-a", "web", "worker=x", "Y=2")
    assert {row["key"] for row in (await two.done("secrets", "web"))["results"]} == {"worker", "Y"}


async def test_a_command_after_two_dashes_runs_in_the_named_service(two):
    assert (await meanwhile(two, "run", "worker", "--", "rake", "-a", "--", "x")).code == 0
    assert (await meanwhile(two, "run", "-a", "worker", "--", "rake", "db")).code == 0
    assert (await meanwhile(two, "run", "--", "rake", "db")).code == 0
    rows = (await two.done("deployment", "list", "--application", "worker"))["results"]
    assert [row.get("command") for row in rows] == [["rake", "db"], ["rake", "-a", "--", "x"], None]
    assert await deployments(two, "web") == ["DEPLOY", "RUN"]


# Versions


async def test_a_command_that_ran_once_is_no_version(two):
    await meanwhile(two, "run", "worker", "--", "flask", "db", "upgrade")
    said = await two("deployment", "list", "--application", "worker", "--text")
    assert [line.split()[1:4] for line in said.out.splitlines()[1:]] == [
        ["run", "2", "RUN"],
        ["v1", "DEPLOY", said.out.splitlines()[2].split()[3]],
    ]
    assert "RUN flask db upgrade" in said.out
    said = await two("releases", "worker", "--text")
    assert ("run 2" in said.out, said.err.splitlines()[-1]) == (False, "v1 of worker serves now.")
    assert [row["serves"] for row in (await two.done("releases", "worker"))["results"]] == [True]
    assert (await two.done("deployment", "get", "2", "--application", "worker"))["serves"] is False


async def test_a_rollback_and_a_repetition_are_called_so(two):
    await meanwhile(two, "scale", "worker", "2")
    said = await meanwhile(two, "rollback", "worker", "v1")
    assert said.code == 0, said
    said = await two("releases", "worker", "--text")
    assert [" ".join(line.split()[2:5]) for line in said.out.splitlines()[1:3]] == [
        "ROLLBACK to v1",
        "REDEPLOY of v1",
    ]


async def test_a_rollback_shows_beforehand_what_it_changes(two):
    await two("env", "set", "worker", "COLOUR=red")
    await two("secrets", "set", "worker", "TOKEN", stdin="hidden value")
    said = await two("rollback", "worker", "v1", "--show", "--text")
    first, titles, *lines = said.out.splitlines()
    assert first.startswith("v1 of worker is the same build")
    assert titles.split() == ["LEVEL", "KEY", "NOW", "THEN", "ROLLBACK"]
    assert [line.split() for line in lines] == [
        ["APPLICATION", "COLOUR", "red", "-", "goes", "back"],
        ["APPLICATION", "TOKEN", "secret,", "is", "deleted", "goes", "back"],
    ]
    assert "hidden value" not in said.out
    assert len(await deployments(two)) == 1, "it only shows"


async def test_a_rollback_without_an_earlier_build_says_so(two):
    said = await two("rollback", "worker")
    assert said.code == 1
    assert "it has no earlier version of another build" in said.err


async def test_a_service_without_instances_is_stopped_and_keeps_its_version(two):
    said = await meanwhile(two, "scale", "worker", "0", "--text")
    assert said.out.startswith("worker is stopped: 0 instances (")
    assert "Start one with: windlass scale worker=1" in said.out
    [row] = (await two.done("ps", "worker"))["results"]
    assert (row["state"], row["version"], row["instances"]) == ("STOPPED", "v2", 0)
    said = await two("releases", "worker", "--text")
    assert said.err.endswith("v2 of worker is the present version, and has no instances.\n")
    said = await meanwhile(two, "scale", "worker", "1", "--text")
    assert said.out.startswith("worker is live")
    [row] = (await two.done("ps", "worker"))["results"]
    assert (row["state"], row["instances"]) == ("RUNNING", 1)


async def test_existing_clients_see_a_service_without_instances_as_deployed(two):
    await meanwhile(two, "scale", "worker", "0")
    [row] = (await two.done("ps", "worker"))["results"]
    status = (await two.world.get(f"/compat/application/{row['id']}/status")).json
    assert status["state"] == "DEPLOYED"


async def test_the_result_in_a_pipe_is_json_and_says_how_to_get_text(two):
    said = await meanwhile(two, "deploy", "worker")
    assert said.json["status"] == "SUCCEEDED"
    assert "With --text, it is one line." in said.err
    said = await meanwhile(two, "deploy", "worker", "--json")
    assert "--text" not in said.err


# Tables and logs


async def test_services_are_a_table_at_80_columns_also_with_failures(two):
    world = two.world
    [row] = (await two.done("ps", "worker"))["results"]
    ports = [{"internal_port": 80, "publicly_accessible": True}]
    await world.patch(f"/application/{row['id']}", {"ports": ports, "name": "worker-with-a-long-name"})
    world.git.broken = "there is no such repository"
    await world.post(f"/application/{row['id']}/deploy")
    await world.settle()
    said = await two("ps", "--text", width=80)
    assert said.out.splitlines()[0].split()[:2] == ["NAME", "STATE"], said
    assert len([line for line in said.out.splitlines() if line.startswith("worker-with-a-long-name  ")]) == 1
    assert all(len(line) <= 80 for line in said.out.splitlines()[:3])


async def test_lines_of_the_last_hour_are_asked_for_with_a_duration(two):
    for words in (("logs", "web"), ("application", "log", "web")):
        assert (await two(*words, "--since", "1h")).code == 0, words
        assert (await two(*words, "--since", "2026-01-31T09:05:00.007Z", "--until", "15m")).code == 0
        said = await two(*words, "--since", "yesterday")
        assert (said.code, "must be a time such as" in said.err) == (1, True)


# Connections


async def test_a_proxy_leads_to_a_port_of_a_service_that_is_not_public(two):
    async def answer(reader, writer):
        writer.write((await reader.read(100)).upper())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        two.world.engine.answers_at = server.sockets[0].getsockname()[1]
        [row] = (await two.done("ps", "worker"))["results"]
        await two.world.patch(f"/application/{row['id']}", {"ports": [{"internal_port": 8080}]})
        await two.world.post(f"/application/{row['id']}/deploy")
        await two.world.settle()
        said = await two("proxy", "worker", "81")
        assert said.err == "windlass: port: choose a port on which worker listens: 8080\n"
        environment = {name: os.environ[name] for name in ("PATH", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
        environment |= {"WINDLASS_URL": two.url, "WINDLASS_TOKEN": ADMIN}
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "windlass", "proxy", "worker", "8080", "--json",
            env=environment, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        try:
            text = (await process.stdout.readuntil(b"}")).decode()
            port = int(text.partition('"port": ')[2].strip(" \n}"))
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"select")
            assert await reader.read(100) == b"SELECT"
            writer.close()
        finally:
            process.terminate()
            await process.wait()


async def test_database_client_refuses_a_service_that_is_no_database(two):
    said = await two("database", "client", "worker")
    assert said.code == 2
    assert said.err == "windlass: name a database, or use `windlass proxy worker`: worker is none\n"
    said = await two("database", "client")
    assert said.err == "windlass: create a database first: there is none here\n"


# Words of other tools


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("config:set", "A=b"), "windlass env set NAME=VALUE"),
        (("config:unset", "A"), "windlass env unset NAME"),
        (("config", "set", "A=b"), "windlass env set NAME=VALUE"),
        (("env", "A=b"), "windlass env set A=b"),
        (("env", "get", "A"), "windlass env list"),
        (("domains",), "windlass domain create"),
        (("certs",), "windlass domain check"),
        (("pg:psql",), "windlass database client NAME"),
        (("psql",), "windlass database client NAME"),
        (("pg:backups",), "no backups of databases yet"),
        (("backups",), "no backups of databases yet"),
        (("database", "backup", "main-db"), "no backups of databases yet"),
        (("ps:scale", "web=2"), "windlass scale NAME=COUNT"),
        (("git", "push"), "git push windlass main"),
        (("launch",), "windlass init"),
    ],
)
def test_commands_of_other_tools_are_answered_with_those_of_windlass(words, answer):
    said = say(*words)
    assert said.code == 2
    assert answer in said.err


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("env set A=1", "windlass deploy"),
        ("env set worker A=1", "windlass deploy worker"),
        ("env set worker A=1 -e shop/production", "windlass deploy worker -e shop/production"),
        ("env set --shared A=1", "windlass environment deploy shop/production"),
        ("settings set worker deployment.update_strategy.type=Recreate", "windlass deploy worker"),
        ("settings set deployment.update_strategy.type=Recreate", "windlass deploy"),
    ],
)
async def test_a_change_names_the_command_that_deploys_what_it_changed(two, words, command):
    said = await two(*words.split(), "--text")
    assert (said.code, f"`{command}`" in said.err) == (0, True)
