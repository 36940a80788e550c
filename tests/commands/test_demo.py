"""`windlass demo`, against a whole Windlass, up to what its engine does."""

from __future__ import annotations

import asyncio

import pytest

from tests.cli.said import say


async def demo(windlass, *words, **options):
    """The command, while time passes for the server that it waits for."""
    saying = asyncio.create_task(windlass("demo", *words, **options))
    while not saying.done():
        await windlass.world.run(1)
        await asyncio.sleep(0.01)
    return saying.result()


async def names(windlass):
    return [one["name"] for one in (await windlass.done("project", "list"))["results"]]


async def test_one_command_leads_to_the_address_of_a_running_demo(windlass):
    said = await demo(windlass)
    assert said.code == 0, said
    assert said.json["url"].startswith("http")
    assert [line for line in said.err.splitlines() if line.startswith("db: ")][-1] == "db: RUNNING"
    assert [line for line in said.err.splitlines() if line.startswith("guestbook: ")][
        -1
    ] == "guestbook: RUNNING"
    made = await windlass.done("application", "get", said.json["application_id"])
    assert made["git_repository"]["url"] == "https://windlass.invalid/demo.git"


async def test_the_demo_ends_with_the_address_in_a_terminal(windlass):
    said = await demo(windlass, "--text")
    [line] = [line for line in said.out.splitlines() if line]
    assert line.startswith("Open http")


async def test_a_repeated_demo_changes_nothing_and_resumes(windlass):
    first = await demo(windlass)
    again = await demo(windlass)
    assert again.json == first.json
    assert again.err.splitlines() == ["db: runs already", "guestbook: runs already"]
    await windlass.done("application", "delete", first.json["application_id"])
    await windlass.world.settle()
    third = await demo(windlass)
    assert third.json["database_id"] == first.json["database_id"]
    assert third.json["application_id"] != first.json["application_id"]


async def test_the_demonstration_is_removed_and_removal_can_be_repeated(windlass):
    await demo(windlass)
    assert (await demo(windlass, "--remove")).code == 0
    assert await names(windlass) == []
    again = await demo(windlass, "--remove")
    assert (again.code, again.err) == (0, "There is no demonstration here.\n")


@pytest.mark.parametrize("words", [(), ("--remove",)])
async def test_demo_refuses_to_use_an_existing_unrelated_project_named_demo(windlass, words):
    await windlass.done("project", "create", "--name", "Demo", "--description", "Mine")
    said = await demo(windlass, *words)
    assert said.code == 1
    assert "--project" in said.err
    assert (await windlass.done("project", "list"))["results"][0]["description"] == "Mine"
    if not words:
        assert (await demo(windlass, "--project", "demo-2")).code == 0
        assert await names(windlass) == ["Demo", "demo-2"]


async def test_a_failure_is_shown_with_its_reason(windlass):
    windlass.world.engine.broken = True
    said = await demo(windlass)
    assert said.code == 1
    assert "db: ERROR" in said.err
    assert said.out == ""
    assert said.err.splitlines()[-1].startswith("windlass: db does not run: ")


async def test_a_missing_server_is_reported_with_the_command_to_start_one():
    said = await asyncio.to_thread(say, "demo", url="http://127.0.0.1:1")
    assert said.code == 1
    assert "windlass serve" in said.err


async def test_the_demo_is_listed_with_the_other_commands():
    said = await asyncio.to_thread(say, "--help")
    assert "demo " in said.out
    assert "--remove" in (await asyncio.to_thread(say, "demo", "--help")).out
