"""`windlass login` keeps a token that was tried, and commands use it until `logout`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.listener import listening
from tests.cli.said import Said, say
from tests.commands.on_a_terminal import on_a_terminal
from tests.tokens import ADMIN


class Terminal:
    """A terminal without variables, whose user has a home."""

    def __init__(self, url: str, home: Path) -> None:
        self.url = url
        self.home = home

    async def __call__(self, *words: str, **options: Any) -> Said:
        return await asyncio.to_thread(say, *words, **{"token": None, "home": self.home} | options)


@pytest.fixture
def login(windlass, tmp_path):
    return Terminal(windlass.url, tmp_path)


def kept(login: Terminal) -> dict[str, Any]:
    file = login.home / "windlass/contexts.json"
    contexts: dict[str, Any] = json.loads(file.read_text())["contexts"] if file.exists() else {}
    return contexts


async def test_after_a_login_commands_need_neither_address_nor_token(login):
    said = await login("login", login.url, "--token-stdin", stdin=f"{ADMIN}\n")
    assert (said.code, said.json["url"], said.json["organization"]) == (0, login.url, "default"), said
    assert (await login("project", "list")).json == {"results": []}
    assert ADMIN not in said.out + said.err


async def test_login_does_not_save_a_token_that_the_server_refuses(login):
    said = await login("login", login.url, "--token-stdin", stdin="wrong")
    assert (said.code, said.err) == (
        1,
        f"windlass: check the token, or make another one: {login.url} refuses it. Nothing was saved\n",
    )
    assert kept(login) == {}


async def test_login_does_not_save_an_unreachable_server(login):
    said = await login("login", "http://127.0.0.1:1", "--token-stdin", stdin=ADMIN)
    assert said.code == 1
    assert kept(login) == {}


@pytest.mark.parametrize("typed", ["", "two words", "a\x07b", "é" * 40])
async def test_a_malformed_token_is_refused_before_it_is_sent(login, typed):
    said = await login("login", login.url, "--token-stdin", stdin=typed)
    assert (said.code, "give one token" in said.err) == (2, True), said


async def test_without_a_terminal_the_token_comes_from_standard_input(login):
    said = await login("login", login.url)
    assert (said.code, "--token-stdin" in said.err) == (2, True), said


async def test_login_prompts_for_the_token_without_echo(login):
    shown = await asyncio.to_thread(
        on_a_terminal,
        *("login", login.url),
        url="",
        typed=f"{ADMIN}\n",
        after="Token: ",
        XDG_CONFIG_HOME=str(login.home),
        WINDLASS_TOKEN="",
    )
    assert f"Logged in to {login.url}, organization default" in shown
    assert ADMIN not in shown
    assert [saved["token"] for saved in kept(login).values()] == [ADMIN]


async def test_after_a_logout_the_token_is_gone(login):
    await login("login", login.url, "--token-stdin", "--name", "mine", stdin=ADMIN)
    said = await login("logout")
    assert said.json == {"context": "mine", "url": login.url}
    assert ADMIN not in (login.home / "windlass/contexts.json").read_text()
    refused = await login("project", "list", url=login.url)
    assert (refused.code, "windlass login" in refused.err) == (1, True), refused


async def test_a_saved_login_token_is_not_sent_to_another_server(login):
    await login("login", login.url, "--token-stdin", stdin=ADMIN)
    with listening() as other:
        await login("project", "list", url=other.url)
        assert other.heard
        assert not any("authorization" in {name.lower() for name in one.headers} for one in other.heard)


async def test_environment_variables_take_precedence_over_a_saved_login(login):
    await login("login", login.url, "--token-stdin", stdin=ADMIN)
    with listening() as other:
        await login("project", "list", url=other.url, token="of-the-environment")
        assert "Token of-the-environment" in str(other.heard[0].headers)


async def test_contexts_are_listed_chosen_and_removed(login):
    for name in ("a", "b"):
        await login("login", login.url, "--token-stdin", "--name", name, stdin=ADMIN)
    assert [row["current"] for row in (await login("context")).json["results"]] == [False, True]
    assert (await login("context", "use", "a")).code == 0
    shown = await login("context", "list", "--text")
    assert [line.split()[0] for line in shown.out.splitlines()] == ["NAME", "a", "b"]
    assert (await login("context", "remove", "b")).code == 0
    assert [*kept(login)] == ["a"]
    said = await login("--context", "b", "project", "list")
    assert (said.code, said.err) == (2, "windlass: choose another context than 'b': a\n")


async def test_a_context_name_in_use_for_another_server_is_refused(login):
    await login("login", login.url, "--token-stdin", "--name", "mine", stdin=ADMIN)
    said = await login(
        "login", login.url.replace("127.0.0.1", "localhost"), "--token-stdin", "--name", "mine", stdin=ADMIN
    )
    assert (said.code, "--name" in said.err) == (2, True), said


async def test_login_warns_about_environment_variables_that_take_precedence(login):
    said = await login("login", login.url, "--token-stdin", stdin=ADMIN, token=ADMIN)
    assert said.err.endswith(
        "Run `unset WINDLASS_TOKEN` to use it in this terminal: variables win over it.\n"
    )
