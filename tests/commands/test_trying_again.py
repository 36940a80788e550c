"""A deployment that fails ends with the command that tries again."""

from __future__ import annotations

import pytest

from tests.commands.test_stories import shop
from tests.commands.waits import meanwhile
from windlass.cli.confirmed_links import note_link
from windlass.cli.linked_folder import FolderLink, write_link


@pytest.fixture
async def linked(windlass, tmp_path, monkeypatch):
    """A command line in a linked folder with a program, whose service runs."""
    id = await shop(windlass)
    (tmp_path / "app.py").write_text("from flask import Flask\napp = Flask(__name__)\n")
    (tmp_path / "requirements.txt").write_text("flask\n")
    monkeypatch.chdir(tmp_path)
    link = FolderLink(project="shop", environment="production", application="web")
    write_link(tmp_path, link)
    note_link(tmp_path, link)
    await windlass.world.post(f"/application/{id}/deploy")
    await windlass.world.settle()
    return windlass


@pytest.mark.parametrize(
    ("words", "retry"),
    [
        (("up",), "windlass up"),
        (("up", "web"), "windlass up web"),
        (("deploy",), "windlass deploy"),
        (("deploy", "web", "-e", "shop/production"), "windlass deploy web -e shop/production"),
    ],
)
async def test_a_failure_ends_with_the_line_that_tries_again(linked, words, retry):
    linked.world.git.push("with a mistake")
    linked.world.builder.broken = "Correct requirements.txt: it has no package flaks"
    said = await meanwhile(linked, *words)
    assert said.code == 1
    assert said.err.splitlines()[-1] == f"Then try again: {retry}"
    linked.world.builder.broken = ""
    assert (await meanwhile(linked, *retry.split()[1:])).code == 0


async def test_a_failure_message_that_already_names_the_retry_command_does_not_repeat_it(linked):
    linked.world.git.push("with a mistake")
    linked.world.builder.broken = "Commit the file app.py, and use `windlass deploy`: it is not there"
    said = await meanwhile(linked, "deploy")
    assert (said.code, "Then try again" in said.err) == (1, False), said


async def test_a_rollback_that_fails_names_no_command_that_would_deploy_something_else(linked):
    linked.world.git.push("second")
    await meanwhile(linked, "deploy")
    linked.world.engine.exits = "it ended with exit code 3"
    said = await meanwhile(linked, "rollback")
    assert (said.code, "Then try again" in said.err) == (1, False), said
